"""The options of Iceberg sources and outputs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from spark_jobs.formats.format import Format
from spark_jobs.formats.options import Between, Listed, Options
from spark_jobs.formats.parquet.options import PageCompression
from spark_jobs.formats.tables import columns, modes, moments, partitions
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.typed import counterparts
from spark_jobs.scan.bookmarks import Growth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from spark_jobs.cxl.types import Type

_MOST_SNAPSHOTS = (1 << 63) - 1
_NAME = re.compile(r"[^.:@/\s]+(\.[^.:@/\s]+)+")


def _table_problems(catalog: str, table: str) -> list[tuple[str, str]]:
    """Check the names of a table and its catalogue; returns pairs of the option to blame and a message."""
    found = []
    if not re.fullmatch(r"[\w-]+", catalog):
        found.append(("catalog", "the name of a catalogue has letters, digits, `_` and `-`"))
    if not table:
        found.append(("table", "the name of a table is needed: `namespace.table`"))
    elif not _NAME.fullmatch(table):
        found.append(("table", f"'{table}' is no table of a namespace: write `namespace.table`"))
    return found


def _dataset(catalog: str, table: str) -> str:
    return f"iceberg:{catalog}/{table}"


@dataclass(frozen=True)
class IcebergRead(Options):
    """`options:` of an Iceberg source.

    Args:
        catalog: The name of the catalogue: `[catalogs.NAME]` in `clinker.toml`, variables
            `PYICEBERG_CATALOG__NAME__…`, or `.pyiceberg.yaml`.
        table: The table with its namespace, `namespace.table`.
        snapshot: The id of the snapshot that is read. The newest one when absent.
        timestamp: The moment whose snapshot is read, such as `2026-03-01T00:00:00Z`; without an offset it is UTC.
        ref: The branch or tag whose snapshot is read.
    """

    catalog: str = "default"
    table: str = ""
    snapshot: Annotated[int, Between(0, _MOST_SNAPSHOTS)] | None = None
    timestamp: str = ""
    ref: str = ""

    @property
    def place(self) -> str:
        """The table, for messages."""
        return f"{self.catalog}:{self.table}"

    @property
    def dataset(self) -> str:
        """The table as lineage has it."""
        return _dataset(self.catalog, self.table)

    @property
    def shown(self) -> str:
        """Which snapshot is read, for plans."""
        which = "the newest snapshot"
        if self.snapshot is not None:
            which = f"snapshot {self.snapshot}"
        elif self.timestamp:
            which = f"the snapshot of {self.timestamp}"
        elif self.ref:
            which = f"the snapshot of `{self.ref}`"
        return f"{self.table} of catalogue '{self.catalog}', {which}"

    @property
    def moment(self) -> datetime | None:
        """The moment whose snapshot is read; None where none is given."""
        return moments.of(self.timestamp) if self.timestamp else None

    def problems(self) -> list[tuple[str, str]]:
        """A table has a name, and a snapshot is chosen in one way."""
        found = _table_problems(self.catalog, self.table)
        chosen = {"snapshot": self.snapshot is not None, "timestamp": bool(self.timestamp), "ref": bool(self.ref)}
        ways = [key for key, is_set in chosen.items() if is_set]
        if len(ways) > 1:
            found.append((ways[1], f"`{ways[0]}` and `{ways[1]}` exclude each other"))
        if self.timestamp and (problem := moments.problem(self.timestamp)):
            found.append(("timestamp", problem))
        return found


@dataclass(frozen=True)
class IcebergWrite(Options):
    """`options:` of an Iceberg output.

    Args:
        catalog: The name of the catalogue, as in sources.
        table: The table with its namespace, `namespace.table`. Both are made where there is none.
        mode: Whether the records of the output are added to the table, or replace all of its records (`overwrite`), its
            records in the same partitions (`overwrite_partitions`), or its records with the same keys (`merge`).
        key: With `merge`, the columns whose values tell records apart. A record without a value in one of them is a
            dead letter.
        delete_flag: With `merge`, a column of type Bool, which is not written: where it is true, the record of the
            table with this key goes, and no record takes its place.
        partition_by: The partitions of a new table: columns, or functions of them, such as `day(at)`, `month(at)`,
            `bucket(16, id)` or `truncate(4, code)`. An existing table keeps its own.
        evolve: Whether columns that the table lacks are added to it.
        compression: How the pages in the files are compressed.
    """

    catalog: str = "default"
    table: str = ""
    mode: Mode = Mode.APPEND
    key: Listed = ()
    delete_flag: str = ""
    partition_by: Listed = ()
    evolve: bool = False
    compression: PageCompression = PageCompression.ZSTD  # type: ignore[assignment]  # of pages, not of files

    @property
    def packs(self) -> bool:
        """Pages are compressed, and not files."""
        return False

    @property
    def place(self) -> str:
        """The table, for messages."""
        return f"{self.catalog}:{self.table}"

    @property
    def dataset(self) -> str:
        """The table as lineage has it."""
        return _dataset(self.catalog, self.table)

    @property
    def shown(self) -> str:
        """The table, catalogue and mode, as plans show them."""
        evolves = ", gets new columns" if self.evolve else ""
        return f"table {self.table} of catalogue '{self.catalog}' ({self.mode}{evolves})"

    def problems(self) -> list[tuple[str, str]]:
        """A table has a name; keys and flags belong to `merge`, and to it alone."""
        wrong = modes.problems(self.mode, self.key, self.delete_flag, self.partition_by)
        return [*_table_problems(self.catalog, self.table), *wrong]

    def type_problem(self, static: Type) -> str | None:
        """Say why a type has no counterpart among the columns of a table; None where it has one."""
        return counterparts.problem(static)

    def column_problems(self, names: Sequence[str]) -> Iterator[tuple[str | None, str]]:
        """Names differ in more than letter case, and partitions are columns."""
        yield from columns.problems(names)
        yield from modes.column_problems(names, self.key, self.delete_flag)
        made = []
        for text in self.partition_by:
            try:
                found = partitions.parsed(text, names)
            except ValueError as error:
                yield "partition_by", str(error)
                continue
            if found.column == self.delete_flag:
                yield "delete_flag", f"'{found.column}' is written, and a flag is not"
            if found.name in made or (found.name in names and found.name != found.column):
                yield "partition_by", f"the partition '{text}' would be called '{found.name}', as something else is"
            made.append(found.name)


FORMAT = Format(
    "iceberg",
    "Iceberg",
    chapter=8.8,
    read_options=IcebergRead,
    write_options=IcebergWrite,
    is_typed=True,
    has_statistics=True,
    has_files=False,
    is_in_catalog=True,
    growth=Growth.VERSION,
    ending="parquet",
)
