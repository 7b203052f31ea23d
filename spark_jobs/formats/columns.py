"""Matches the columns of each file of a source with the declared ones, before any record is read.

The tracker reads the head of each file, in the order of the files, and gives one `FilePlan` per file. A declared column
takes the field with exactly its name, else one that differs in letter case only. Missing columns are null; undeclared
ones are carried in first-seen order over the files, dropped, or rejected. Files of zero bytes are skipped, and never
fix a schema. The rules are in `docs/semantics/files.md`, "Matching columns".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.cxl import types
from spark_jobs.formats import misread
from spark_jobs.formats.format import FileColumns
from spark_jobs.limits import FILE_COLUMNS
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from spark_jobs.scan.files import InputFile

#: The diagnostic for files whose columns cannot be matched with the columns of their source.
MISFIT = "E217"
_TEXT = types.STRING.or_null()


class OnUnmapped(StrEnum):
    """The policy for columns that the source does not declare."""

    AUTO_WIDEN = "auto_widen"
    DROP = "drop"
    REJECT = "reject"


@dataclass(frozen=True)
class FilePlan:
    """The plan for reading a file.

    Args:
        file: the file.
        columns: which field feeds which column.
        data_start: where the first record after the header begins, in bytes of the file as UTF-8.
        is_splittable: whether parts of the file can be read on their own.
        layout: how records stand in the file, where the format has several ways.
        known: the undeclared names in the first records of this file and of the files before it, if only first records
            were inspected; the file's reader then reports further names (`SplitOutcome.has_news`). None: all undeclared
            names are known.
        arrays: the names that are arrays in all files of the source, where records do not tell of themselves.
        data_end: where the records end, in bytes, where something follows them; None where the file ends there.
        headers: the records that name columns, where records that repeat them are left out.
    """

    file: InputFile
    columns: FileColumns
    data_start: int
    is_splittable: bool
    layout: StrEnum | None = None
    known: tuple[str, ...] | None = None
    arrays: tuple[str, ...] = ()
    data_end: int | None = None
    headers: tuple[bytes, ...] = ()

    @property
    def end(self) -> int:
        """The offset of the end of the records, in bytes of the file."""
        return self.file.size if self.data_end is None else self.data_end

    @property
    def is_whole(self) -> bool:
        """Whether one task has to read all of the file."""
        return not self.is_splittable or self.file.is_compressed


@dataclass(frozen=True)
class ScanPlan:
    """The plan for reading all files of a source.

    Args:
        files: the files that have something to read, in their order.
        undeclared: the undeclared columns that records carry, in first-seen order over the files.
        dropped: the undeclared columns that are left out, in first-seen order.
        missing: for each declared column that some files lack, in how many.
        nowhere: the declared columns that no file has.
        skipped: the names of the files of zero bytes.
        warnings: messages for the user: header names that match in another letter case, declared columns in no file.
        undeclared_type: the type of the undeclared columns: texts, or values of any kind.
        origins: for each undeclared column, carried or left out, the first file that has it.
    """

    files: tuple[FilePlan, ...]
    undeclared: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    missing: tuple[tuple[str, int], ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    undeclared_type: types.Type = _TEXT
    origins: tuple[tuple[str, str], ...] = ()
    nowhere: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The version of the columns: 1 as declared, and one more for each file that brought new ones."""
        return 1 + len({file for _, file in self.origins})

    def facts(self) -> dict[str, Any]:
        """The facts about the scan for metrics."""
        return {
            "files_total": len(self.files) + len(self.skipped),
            "files_skipped_empty": len(self.skipped),
            "columns_discovered": dict(self.origins),
            "columns_dropped": list(self.dropped),
            "columns_missing": dict(self.missing),
            "columns_nowhere": list(self.nowhere),
            "schema_version": self.version,
        }


def refuse_taken(scan: ScanPlan, renamed: Collection[str]) -> None:
    """Undeclared columns must not be called like a declared one that stands in the files under an alias.

    Raises:
        FormatError: one is, and would be carried beside it (E217).
    """
    for name, file in scan.origins:
        if name in renamed and name in scan.undeclared:
            message = (
                f"the file has an undeclared column '{name}', and the source gives that name to another one "
                "(`alias`); rename it, or let `on_unmapped: drop` leave it out"
            )
            raise FormatError(message, file, MISFIT)


def too_many(file: str) -> FormatError:
    """A file that has more columns than a run can carry."""
    message = (
        f"there are more than {FILE_COLUMNS:,} columns, which is not a table; if names are values, declare the object "
        "that contains them as a `map`"
    )
    return FormatError(message, file, MISFIT)


class ColumnTracker:
    """Follows the columns of a source over its files."""

    def __init__(self, declared: Sequence[str], on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN) -> None:
        self._declared = tuple(declared)
        self._on_unmapped = on_unmapped
        #: Undeclared columns with the file that brought each.
        self._extras: dict[str, str] = {}
        self._missing: dict[str, int] = {}
        self._warnings: dict[str, None] = {}
        self._nowhere: dict[str, None] = {}
        self._files = 0
        self._matched: tuple[Sequence[str], list[int | None]] = ((), self._matches(()))
        self._first: tuple[str, str] | None = None

    def has_any(self, names: Sequence[str]) -> bool:
        """Whether some declared column is among a file's."""
        return any(field is not None for field in self._match(names))

    def see(self, file: str, names: Sequence[str], header: str = "") -> None:
        """Note a file's columns; `header` is what names them, if its records do not do so by their places.

        Raises:
            FormatError: an undeclared column is rejected, or there are too many (E217).
        """
        if len(names) > FILE_COLUMNS:
            raise too_many(file)
        matched = self._match(names)
        self._first = self._first or (file, header)
        self._files += 1
        for column, field in zip(self._declared, matched, strict=True):
            if field is None:
                self._missing[column] = self._missing.get(column, 0) + 1
            elif names[field] != column:
                warning = f"{file}: column '{names[field]}' is read as '{column}', which differs in letter case"
                self._warnings[warning] = None
        declared = set(matched)
        for field, name in enumerate(names):
            if field not in declared:
                self.note_undeclared(file, name)

    def note_undeclared(self, file: str, name: str) -> None:
        """Note a column that the source does not declare.

        Raises:
            FormatError: such columns are rejected, or there are too many (E217).
        """
        if self._on_unmapped is OnUnmapped.REJECT:
            listed = ", ".join(self._declared)
            message = f"the file has an undeclared column '{name}' (expected {listed})"
            raise FormatError(message, file, MISFIT)
        self._extras.setdefault(name, file)
        if len(self._extras) > FILE_COLUMNS:
            raise too_many(file)

    def note_missing(self, names: Iterable[str]) -> None:
        """Note the declared columns that a file lacks."""
        for column in names:
            self._missing[column] = self._missing.get(column, 0) + 1

    def warn(self, text: str) -> None:
        """Add a warning about the files for the user."""
        self._warnings[text] = None

    def note_nowhere(self, column: str, warning: str) -> None:
        """Note that no file has a declared column."""
        self._nowhere[column] = None
        self.warn(warning)

    def _match(self, names: Sequence[str]) -> list[int | None]:
        """For each declared column its field: the exact name, else a free one that differs in letter case only.

        Files mostly have the columns of the one before.
        """
        if names != self._matched[0]:
            self._matched = (names, self._matches(names))
        return self._matched[1]

    def _matches(self, names: Sequence[str]) -> list[int | None]:
        exact = {name: field for field, name in enumerate(names)}
        taken = {exact[column] for column in self._declared if column in exact}
        folded: dict[str, int] = {}
        for field, name in enumerate(names):
            if field not in taken:
                folded.setdefault(name.casefold(), field)
        return [exact[column] if column in exact else folded.pop(column.casefold(), None) for column in self._declared]

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The undeclared columns that records carry, as far as seen."""
        return tuple(self._extras) if self._on_unmapped is OnUnmapped.AUTO_WIDEN else ()

    def columns(self, names: Sequence[str]) -> FileColumns:
        """Map the fields of a file to columns; valid once all files were seen."""
        matched = self._match(names)
        declared = set(matched)
        extras = {name: field for field, name in enumerate(names) if field not in declared}
        return FileColumns(len(names), tuple(matched), tuple(extras.get(name) for name in self.undeclared))

    def plan(
        self, plans: tuple[FilePlan, ...], skipped: Sequence[str] = (), undeclared_type: types.Type = _TEXT
    ) -> ScanPlan:
        """The plan of the source, with what there is to say about its files."""
        dropped = tuple(self._extras) if self._on_unmapped is OnUnmapped.DROP else ()
        missing = tuple((column, self._missing[column]) for column in self._declared if column in self._missing)
        self._note_unknown()
        origins = tuple(self._extras.items())
        return ScanPlan(
            plans, self.undeclared, dropped, missing, tuple(skipped), tuple(self._warnings), undeclared_type, origins,
            tuple(self._nowhere),
        )  # fmt: skip

    def _note_unknown(self) -> None:
        """Warn of declared columns that no header has."""
        if self._first is None:
            return
        file, header = self._first
        for column in self._declared:
            if self._missing.get(column) == self._files:
                others = self._extras
                text = misread.missing(column, file, header, others) if header else None
                self.note_nowhere(column, text or misread.missing_member(column, others))
