"""A run's draft in a store: parts, then invisible uploads, then the journal, then all files at once."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.execute import logs
from spark_jobs.execute.delivery import destination
from spark_jobs.execute.delivery.destination import Content, PartRange
from spark_jobs.execute.delivery.objects import journal, layout, locks, remains
from spark_jobs.execute.delivery.objects.part_store import ObjectPartStore
from spark_jobs.execute.delivery.objects.recovery import recover
from spark_jobs.execute.delivery.objects.upload_parts import UploadPart, upload_parts
from spark_jobs.execute.delivery.participant import Address, NotCompleted, Rank, StorageAccess
from spark_jobs.execute.spark import spread
from spark_jobs.stores import location
from spark_jobs.stores.location import Location
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.writing import SMALL_BYTES, Upload
from spark_jobs.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartStore
    from spark_jobs.execute.delivery.objects.lease import Lease
    from spark_jobs.stores.writing import Limits, WritableStore

#: A file with more ranges than this is uploaded by tasks, however small it is.
_FEW_RANGES = 64
#: The approximate number of bytes that a task sends, or of parts that it has the store copy.
_TASK_BYTES, _TASK_PARTS = 64 << 20, 16


@dataclass(frozen=True)
class _Sending:
    """An upload part to be sent: its number, and the run's parts in it that must be checked."""

    upload: Upload
    number: int
    part: UploadPart
    checked: tuple[PartRange, ...]


@dataclass
class ObjectDraft:
    """See `FileDraft`.

    Args:
        lease: shows that the run lives.
        run: the execution id.
        home: a local folder for files that are not published.
        before: returns the version of an object that the run saw first; empty if there was none.
        access: access to other places into which dead runs have written.
        tuning: the bytes of small files that the driver sends itself.
    """

    lease: Lease
    run: str
    home: Path
    before: Callable[[Location], str]
    access: StorageAccess = field(default_factory=StorageAccess)
    tuning: Tuning = DEFAULT
    _contents: dict[Location, tuple[str, Content]] = field(default_factory=dict)
    _removals: list[Location] = field(default_factory=list)
    _entries: list[journal.Entry] = field(default_factory=list)
    #: Prepared or decided remains stay: the next run completes or removes them.
    _is_stuck: bool = False
    _is_alone: bool = False
    #: The home stays without a journal, until the next run has removed the remains in other places.
    _stays: bool = False
    _has_uploads: bool = False

    rank = Rank.OBJECTS

    @property
    def store(self) -> WritableStore:
        """The store."""
        return self.lease.store

    @property
    def part_store(self) -> PartStore:
        """See `Draft`."""
        return ObjectPartStore(self.store)

    @property
    def _remains(self) -> remains.Remains:
        return remains.Remains(self.store, self.lease.home, self.lease.folders)

    def parts(self, target: Location) -> str:
        """See `Draft`: in the same bucket, so that the store copies them."""
        folder = layout.homes(self.lease.folders)[target.bucket]
        return str(layout.draft(folder, self.run) / layout.PARTS)

    def assemble(self, target: Location, content: Content) -> None:
        """See `Draft`: tasks do this later, for all files at once."""
        self._contents[target] = uuid.uuid4().hex, content

    def remove(self, target: Location) -> None:
        """See `Draft`."""
        self._removals.append(target)

    def stamps(self) -> dict[str, str]:
        """See `FileDraft`."""
        return {str(target): mark for target, (mark, _) in self._contents.items()}

    def finish(self, spark: SparkSession | None) -> None:
        """See `FileDraft`."""
        self.lease.check()
        before = dict(zip(self._contents, remains.at_once(self.before, self._contents), strict=True))
        remains.at_once(lambda each: _refuse_changed(self.store, *each), before.items())
        small, room = dict[Location, Content](), self.tuning.driver_output_bytes
        for target, (_, content) in self._contents.items():
            if content.size <= min(room, SMALL_BYTES) and len(content.ranges) <= _FEW_RANGES:
                small[target] = content
                room -= content.size
        puts = [
            journal.Put(target, self._contents[target][0], before[target], _bytes(self.part_store, content))
            for target, content in small.items()
        ]
        large = {target: content for target, (_, content) in self._contents.items() if target not in small}
        uploads = self._uploaded(spark, large)
        completions = [
            journal.Completion(target, self._contents[target][0], before[target], upload.id, tuple(tags))
            for target, (upload, tags) in uploads.items()
        ]
        removals = [journal.Removal(target, version) for target in self._removals if (version := self.before(target))]
        self._entries = [*completions, *puts, *removals]

    def _uploaded(
        self, spark: SparkSession | None, contents: dict[Location, Content]
    ) -> dict[Location, tuple[Upload, list[str]]]:
        """Have tasks send files. Returns each file's upload, and the tags of its parts."""
        if not contents:
            return {}
        self._has_uploads = True
        there = remains.at_once(partial(remains.pending, self.store), contents)
        known = {target: [each.id for each in found] for target, found in zip(contents, there, strict=True)}
        self._remains.note_uploads(known)
        begun = remains.at_once(self._begun, contents)
        uploads = dict(zip(contents, begun, strict=True))
        sendings = [
            each
            for target, content in contents.items()
            for each in _sendings(uploads[target], content, self.store.limits(target))
        ]
        batches = [*_batches(sendings)]
        send = partial(_send, self.part_store, self.store)
        answers = (
            spread.parallel_map(spark, send, batches, reraised=(OSError,))
            if spark
            else [send(each) for each in batches]
        )
        tags = iter([tag for answer in answers for tag in answer])
        found: dict[Location, tuple[Upload, list[str]]] = {target: (upload, []) for target, upload in uploads.items()}
        for each in sendings:
            found[each.upload.location][1].append(next(tags))
        return found

    def _begun(self, target: Location) -> Upload:
        return self.store.begin(target, layout.depot(self.lease.folders, target, self.run), self._contents[target][0])

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """See `FileDraft`."""
        held: list[Location] = []
        try:
            for folder in sorted(self.lease.folders, key=str):  # all runs take locks in the same order
                locks.take(self.lease, folder, self.run, self.access)
                held.append(folder)
            for folder in held:
                recover(self.store, folder, self.run, self.access)
            yield
        finally:
            try:
                if self._has_uploads and not self._is_stuck and not self.lease.is_lost:
                    self._remains.abort_uploads()
                for folder in held:
                    locks.give_back(self.lease, folder)
            except StoreError as error:
                logs.LOG.warning("the next run that writes there removes the rest: %s", error)

    @property
    def has_changes(self) -> bool:
        """See `FileDraft`."""
        return bool(self._entries)

    @property
    def address(self) -> Address:
        """See `Participant`."""
        return Address("objects", str(self.lease.home), self.run)

    @property
    def label(self) -> str:
        """See `Participant`."""
        return str(self.lease.folders[0])

    def prepare(self, home: Address | None) -> None:
        """See `Participant`: the uploads exist, and a journal for completing them is written next to them."""
        self.lease.check()
        if home is None:
            self._is_alone = True
            self.decide(())
            return
        self._is_stuck = True
        self.store.put(self.lease.home / layout.PREPARED, journal.text(self._entries, by=home), uuid.uuid4().hex)
        self.lease.check()  # if this process was suspended, others may have removed its uploads

    def announce(self, others: Sequence[Address]) -> None:
        """See `Home`."""
        self.lease.check()
        self.store.put(self.lease.home / layout.ANNOUNCED, journal.announced(others))

    def decide(self, others: Sequence[Address]) -> None:
        """See `Home`."""
        self.lease.check()
        self._is_stuck = True
        self.store.put(self.lease.home / layout.JOURNAL, journal.text(self._entries, others), uuid.uuid4().hex)

    def complete(self) -> None:
        """See `Participant`. The first file decides whether something is visible."""
        self.lease.check()
        first, *others = self._entries
        if (error := self._apply(first)) and not journal.is_done(self.store, first):
            self._is_stuck = _can_be_later([error])
            raise NotCompleted(error, is_visible=False, can_be_later=self._is_stuck) from error
        problems = [error for error in remains.at_once(self._apply, others) if error is not None]
        self._is_stuck = _can_be_later(problems)
        if problems:
            done = len(self._entries) - len(problems)
            text = f"{problems[0].message}; {done} of {len(self._entries)} files of this run are published already"
            if self._is_stuck:
                text += ", and the next run that writes there publishes the others"
            found = StoreError(problems[0].kind, text, problems[0].uri)
            raise NotCompleted(found, is_visible=True, can_be_later=self._is_stuck)
        if self._is_alone:
            self.forget()

    def is_completed(self) -> bool:
        """See `Participant`."""
        return all(remains.at_once(partial(journal.is_done, self.store), self._entries))

    def take_back(self) -> bool:
        """See `Home`."""
        try:
            self.store.delete(self.lease.home / layout.JOURNAL)
        except StoreError:
            self._is_stuck = True
            return False
        self._is_stuck = False
        return True

    def give_up(self) -> None:
        """See `Participant`: everything else is removed when the draft is closed."""
        if not self._is_alone:
            self.store.delete(self.lease.home / layout.PREPARED)
        elif not self.take_back():
            text = "the next run that writes there publishes the files of this run, from %s"
            logs.LOG.warning(text, self.lease.home)
            return
        self._is_stuck = False

    def forget(self) -> None:
        """See `Home`: the files exist and the run has succeeded, so an error here does not undo that."""
        try:
            self.store.delete(self.lease.home / layout.JOURNAL)
        except StoreError as error:
            logs.LOG.warning("the files are published, but: %s", error)
        self._is_stuck = False

    def stay(self) -> None:
        """See `Home`."""
        self._stays = True

    def close(self, *, failed: bool) -> None:
        """See `FileDraft`. A store has no folders to remove."""
        del failed
        try:
            if self._is_stuck or self._stays:
                self.lease.give_up()
            elif self.lease.is_lost:
                self.lease.stop()
            else:
                self._remains.clear()
                self.lease.stop()
                self.store.delete(self.lease.home / layout.LEASE)
        except StoreError as error:
            self.lease.stop()
            logs.LOG.warning("%s is left to the next run that writes there: %s", self.lease.home, error)

    def _apply(self, entry: journal.Entry) -> StoreError | None:
        """Publish a file. Returns the error if that fails."""
        try:
            journal.apply(self.store, entry, keeps_conditions=self.lease.keeps_conditions)
        except StoreError as error:
            return None if self._is_done(entry) else error
        return None

    def _is_done(self, entry: journal.Entry) -> bool:
        try:
            return journal.is_done(self.store, entry)
        except StoreError:
            return False


def _can_be_later(problems: Sequence[StoreError]) -> bool:
    """True if the next run can complete some of the failed steps. Objects that others have written meanwhile stay."""
    return any(error.kind not in (Kind.TAKEN, Kind.MISSING) for error in problems)


def _refuse_changed(store: WritableStore, target: Location, before: str) -> None:
    """Stop before anything is sent if an object is not the one that the run saw first."""
    found = store.look(target)
    if (found.version if found else "") != before:
        raise journal.taken_error(target)


def _bytes(part_store: PartStore, content: Content) -> bytes:
    remains.at_once(partial(destination.check, part_store), content.whole_parts)
    return b"".join(remains.at_once(partial(destination.read, part_store), content.laid_out()))


def _sendings(upload: Upload, content: Content, limits: Limits) -> Iterator[_Sending]:
    """The parts to send for a file. Each part file of the run is checked when its first byte is sent."""
    wholes = {part_range.path: part_range for part_range in content.whole_parts}
    for number, part in enumerate(upload_parts(content.laid_out(), content.size, limits), 1):
        first = [each.path for each in part.segments if isinstance(each, PartRange) and not each.start]
        yield _Sending(upload, number, part, tuple(wholes[path] for path in dict.fromkeys(first) if path in wholes))


def _batches(sendings: Sequence[_Sending]) -> Iterator[tuple[_Sending, ...]]:
    """Group neighboring parts into tasks."""
    held: list[_Sending] = []
    size = 0
    for each in sendings:
        held.append(each)
        size += 0 if each.part.copied else each.part.size
        if size >= _TASK_BYTES or len(held) == _TASK_PARTS:
            yield tuple(held)
            held, size = [], 0
    if held:
        yield tuple(held)


def _send(part_store: PartStore, store: WritableStore, batch: Sequence[_Sending]) -> list[str]:
    """Send parts, or have the store copy them. Returns their tags."""
    tags = []
    for each in batch:
        remains.at_once(partial(destination.check, part_store), each.checked)
        part_range = each.part.copied
        if part_range is not None:
            end = part_range.start + part_range.size
            tags.append(store.copy(each.upload, each.number, location.parse(part_range.path), part_range.start, end))
        else:
            data = remains.at_once(partial(destination.read, part_store), each.part.segments)
            tags.append(store.send(each.upload, each.number, b"".join(data)))
    return tags
