"""The commit of an Iceberg table (see `tables/commit.py`): its id is in the summary of the snapshot that it makes.

New tables, new columns and files become visible by one change of the catalog. A commit that replaces files requires the
snapshot that the run saw when it began. If somebody else has committed since then, the run ends. Appended files do not
depend on the snapshot.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.contract import ExitCode
from spark_jobs.execute.delivery.participant import Address
from spark_jobs.execute.delivery.tables import commit as tables
from spark_jobs.execute.delivery.tables.folder import TableFolder
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.formats.iceberg import catalog as catalogs
from spark_jobs.formats.iceberg.write import Added
from spark_jobs.formats.tables import partitions
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.formats.tables.modes import Mode
from spark_jobs.formats.tables.partitions import Transform
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction

    from spark_jobs.execute.delivery.participant import StorageAccess

#: The kind of its addresses.
KIND = "iceberg-table"
#: The number of attempts to append files while other writers are faster, and the waiting times between, in seconds.
_MOST_TRIES, _FIRST_WAIT, _LONGEST_WAIT = 10, 0.1, 5
#: Errors of the library after which no commit can still happen.
_CERTAIN = frozenset(
    {"BadRequestError", "UnauthorizedError", "AuthorizationExpiredError", "ForbiddenError", "NoSuchTableError"}
    | {"OAuthError", "TooManyRequestsError"}
)
#: The property of a snapshot that has the id of its commit.
_COMMIT = "clinker.commit"


@dataclass(frozen=True)
class Commit(tables.NotedCommit):
    """A commit to an Iceberg table, in the form of its note.

    Args:
        run: the execution id.
        token: identifies the commit, also among runs with the same execution id.
        mode: the write mode: append, overwrite or merge.
        catalog: the name of the catalog.
        table: the table with its namespace.
        location: the location of the table in the catalog.
        uuid: distinguishes the table from others of its name; empty if there was no table.
        snapshot: the snapshot that the run has seen; None if there was none.
        columns: the id of the schema that the run has seen.
        schema: the columns of the table after the commit, in the notation of the Iceberg specification.
        new_columns: the columns that the commit adds.
        spec: the id of the partition spec that the run has seen.
        partition_by: the partition fields of the table, in the notation of pipelines.
        files: the files that the commit adds.
        removed: the locations of files that were rewritten without some rows, as `catalog.place_of` returns them.
    """

    token: str
    mode: Mode
    catalog: str
    table: str
    location: str
    uuid: str
    snapshot: int | None
    columns: int
    schema: str
    new_columns: tuple[str, ...]
    spec: int
    partition_by: tuple[str, ...]
    files: tuple[Added, ...]
    removed: tuple[str, ...] = ()

    made: ClassVar = {"mode": Mode, "files": tables.of_fields(Added)}

    @property
    def id(self) -> str:
        """The id with which a snapshot records the commit."""
        return f"{self.run}-{self.token}"

    @property
    def replaces(self) -> bool:
        """True if the commit removes existing files."""
        return self.mode is not Mode.APPEND


@dataclass
class Place(TableFolder):
    """The folder of an Iceberg table, and its identity in the catalog.

    Args:
        catalog: the name of the catalog.
        table: the table with its namespace.
        access: access to the catalog.
    """

    catalog: str
    table: str
    access: StorageAccess

    inner: ClassVar[str] = "metadata"

    def opened(self) -> Catalog:
        """The catalog.

        Raises:
            OSError: it does not answer.
        """
        try:
            return catalogs.opened(self.catalog, self.access.catalogs, self.stores)
        except FormatError as error:
            raise OSError(None, error.message, self.name) from error

    def found(self, catalog: Catalog) -> Table | None:
        """The table in its newest state; None if there is none.

        Raises:
            OSError: the answer is unknown.
        """
        try:
            return catalogs.table(catalog, self.table)
        except FormatError as error:
            raise OSError(None, error.message, self.name) from error


@dataclass
class TableCommit(tables.TableCommit):
    """See `Participant`."""

    place: Place
    commit: Commit

    @property
    def noted(self) -> Commit:
        """The commit, as its note has it."""
        return self.commit

    @property
    def address(self) -> Address:
        """See `Participant`: with the name of the table, so that no note in its folder can name another one."""
        return Address(KIND, f"{self.place.catalog}:{self.place.table}@{self.place.root}", self.commit.run)

    @property
    def paths(self) -> Iterable[str]:
        """The files of the run in the table's folder."""
        return (each.path for each in self.commit.files)

    def look(self) -> None:
        """See `tables.TableCommit`."""
        self._refuse_changed(self.place.found(self.place.opened()))

    def publish(self) -> None:
        """See `tables.TableCommit`. Files are appended again if another writer was faster."""
        from pyiceberg.exceptions import CommitFailedException

        catalog = self.place.opened()
        for tried in range(_MOST_TRIES):
            table = self.place.found(catalog)
            if _is_done(self.commit, table):
                return
            self._refuse_changed(table)
            try:
                changes = self._begun(catalog, table)
                _add_files(self.commit, changes, table)
                changes.commit_transaction()
            except Exception as error:
                if not catalogs.is_of_library(error):
                    raise
                is_beaten = isinstance(error, CommitFailedException)
                if is_beaten and table is not None and not self.commit.replaces and tried + 1 < _MOST_TRIES:
                    time.sleep(random.uniform(0.5, 1) * min(_FIRST_WAIT * 2**tried, _LONGEST_WAIT))
                    continue
                self._failed(catalog, error)
            return

    def _failed(self, catalog: Catalog, error: Exception) -> None:
        """Translate an error of the library, unless the commit has succeeded despite it.

        Raises:
            RunFailed: somebody else was faster (E912).
            OSError: the commit fails, or its outcome is unknown.
        """
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException

        is_beaten = isinstance(error, (CommitFailedException, TableAlreadyExistsError, ValidationException))
        now = self.place.found(catalog)
        if _is_done(self.commit, now):  # the answer was lost
            return
        text = catalogs.said(error, catalog.properties)
        if is_beaten:
            self._refuse_changed(now)
            said = f"{self.place.name}: somebody else was faster: {text}; run again"
            raise RunFailed(ExitCode.IO, FAILED, said) from error
        if type(error).__name__ in _CERTAIN:
            raise tables.NotThere(None, f"the commit fails: {text}", self.place.name) from error
        text = f"the commit fails: {text}; it may still come: look at the table before you run again"
        raise OSError(None, text, self.place.name) from error

    def is_completed(self) -> bool:
        """See `Participant`."""
        return _is_done(self.commit, self.place.found(self.place.opened()))

    def _begun(self, catalog: Catalog, table: Table | None) -> Transaction:
        """A transaction that creates the table or its new columns, if there are any."""
        from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

        commit = self.commit
        columns = schema_of(commit)
        if table is None:
            spec = spec_of(columns, commit.partition_by)
            changes: Transaction = catalog.create_table_transaction(commit.table, columns, commit.location, spec)
        else:
            changes = table.transaction()
            # From now on the catalog detects changes by others.
            unchanged = AssertCurrentSchemaId(current_schema_id=commit.columns)
            changes._apply((), (unchanged, AssertDefaultSpecId(default_spec_id=commit.spec)))
            if commit.new_columns:
                with changes.update_schema() as change:
                    for name in commit.new_columns:
                        change.add_column(name, columns.find_field(name).field_type)
        now = changes.table_metadata.schema()
        if now.as_struct() != columns.as_struct():
            text = "the columns would get other numbers than those in the files; run again"
            raise RunFailed(ExitCode.IO, FAILED, f"{self.place.name}: {text}")
        _try_once(changes)
        return changes

    def _refuse_changed(self, table: Table | None) -> None:
        """Refuse to commit to a table that has changed since the run saw it.

        Raises:
            RunFailed: the table has changed (E912).
        """
        commit, text = self.commit, ""
        if table is None:
            text = "the table is gone" if commit.uuid else ""
        elif not commit.uuid:
            text = "somebody else has made the table, while the run was writing it"
        elif str(table.metadata.table_uuid) != commit.uuid or place_of(table, self.place.name) != self.place.root:
            text = "somebody else has made the table anew"
        elif table.spec().spec_id != commit.spec:
            text = "somebody else has changed the partitions of the table"
        elif table.schema().schema_id != commit.columns:
            text = "somebody else has changed the columns of the table"
        elif commit.replaces and snapshot_of(table) != commit.snapshot:
            text = f"somebody else has written snapshot {snapshot_of(table)}, and the run replaces what it saw before"
        if text:
            raise RunFailed(ExitCode.IO, FAILED, f"{self.place.name}: {text}; run again")


def snapshot_of(table: Table) -> int | None:
    """The id of the newest snapshot."""
    newest = table.current_snapshot()
    return None if newest is None else newest.snapshot_id


def place_of(table: Table, name: str) -> str:
    """The location of a table, absolute or a URI.

    Raises:
        RunFailed: nothing can be written there (E912).
    """
    try:
        return catalogs.place_of(table.location().rstrip("/"), name)
    except FormatError as error:
        raise RunFailed(ExitCode.IO, FAILED, str(error)) from error


def schema_of(commit: Commit) -> Schema:
    """The columns of the table after the commit."""
    from pyiceberg.schema import Schema

    return Schema.model_validate_json(commit.schema)


def spec_of(columns: Schema, texts: Iterable[str]) -> PartitionSpec:
    """The partition spec of a new table, from the notation of pipelines."""
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
    from pyiceberg.transforms import parse_transform

    fields = []
    for at, text in enumerate(texts):
        one = partitions.parsed(text, columns.column_names)
        made = f"{one.transform}[{one.argument}]" if one.transform.has_argument else str(one.transform)
        source = columns.find_field(one.column).field_id
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + at, parse_transform(made), one.name))
    return PartitionSpec(*fields)


def partitions_of(table: Table) -> tuple[partitions.Partition, ...]:
    """The partition fields of a table.

    Raises:
        ValueError: a field is no top-level column or function of one; the text names it.
    """
    tops = {field.field_id: field.name for field in table.schema().fields}
    found = []
    for field in table.spec().fields:
        word, _, argument = str(field.transform).rstrip("]").partition("[")
        column = tops.get(field.source_id, "")
        if word not in [*Transform] or (not column and word != Transform.VOID):
            source = table.schema().find_column_name(field.source_id)
            raise ValueError(f"{field.transform}({source})")
        found.append(partitions.Partition(column, Transform(word), int(argument or 0)))
    return tuple(found)


def _try_once(changes: Transaction) -> None:
    """Keep the library from repeating a change after a commit of somebody else that the run has not seen.

    This changes only the copy in memory: the catalog receives the changes, not the table from which they start.
    """
    table = changes._table
    known = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": known})


def _is_done(commit: Commit, table: Table | None) -> bool:
    return table is not None and any(
        kept.summary is not None and kept.summary.additional_properties.get(_COMMIT) == commit.id
        for kept in table.snapshots()
    )


def _add_files(commit: Commit, changes: Transaction, table: Table | None) -> None:
    """Add the snapshot with the files of the run, without the files that they replace."""
    update = changes.update_snapshot(snapshot_properties={_COMMIT: commit.id, "clinker.execution_id": commit.run})
    added = [*_data_files(commit, changes)]
    # An empty table has nothing to replace.
    if commit.replaces and table is not None and table.current_snapshot() is not None:
        replaced = [*_replaced(commit, table, {each.partition for each in added})]
        if commit.mode is Mode.MERGE and len(replaced) != len(commit.removed):
            text = "files that were written again are not in the table; run again"
            raise RunFailed(ExitCode.IO, FAILED, f"{commit.table}: {text}")
        with update.overwrite() as replacing:
            for each in replaced:
                replacing.delete_data_file(each)
            for each in added:
                replacing.append_data_file(each)
        return
    with update.fast_append() as appending:
        for each in added:
            appending.append_data_file(each)


def _data_files(commit: Commit, changes: Transaction) -> Iterator[DataFile]:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import DecimalType

    spec, columns = changes.table_metadata.spec(), changes.table_metadata.schema()
    kinds = [field.field_type for field in spec.partition_type(columns).fields]
    location = commit.location.rstrip("/")
    for each in commit.files:
        values = (
            Decimal(value) if isinstance(kind, DecimalType) and value is not None else value
            for kind, value in zip(kinds, each.partition, strict=True)
        )
        found = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{location}/{each.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(*values),
            record_count=each.records,
            file_size_in_bytes=each.size,
            column_sizes={},
            value_counts={int(number): each.records for number in each.nulls},
            null_value_counts={int(number): count for number, count in each.nulls.items()},
            nan_value_counts={int(number): 0 for number in each.plain},
            lower_bounds={int(number): bytes.fromhex(bound) for number, bound in each.lowest.items()},
            upper_bounds={int(number): bytes.fromhex(bound) for number, bound in each.highest.items()},
        )
        found.spec_id = spec.spec_id
        yield found


def _replaced(commit: Commit, table: Table, those: set[Any]) -> Iterator[DataFile]:
    """The replaced files: all files, the files of some partitions, or the rewritten files."""
    from pyiceberg.manifest import DataFileContent

    newest, removed = table.current_snapshot(), {*commit.removed}
    assert newest is not None
    for manifest in newest.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            each = entry.data_file
            if each.content != DataFileContent.DATA:
                continue
            if commit.mode is Mode.MERGE:
                is_replaced = catalogs.place_of(each.file_path, commit.table) in removed
            else:
                is_replaced = commit.mode is Mode.OVERWRITE or each.partition in those
            if is_replaced:
                yield each


def _read(place: Place, data: bytes) -> tuple[Address, TableCommit]:
    """The home and the commit of a note.

    Raises:
        ValueError: it has none, or it is of another table.
    """
    home, commit = Commit.of(data)
    try:
        root = catalogs.place_of(commit.location.rstrip("/"), place.name)
    except FormatError as error:
        raise ValueError(data) from error
    if (commit.catalog, commit.table, root) != (place.catalog, place.table, place.root):
        raise ValueError(data)
    return home, TableCommit(place, commit)


def dead_participant(address: Address, home: Address, access: StorageAccess) -> tables.DeadCommit:
    """See `joint.py:KINDS`."""
    name, _, root = address.place.partition("@")
    catalog, _, table = name.partition(":")
    place = Place(root, name, access.stores.resolved(), catalog, table, access)
    return tables.DeadCommit(place, home, partial(_read, place))


def recover(place: Place, access: StorageAccess) -> None:
    """Complete or remove the commits that dead runs had prepared for a table.

    Raises:
        OSError: a home cannot be reached, or something cannot be completed.
    """
    tables.recover(place, access, partial(_read, place))
