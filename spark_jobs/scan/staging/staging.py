"""Copies source files that match a pattern to a local folder, from which they are read.

A `SourceStaging` belongs to one run. It holds the lock of every copy that the run reads, shared with other runs, until
it is closed. A copy is made by one run alone, while no other reads it; runs that wait meanwhile take what it made. All
runs stage their files in the order of `turn`, so that no two wait for each other. Only the bytes come from copies:
records, dead letters and messages still name the files of the source.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_jobs.disk.locks import FileLock
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError, InputFile
from spark_jobs.scan.staging import purge
from spark_jobs.scan.staging.staged_copy import Cleanup, Manifest, OnExisting, Settings, StagedCopy, Verify, real_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime


CHUNK_BYTES = 1 << 20
_ATTEMPTS = 8
_PAUSE_S = 0.05
_REMEDY = "run again over a healthy transport, or stage from a snapshot that does not change"


class Refused(Exception):
    """A file that is not staged although nothing is wrong with disks; its run ends before any record flows.

    Args:
        code: E335, E336 or E337.
        message: what and why.
        setting: the key of `[storage.staging]` that decides about it.
    """

    def __init__(self, code: str, message: str, setting: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.setting = setting


def turn(file: InputFile) -> str:
    """When a file is staged, compared with others: one order for all runs.

    A run that waits for a copy holds only copies of earlier turns. So the run for which it waits can itself wait only
    for a later turn, or for none.
    """
    return real_path(file.path)


@dataclass(frozen=True)
class _Held:
    copy: StagedCopy
    size: int
    lock: FileLock


@dataclass
class SourceStaging:
    """The staged copies of a run.

    Args:
        settings: the settings of staging.
        started: when the run began, UTC: copies that are younger were made for it as well.
        say: gets a notice, once per file, when the run has to wait for others.
        copied_files: how many files it copied, `copied_bytes` their bytes.
        reused_files: how many it found staged.
    """

    settings: Settings
    started: datetime
    say: Callable[[str], None] = lambda text: None
    copied_files: int = 0
    copied_bytes: int = 0
    reused_files: int = 0
    _held: dict[str, _Held] = field(default_factory=dict)
    _made: dict[str, Manifest] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.copied_files} copied ({self.copied_bytes} bytes), {self.reused_files} used again"

    def purge(self) -> list[str]:
        """Remove what dead runs left in the folder; gives what could not be removed, to warn of."""
        return purge.purge(self.settings.folder)

    def stage(self, file: InputFile) -> InputFile:
        """A file as it is read: its copy where a pattern matches, else the file itself. Files come by their `turn`.

        Raises:
            Refused: the copy is corrupt, too large for the cap, or one exists that must not be.
            FormatError: the file cannot be read, or changed (E907), or the folder not written.
        """
        if not self.settings.wants(file):
            return file
        copy = StagedCopy.of(self.settings.folder, file.path)
        held = self._held.get(copy.id)
        if held is None:
            try:
                held = self._held[copy.id] = _Held(copy, file.size, self._acquire(copy, file))
            except OSError as error:
                reason = error.strerror or str(error)
                raise FormatError(f"cannot be staged in {self.settings.folder}: {reason}", file.name) from error
        # Two sources may have looked at one file at different times: both read what was staged.
        read = InputFile.of(str(copy.data), file.name, copy.data.stat())
        return replace(read, size=held.size, source_file=file.source_file, origin=file.path)

    def close(self, *, succeeded: bool) -> list[str]:
        """Let go of the copies, and remove those that `cleanup` says; gives what could not be removed, to warn of.

        A copy that another run reads stays: the last one that lets go removes it.
        """
        problems: list[str] = []
        for held in self._held.values():
            try:
                if self._is_removed(succeeded=succeeded) and held.lock.strengthen():
                    held.copy.discard()
            except OSError as error:
                problems.append(f"the staged copy {held.copy.data} is not removed: {error.strerror or error}")
            finally:
                held.lock.close()
        self._held.clear()
        return problems

    def _is_removed(self, *, succeeded: bool) -> bool:
        match self.settings.cleanup:
            case Cleanup.ON_SUCCESS:
                return succeeded
            case Cleanup.ALWAYS:
                return True
            case Cleanup.NEVER:
                return False

    # ---- finding or making a copy ----------------------------------------------------------------------------------

    def _acquire(self, copy: StagedCopy, file: InputFile) -> FileLock:
        """The shared lock of a copy that may be read; makes the copy where there is none."""
        made, waits = 0, False
        while made < _ATTEMPTS:
            lock = FileLock.shared(copy.lock)
            try:
                if self._is_usable(copy, file):
                    self.reused_files += not made
                    return lock
                self._refuse_existing(copy, file)
            except BaseException:
                lock.close()
                raise
            lock.close()
            alone = FileLock.exclusive(copy.lock)
            if alone is None:  # an earlier copy is being read, or another run copies
                if not waits:
                    self.say(f"{file.name}: waiting for other runs that read or write its staged copy")
                waits = True
                time.sleep(_PAUSE_S)
                continue
            kept = False
            try:
                if not self._is_usable(copy, file):
                    self._refuse_existing(copy, file)
                    self._make(copy, file)
                    made += 1
                # Sharing the lock frees it for a moment, in which another run may have removed the copy.
                kept = alone.weaken() and self._is_usable(copy, file)
                if kept:
                    self.reused_files += not made
                    return alone
            finally:
                if not kept:
                    alone.close()
        raise OSError(f"other runs removed the copy {_ATTEMPTS} times")

    def _is_usable(self, copy: StagedCopy, file: InputFile) -> bool:
        """True if a copy is what the source holds, and of an age that `on_existing` accepts."""
        manifest = copy.committed()
        if manifest is None or not manifest.is_fresh(file):
            return False
        is_own = manifest == self._made.get(copy.id)  # whatever the clock did meanwhile
        return is_own or self.settings.on_existing is OnExisting.REUSE or manifest.is_younger(self.started)

    def _refuse_existing(self, copy: StagedCopy, file: InputFile) -> None:
        if self.settings.on_existing is not OnExisting.ERROR:
            return
        manifest = copy.committed()
        if manifest is not None and not manifest.is_younger(self.started):
            message = (
                f"staging on_existing = error: a staged copy of {file.path} already exists at {copy.data}; remove it, "
                "or set on_existing to overwrite or reuse"
            )
            raise Refused("E337", message, "on_existing")

    def _make(self, copy: StagedCopy, file: InputFile) -> None:
        """Copy a file; the lock is held alone. What fails leaves nothing behind."""
        cap = self.settings.cap_bytes
        if cap is not None and self.copied_bytes + file.size > cap:
            message = (
                f"staging would exceed the configured cap of {cap} bytes "
                f"(already staged {self.copied_bytes}, {file.path} adds {file.size}); raise disk_cap_bytes or narrow "
                "the patterns"
            )
            raise Refused("E336", message, "disk_cap_bytes")
        copy.discard()
        partial = copy.partial(uuid.uuid4().hex)
        try:
            digest = _copied(file, partial)
            changes.check(file)
            if self.settings.verify is Verify.BLAKE3:
                _verify(file, digest)
            os.replace(partial, copy.data)
            copy.sync()
            manifest = self._made[copy.id] = Manifest.of(file, digest)
            copy.commit(manifest)
        except BaseException:
            partial.unlink(missing_ok=True)
            copy.discard()
            raise
        self.copied_files += 1
        self.copied_bytes += file.size


def _copied(file: InputFile, target: os.PathLike[str]) -> str:
    """Copy the bytes that a file had when its source was looked at. Returns their digest."""
    from blake3 import blake3

    hasher = blake3()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        for chunk in _chunks(file):
            hasher.update(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return hasher.hexdigest()


def _verify(file: InputFile, copied: str) -> None:
    """Read the source once more, from where it is stored, and compare."""
    from blake3 import blake3

    hasher = blake3()
    for chunk in _chunks(file, again=True):
        hasher.update(chunk)
    found = hasher.hexdigest()
    if found != copied:
        message = (
            f"staged copy of {file.path} is corrupt: BLAKE3 of the local copy ({copied}) does not match the source "
            f"({found}); {_REMEDY}"
        )
        raise Refused("E335", message, "verify")


def _chunks(file: InputFile, *, again: bool = False) -> Iterator[bytes]:
    """A file's bytes up to its known size; `again` has the system forget what it read before.

    Raises:
        Refused: reading ends too early although the file is not shorter.
        FormatError: the file cannot be read, or became shorter (E907).
    """
    if file.is_object:
        yield from _object_chunks(file)
        return
    left = file.size
    try:
        with open(file.path, "rb", buffering=0) as source:
            if again and hasattr(os, "posix_fadvise"):
                with suppress(OSError):  # an advice that a file system may not take
                    os.posix_fadvise(source.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while left and (chunk := source.read(min(left, CHUNK_BYTES))):
                left -= len(chunk)
                yield chunk
            size = os.fstat(source.fileno()).st_size
    except OSError as error:
        raise FormatError(f"cannot be read for staging: {error.strerror or error}", file.name) from error
    if left and size < file.size:
        raise FormatError("the file became shorter while it was staged", file.name, changes.CHANGED)
    if left:
        got = file.size - left
        message = f"staged copy of {file.path} is corrupt: reading ended after {got} of {file.size} bytes; {_REMEDY}"
        raise Refused("E335", message, "verify")


def _object_chunks(file: InputFile) -> Iterator[bytes]:
    """An object's bytes, as they come from its store.

    Raises:
        FormatError: it cannot be read, or changed (E907).
    """
    with files.translated_errors(file.name), files.open_input(file) as source:
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
