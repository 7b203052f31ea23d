"""The lease of a run: an object that is rewritten every few seconds while the run is alive.

A run is dead if its lease was not renewed for a minute by the store's clock, since the clocks of machines may differ.
On its own machine, the end of its process shows this at once. Recovery takes over the lease of a dead run on condition
that it is unchanged, so only one process recovers. A run that was only suspended finds its lease taken, and stops.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from spark_jobs.execute import logs
from spark_jobs.execute.delivery.objects import layout
from spark_jobs.stores import location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.stores.location import Location
    from spark_jobs.stores.writing import WritableStore

#: The interval of renewals, and the time that a lease is valid, in seconds.
RENEWAL_S = 10.0
LEASE_S = 60.0


@dataclass(frozen=True)
class ExistingLease:
    """The lease found in a home.

    Args:
        version: its version.
        folders: the folders into which its run publishes, the home's first.
        is_dead: its run is dead.
    """

    version: str
    folders: tuple[Location, ...]
    is_dead: bool


def find(store: WritableStore, home: Location) -> ExistingLease | None:
    """The lease in a home; None if there is none.

    Raises:
        StoreError: it cannot be read, or is no lease.
    """
    place = home / layout.LEASE
    look = store.look(place)
    data = store.get(place) if look is not None else None
    if look is None or data is None:
        return None
    try:
        fields = json.loads(data)
        folders = tuple(location.parse(each) for each in fields["folders"])
        is_same_machine = fields["machine"] == _machine()
        is_gone = fields["ended"] or (is_same_machine and _process(fields["process"]) != fields["since"])
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(Kind.FAILED, "is no lease of a run: look at it, and remove it", str(place)) from error
    return ExistingLease(look.version, folders, bool(is_gone) or look.age_s > LEASE_S)


@dataclass
class Lease:
    """The lease of this process on a home."""

    store: WritableStore
    home: Location
    folders: Sequence[Location]
    #: The store enforces conditions. Without them two processes can hold a lease.
    keeps_conditions: bool = True
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _version: str = ""
    _renewed: float = 0.0
    _count: int = 0
    _is_lost: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    def take(self, version: str = ABSENT) -> None:
        """Write the lease, and keep renewing it.

        Args:
            version: the version of a dead run's lease that is taken over.

        Raises:
            StoreError: somebody else has it (`Kind.TAKEN`), or the store refuses.
        """
        try:
            self._write(version)
            self.keeps_conditions = self._is_conditional()
        except StoreError as error:
            if error.kind is not Kind.UNSUPPORTED:
                raise
            self.keeps_conditions = False
            self._write(None)
        self._thread = threading.Thread(target=self._renew, name="clinker-lease", daemon=True)
        self._thread.start()

    def _is_conditional(self) -> bool:
        """True if the store enforces conditions: it refuses to create an object that already exists."""
        try:
            self._write(ABSENT)
        except StoreError as error:
            if error.kind is Kind.TAKEN:
                return True
            raise
        return False

    def check(self) -> None:
        """Stop if the lease is lost.

        Raises:
            StoreError: somebody else has it, or it has expired.
        """
        if self._is_lost or time.monotonic() - self._renewed > LEASE_S:
            text = f"this run could not renew its lease for {LEASE_S:.0f} s, and others take it for dead; run again"
            raise StoreError(Kind.TAKEN, text, str(self.home))

    @property
    def is_lost(self) -> bool:
        """True if somebody else has taken it."""
        return self._is_lost

    def stop(self) -> None:
        """Stop renewing it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=RENEWAL_S)

    def give_up(self) -> None:
        """Mark the run as ended, so that recovery need not wait."""
        self.stop()
        self._write(self._version if self.keeps_conditions else None, ended=True)

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL_S):
            try:
                self._write(self._version if self.keeps_conditions else None)
            except StoreError as error:
                self._is_lost = self._is_lost or error.kind is Kind.TAKEN
                logs.LOG.debug("the lease is not renewed: %s", error)
                if self._is_lost:
                    return

    def _write(self, when: str | None, *, ended: bool = False) -> None:
        with self._lock:
            self._count += 1
            fields: dict[str, Any] = {
                "folders": [str(each) for each in self.folders],
                "machine": _machine(),
                "process": os.getpid(),
                "since": _process(os.getpid()),
                "renewed": self._count,
                "ended": ended,
            }
            started = time.monotonic()
            data, mark = json.dumps(fields).encode(), f"{self._mark}-{self._count}"
            self._version = self.store.put(self.home / layout.LEASE, data, mark, when)
            self._renewed = started


@cache
def _machine() -> str:
    """An identifier that differs between machines, and between containers with separate processes."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex


def _process(number: int) -> str:
    """The start time of a process, to tell it from a later one with the same id; empty without a process."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == b"Z" else fields[19].decode()
