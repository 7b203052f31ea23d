"""A state node whose records depend on one another: they are put into order and evaluated one by one.

`Gather` sends them to the partition of their file, or all to one partition if the variables belong to the run.
`Running` evaluates them in order, each with the values that earlier ones have set. Results go through a range exchange
if there are several partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_jobs.cxl import engine, failure, tree_walk, values
from spark_jobs.cxl.interpreter import interpreter
from spark_jobs.nodes import shuffle, spill
from spark_jobs.nodes.final_values import RUN
from spark_jobs.nodes.records import batches, order
from spark_jobs.nodes.records.columns import FILE
from spark_jobs.nodes.state import fitting, run
from spark_jobs.nodes.state.assignments import AssignedValue, Values
from spark_jobs.nodes.state.step import SOURCE
from spark_jobs.nodes.terms import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.cxl import types
    from spark_jobs.nodes import final_values
    from spark_jobs.nodes.state.step import StateStep
    from spark_jobs.nodes.terms.needs import Need


@dataclass
class Gather(shuffle.ShuffleWriter):
    """Sends records to the partition that evaluates them in order."""

    step: StateStep

    @property
    def key_columns(self) -> list[str]:
        """The file, if variables are per file."""
        return [FILE.name] if self.step.scope == SOURCE else []

    def process(self, batch: batches.Batch, port: int) -> None:
        batch = self.take(batch)
        keys = {}
        if self.step.scope == SOURCE:
            source_values = batch.origin.source_values(batch)
            keys = {FILE.name: batches.repeated(source_values["source.path"], batch.count)}
        self.depart(batch, keys)


@dataclass
class Running(shuffle.ShuffleReader):
    """Evaluates the records of a partition in order."""

    step: StateStep
    provides: Need | None = None

    def open(self) -> None:
        self.records = spill.ExternalSorter(self.context, self.step.name)
        self.programs = [interpreter.compile(each.by_record) for each in self.step.assignments]
        self.columns: dict[str, types.Type] = {}
        self.system: dict[str, types.Type] = {}
        for each in self.step.assignments:
            self.columns |= tree_walk.columns_of(each.by_record)
            self.system |= tree_walk.systems_of(each.by_record)
        #: The values assigned so far, for the run or for each file.
        self.set: dict[final_values.File, dict[str, Any]] = {}
        self.states = run.assignment_states(self.step, self.context)

    def receive(self, table: pa.Table) -> None:
        """Add the records of one task."""
        self.enter(table.num_rows)
        self.records.add(table)

    def finish(self) -> None:
        """Evaluate all records in order, and push the records that did not fail."""
        origin = self.context.exchanges.record_origin(self.number_of_partition)
        done = 0
        for table in self.records.tables():
            data = batches.gather(table)
            rows = pa.array(np.arange(done, done + data.num_rows))
            done += data.num_rows
            self._give(self._evaluated(batches.Batch(data, rows, origin, at=data.column(order.AT))))
        found = Values()
        for file, given in self.set.items():
            for path, value in given.items():
                found.add(0, path, AssignedValue(file, 0, value))
        run.write_values(self, self.states, found)

    def _give(self, batch: batches.Batch) -> None:
        made = [name for name in (FILE.name,) if name in batch.data.schema.names]
        data = batch.data.drop_columns(made)
        if self.exchange is not None:
            self.send_in_order(pa.table(data))
            return
        whole = replace(batch, data=data.drop_columns([order.AT]), at=None)
        for piece in self.slices(whole):
            self.push(piece)

    def _evaluated(self, batch: batches.Batch) -> batches.Batch:
        """The records that did not fail."""
        system_values = self.system_values(batch)
        files = self._files(system_values, batch.count)
        failing: list[engine.RowFailure] = []
        #: By assignment, the rows for which it succeeded, and their evaluated values.
        arguments: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in self.step.assignments]
        for row, (record, known) in enumerate(self._rows(batch, system_values)):
            given = self.set.setdefault(files[row], {})
            known |= given
            try:
                for number, assignment in enumerate(self.step.assignments):
                    emitted = self.programs[number](record, engine.EvaluationContext(known)).outputs[0]
                    if assignment.is_total:
                        self.states[number].refuse(record | emitted)
                        arguments[number].append((row, emitted))
                    else:
                        value = emitted[assignment.path]
                        if not fitting.fits(assignment, value):
                            raise fitting.misfit(self.step.name, assignment, value)
                        known[assignment.path] = given[assignment.path] = fitting.cast_value(assignment, value)
            except failure.Failure as problem:
                failing.append(engine.RowFailure(row, problem))
        for number, found in enumerate(arguments):
            if found:
                self._keep(number, batch, found)
        self.fail(batch, failing)
        return batch.take(batches.indices_except(batch.count, [item.row for item in failing])) if failing else batch

    def _keep(self, number: int, batch: batches.Batch, found: list[tuple[int, dict[str, Any]]]) -> None:
        """Add records to a total, with the evaluated arguments."""
        chosen = batch.take(pa.array([row for row, _ in found], pa.int64()))
        columns = {name: chosen.data.column(name) for name in chosen.data.schema.names}
        for name, static in self.step.assignments[number].by_record.emits:
            columns[name] = values.to_arrow([emitted[name] for _, emitted in found], static)
        self.states[number].add(chosen, run.files_of(self, chosen), columns)

    def _files(self, system_values: Mapping[str, Any], count: int) -> list[final_values.File]:
        if self.step.scope != SOURCE:
            return [RUN] * count
        found = [batches.repeated(system_values[path], count).to_pylist() for path in run.FILE_PATHS]
        return list(zip(*found, strict=True))

    def _rows(
        self, batch: batches.Batch, system_values: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The columns and system values of each record that assignments read."""
        names = [name for name in self.columns if name in batch.data.schema.names]
        lists = [values.from_arrow(batch.data.column(name), self.columns[name]) for name in names]
        varying = [path for path in self.system if isinstance(system_values.get(path), pa.Array)]
        lists += [values.from_arrow(system_values[path], self.system[path]) for path in varying]
        same = {path: system_values[path] for path in self.system if path in system_values and path not in varying}
        for row in zip(*lists, strict=True) if lists else [()] * batch.count:
            yield dict(zip(names, row, strict=False)), same | dict(zip(varying, row[len(names) :], strict=True))


#: The operators of such a state node by their roles.
OPERATORS = {shape.Role.PARTIAL: Gather, shape.Role.FINAL: Running, shape.Role.ORDERED: shuffle.RestoreOrder}
