"""Database tables as participants of a run: rows are loaded into staging tables, and one transaction moves them.

Tasks write the records of an output as parts, as they do for files. After the verdict the parts are loaded into a
staging table, by tasks if these reach the database. The driver publishes all tables of a connection in one transaction.
If a staging table is gone, it has been published or given up. The note of a staging table tells how to complete it
(`formats/staging.py`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute import logs, verdict
from spark_jobs.execute.delivery import converting, destination, joint
from spark_jobs.execute.delivery.destination import whole
from spark_jobs.execute.delivery.participant import Address, Answer, NotCompleted, Rank, StorageAccess
from spark_jobs.execute.spark import spread
from spark_jobs.formats import format, registry
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.rules import step as rules
from spark_jobs.plan.physical import correlation
from spark_jobs.scan import connections
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import PartRange, PartStore
    from spark_jobs.execute.delivery.outputs import Material
    from spark_jobs.formats.staging import Loader, Staging, TableWriter
    from spark_jobs.nodes.output.step import OutputStep
    from spark_jobs.plan import plan as plans
    from spark_jobs.scan.connections import Connection

KIND = "staged"
#: The diagnostic for a table that cannot take the records of an output.
UNFIT = "E915"


def _loader(connection: Connection) -> Loader:
    return next(each for each in registry.formats().values() if each.has_staging).loader(connection)


@dataclass
class Tables:
    """The tables of a connection that a run publishes into; see `Participant`.

    Args:
        connection: where they are.
        run: the execution id.
        stagings: a staging table for each output, once it is filled.
        is_prepared: whether `prepare` was called.
        is_compared: whether the records were compared by all unique indexes of the tables that allow it.
        show: has progress say how far a table is, from then on, or nothing more of it (None).
    """

    connection: Connection
    run: str
    stagings: list[Staging] = field(default_factory=list)
    is_prepared: bool = False
    is_compared: bool = True
    show: Callable[[Callable[[], str] | None], None] = lambda detail: None
    _alive: Any = None

    rank = Rank.DATABASE

    @property
    def address(self) -> Address:
        """See `Participant`."""
        return Address(KIND, self.connection.reference, self.run)

    @property
    def label(self) -> str:
        """See `Participant`."""
        tables = ", ".join(each.target for each in self.stagings)
        return f"connection '{self.connection.name}' ({tables})"

    def begin(self) -> None:
        """Mark the run as live, for as long as this process lives.

        Raises:
            FormatError: the database refuses or fails, or another process has the same run (E911).
        """
        self._alive = _loader(self.connection).lock_run(self.connection, self.run, self.connection.name)
        if self._alive is None:
            raise self.connection.failed(f"another process of the run {self.run} is still connected: end it first")

    def prepare(self, home: Address | None) -> None:
        """See `Participant`."""
        loader = _loader(self.connection)
        self.is_prepared = True
        if home is None:
            return
        self.stagings = [replace(each, home=home.as_json()) for each in self.stagings]
        with self._as_refusals(), loader.transaction(self.connection) as found:
            for each in self.stagings:
                # The run counts once its home has decided. From then on the rows must survive a crash of the server.
                loader.make_durable(found, each)
                loader.write_note(found, each)
        # What the database would refuse is found now, while nothing has been decided.
        with self._as_refusals(), loader.rolled_back_transaction(self.connection) as found:
            for each in self.stagings:
                with self._shown(found, each):
                    loader.publish(found, each)

    def complete(self) -> None:
        """See `Participant`."""
        loader = _loader(self.connection)
        is_asked = False
        try:
            with loader.transaction(self.connection) as found:
                here = self._left(found)
                for each in self.stagings:
                    if each.table in here:
                        with self._shown(found, each):
                            loader.publish(found, each)
                    elif each.home is None:
                        text = f"somebody has removed {each.table}, where its rows waited; run again"
                        raise FormatError(text, each.target, connections.FAILED)
                is_asked = True  # the transaction is committed now
        except FormatError as problem:
            if is_asked and self._is_there_after(problem):
                return
            raise NotCompleted(self._refusal(problem), is_visible=False, can_be_later=True) from problem

    def _refusal(self, problem: FormatError) -> verdict.RunFailed:
        """The end of the run at an error of the database."""
        is_about_records = not self.is_compared and _loader(self.connection).is_twice(problem)
        kind = verdict.NotCompared if is_about_records else verdict.RunFailed
        return kind(ExitCode.IO, problem.code or connections.FAILED, str(problem))

    @contextmanager
    def _as_refusals(self) -> Iterator[None]:
        """Within, an error of the database ends the run."""
        try:
            yield
        except FormatError as problem:
            raise self._refusal(problem) from problem

    @contextmanager
    def _shown(self, found: Any, staging: Staging) -> Iterator[None]:
        """Inside this context, progress shows the table that receives records, and their number."""
        loader = _loader(self.connection)

        def detail() -> str:
            moved = loader.published_rows(found)
            done = "" if moved is None else f"{moved:,} of "
            return f"publishing {done}{staging.rows:,} records into {staging.target}"

        self.show(detail)
        try:
            yield
        finally:
            self.show(None)

    def _left(self, found: Any) -> set[str]:
        loader = _loader(self.connection)
        loader.lock_publication(found, self.run, self.connection.name)
        return {each.table for each in loader.stagings_of(found, self.run, self.connection.name)}

    def _is_there_after(self, problem: FormatError) -> bool:
        """True if a commit that returned an error has happened.

        Raises:
            OSError: the answer is unknown.
        """
        try:
            return self.is_completed()
        except OSError:
            text = (
                f"{problem.message}; that was at the commit, so nobody can tell whether the tables have the records. "
                f"Where a table {', '.join(each.table for each in self.stagings)} is still there, they have them not"
            )
            raise OSError(None, text, problem.path) from problem

    def is_completed(self) -> bool:
        """See `Participant`."""
        loader = _loader(self.connection)
        with _as_os_errors(), loader.transaction(self.connection) as found:
            return not self._left(found)

    def give_up(self) -> None:
        """See `Participant`."""
        _remove(self.connection, self.run, self.connection.name, lambda each: True)

    def close(self, *, failed: bool) -> None:
        """Remove work that was never prepared, and close the connection. Does not fail."""
        try:
            if failed and not self.is_prepared:
                self.give_up()
        except OSError as error:
            logs.LOG.warning("%s: what is left is removed by the next run that writes there: %s", self.label, error)
        finally:
            if self._alive is not None:
                self._alive.close()


@dataclass(frozen=True)
class DeadStagings:
    """See `DeadParticipant`."""

    connection: Connection
    run: str
    home: Address

    def complete(self) -> None:
        """See `DeadParticipant`."""
        loader = _loader(self.connection)
        with _as_os_errors(), loader.transaction(self.connection) as found:
            loader.lock_publication(found, self.run, self.connection.name)
            for each in loader.stagings_of(found, self.run, self.connection.name):
                if each.home == self.home.as_json():
                    loader.publish(found, each)

    def remove(self) -> None:
        """See `DeadParticipant`."""
        _remove(self.connection, self.run, self.connection.name, partial(_is_of, self.home))


def dead_participant(address: Address, home: Address, access: StorageAccess) -> DeadStagings:
    """See `joint.py:KINDS`.

    Raises:
        OSError: the connection is not known here.
    """
    try:
        return DeadStagings(connections.of_reference(address.place, access.connections), address.run, home)
    except FormatError as problem:
        raise _failed(problem) from None


def with_target_tables(plan: plans.Plan, *, compares: bool) -> plans.Plan:
    """The plan whose outputs know their tables. Remains of dead runs in these tables are recovered first.

    Args:
        plan: the plan.
        compares: whether records meet by all unique indexes of the tables. Otherwise they meet only where the database
            would not notice: it sees rows as they are in the end, without records that others replace or that are
            rejected with their group.

    Raises:
        RunFailed: a table cannot take the records, or the database refuses or fails.
    """
    compares = compares or correlation.of(plan) is not None
    steps = {name: _looked(plan, step, compares) for name, step in plan.outputs.items() if step.is_in_database}
    if not steps:
        return plan
    relations = {step.options.target.relation for step in steps.values()}
    steps = {name: replace(step, options=step.options.beside(relations)) for name, step in steps.items()}
    nodes = tuple(replace(each, step=steps.get(each.name, each.step)) for each in plan.nodes)
    return replace(plan, nodes=nodes)


def _looked(plan: plans.Plan, step: OutputStep, compares: bool) -> OutputStep:
    try:
        connection = _connection(plan, step)
        step = replace(step, options=_loader(connection).look(connection, step.options))
        recover(connection, StorageAccess(plan.stores, plan.connections, plan.catalogs), step.options.target.relation)
        if not step.writes_undeclared:
            output_run.writer(step, (), output_run.TEXT)
        return _with_indexes(step) if compares or step.options.key else step
    except format.UnwritableFile as problem:
        raise verdict.broken(plan, UNFIT, str(problem), step.name) from None
    except FormatError as problem:
        raise verdict.broken(plan, problem.code or connections.FAILED, str(problem), step.name) from None


def _with_indexes(step: OutputStep) -> OutputStep:
    """The output whose records meet where a unique index of its table takes only one of them."""
    found = _indexes(step)
    if not found:
        return step
    options = replace(step.options, is_checked_upstream=True)
    return replace(step, options=options, rules=(*step.rules, *found))


def _indexes(step: OutputStep) -> tuple[rules.UniqueIndex, ...]:
    """The unique indexes of the table by which records can be compared."""
    mapped = dict(step.mapping)
    # A column of the files that nobody declares may take the name that `mapping` gives it.
    sources = {
        column.name: (column.source, column.type)
        for column in step.columns
        if mapped.get(column.name, column.source) == column.source
    }
    indexes = step.options.run_indexes({name: static for name, (_, static) in sources.items()})
    return rules.of_indexes(indexes, sources)


def _connection(plan: plans.Plan, step: OutputStep) -> Connection:
    return connections.find(step.options.connection, plan.connections, plan.local_folder)


def recover(connection: Connection, access: StorageAccess, target: str | None = None) -> None:
    """Complete or remove the remains of dead runs in a database.

    Args:
        connection: the connection to the database.
        access: access to the homes of these runs.
        target: the table to be written. Rows that wait for it must be decided; remains for other tables are not urgent.

    Raises:
        FormatError: the database refuses or fails, or nobody can tell whether rows that wait for the table count
            (E911).
    """
    loader = _loader(connection)
    with loader.transaction(connection) as found:
        runs: dict[tuple[str, str], list[Staging]] = {}
        for each in loader.all_stagings(found):
            runs.setdefault((each.run, each.connection), []).append(each)
    for (run, name), stagings in runs.items():
        try:
            _recover_run(connection, run, name, stagings, access)
        except (OSError, ValueError) as error:
            tables = ", ".join(each.table for each in stagings)
            said = durable.describe(error) if isinstance(error, OSError) else "their notes name no home"
            text = (
                f"rows of the run {run} wait in {tables}: the run died, and whether they count cannot be found out: "
                f"{said}; drop these tables if you know that they do not"
            )
            if target in {each.target for each in stagings}:
                raise connection.failed(text, target or "") from error
            logs.LOG.warning("%s", text)


def _recover_run(connection: Connection, run: str, name: str, stagings: list[Staging], access: StorageAccess) -> None:
    known = next((each.home for each in stagings if each.home is not None), None)
    if known is not None:
        home = Address.of(known)
        if joint.resolve(home, access) is Answer.RESOLVED:
            _remove(connection, run, name, partial(_is_of, home))
        return
    alive = _loader(connection).lock_run(connection, run, name)
    if alive is not None:
        try:
            _remove(connection, run, name, lambda each: each.home is None)
        finally:
            alive.close()


def _is_of(home: Address, staging: Staging) -> bool:
    return staging.home in (None, home.as_json())


def load(
    spark: SparkSession,
    material: Material,
    part_store: PartStore,
    show: Callable[[Callable[[], str] | None], None],
) -> list[Tables]:
    """Load the rows of all outputs without files into staging tables. Returns a participant for each connection.

    Args:
        spark: runs the tasks that fill tables.
        material: the plan and its products.
        part_store: the store of parts.
        show: shows the progress of a table from then on, or no longer (None).

    Raises:
        RunFailed: the database refuses or fails. Nothing remains there in that case.
    """
    taking_part: dict[str, Tables] = {}
    step: OutputStep | None = None
    try:
        for name, step in material.plan.outputs.items():
            if not step.is_in_database:
                continue
            connection = _connection(material.plan, step)
            loader = _loader(connection)
            tables = taking_part.get(connection.name)
            if tables is None:
                tables = taking_part[connection.name] = Tables(connection, material.identity.execution_id, show=show)
                tables.begin()
            writer = cast(
                "TableWriter", output_run.writer(step, material.run.undeclared[name], material.run.undeclared_type)
            )
            staging = loader.begin(connection, step.options, tables.run, len(tables.stagings), writer.schema)
            ranges = [whole(part.path, part.bytes) for part in material.products.take(name) if part.records]
            fill = partial(_fill, connection, staging, writer, part_store)
            items = [*enumerate(ranges)]
            if loader.IS_FILLED_BY_TASKS:
                counts = spread.parallel_map(spark, fill, items, reraised=(FormatError, OSError))
            else:
                counts = [fill(item) for item in items]
            staging = replace(staging, rows=sum(counts))
            with loader.transaction(connection, staging.target) as found:
                loader.write_note(found, staging)
            tables.stagings.append(staging)
            tables.is_compared &= step.options.is_checked_upstream or not _indexes(step)
    except BaseException as problem:
        for each in taking_part.values():
            each.close(failed=True)
        if step is None or not isinstance(problem, FormatError | format.UnwritableFile | OSError):
            raise
        code = (
            UNFIT
            if isinstance(problem, format.UnwritableFile)
            else getattr(problem, "code", None) or connections.FAILED
        )
        said = durable.describe(problem) if isinstance(problem, OSError) else str(problem)
        raise verdict.broken(material.plan, code, said, step.name) from problem
    return [*taking_part.values()]


def _fill(
    connection: Connection, staging: Staging, writer: TableWriter, part_store: PartStore, item: tuple[int, PartRange]
) -> int:
    """Load the rows of a part into a staging table. A task does this."""
    loader = _loader(connection)
    number, part_range = item
    destination.check(part_store, part_range)
    with converting.open_joined(part_store, writer, [part_range], moved=False) as source:
        return loader.fill(connection, staging, number, writer.batches(source, moved=False), writer.schema)


class _as_os_errors:
    """Inside this context, a database's refusal (`FormatError`) is raised as an OSError, which publishing handles."""

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        if isinstance(problem, FormatError):
            raise _failed(problem) from problem


def _failed(problem: FormatError) -> OSError:
    return OSError(None, problem.message, problem.path)


def _remove(connection: Connection, run: str, name: str, chosen: Callable[[Staging], bool]) -> None:
    """Drop staging tables of a run.

    Raises:
        OSError: the database refuses or fails.
    """
    loader = _loader(connection)
    with _as_os_errors(), loader.transaction(connection) as found:
        loader.lock_publication(found, run, name)
        for each in loader.stagings_of(found, run, name):
            if chosen(each):
                loader.drop(found, each)
