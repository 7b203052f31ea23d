"""Final values of variables: state nodes write them after their last record, and readers look them up.

A variable of scope `pipeline` has one value, and a variable of scope `source` one for each file. An unset variable has
its default; a channel's default for the record's source comes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl import types, values
from spark_jobs.nodes.terms.needs import Values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.nodes import operator
    from spark_jobs.nodes.terms.needs import VariableRead

#: A file: its source and its path. A value of the whole run has neither.
File = tuple[str, str]
RUN: File = ("", "")
_SCHEMA = pa.schema([(name, pa.string()) for name in ("source", "file", "path", "value")])
#: Separates a file's source from its path; neither contains it.
_BETWEEN = "\0"


def write(context: operator.Context, setter: str, found: Mapping[File, Mapping[str, Any]]) -> None:
    """Write the values that a state node has set, by file and the variable's path."""
    rows = [(*file, path, values.encode(value)) for file, given in found.items() for path, value in given.items()]
    writer = context.files.materialize(Values(setter), (), _SCHEMA)
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    if columns:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))


@dataclass
class FinalValues:
    """The variables that a step reads, with their values.

    Args:
        reads_variables: the variables, and the state nodes that set them.
        context: the task.
    """

    reads_variables: Sequence[VariableRead]
    context: operator.Context

    @cached_property
    def _set(self) -> dict[str, dict[str, dict[File, Any]]]:
        """The values by state node, path and file."""
        found: dict[str, dict[str, dict[File, Any]]] = {}
        for setter in dict.fromkeys(setter for each in self.reads_variables for setter in each.setters):
            table = self.context.files.materialized(Values(setter))
            by_path = found.setdefault(setter, {})
            if table.num_rows:
                names = [table.column(name).to_pylist() for name in ("path", "source", "file")]
                for path, source, file, value in zip(
                    *names, values.from_arrow(table.column("value").combine_chunks(), types.ANY), strict=True
                ):
                    by_path.setdefault(path, {})[source, file] = value
        return found

    @cached_property
    def _known(self) -> list[tuple[VariableRead, dict[File, Any]]]:
        """The values of each variable, by file. If several nodes set it, the last one counts."""
        known = []
        for each in self.reads_variables:
            path = each.declared
            files: dict[File, Any] = {}
            for setter in each.setters:
                files |= self._set[setter].get(path, {})
            known.append((each, files))
        return known

    def before(self, path: str, file: File) -> Any:
        """The value of a run or file variable at the beginning of the step that reads it."""
        each, files = next((each, files) for each, files in self._known if each.path == path)
        return self._of_file(each, files, file)

    def of_batch(self, system_values: Mapping[str, Any]) -> dict[str, Any]:
        """The values for a batch with the given other system values: one value, or one for each record."""
        return {each.path: self._value(each, files, system_values) for each, files in self._known}

    def _value(self, each: VariableRead, files: Mapping[File, Any], system_values: Mapping[str, Any]) -> Any:
        if each.sources:
            return self._of_input(each, files)
        if not each.path.startswith("source."):
            return files.get(RUN, self.context.values.get(each.path))
        source, file = system_values.get("source.name"), system_values.get("source.path")
        if not isinstance(source, pa.Array) and not isinstance(file, pa.Array):
            return self._of_file(each, files, (source or "", file or ""))
        keys = pc.binary_join_element_wise(source, file, _BETWEEN).dictionary_encode()
        texts = keys.dictionary.to_pylist()
        found = [self._of_file(each, files, tuple(text.split(_BETWEEN, 1))) for text in texts]
        return values.to_arrow(found, each.type).take(keys.indices)

    def _of_file(self, each: VariableRead, files: Mapping[File, Any], file: Any) -> Any:
        return files[file] if file in files else self._default(each.declared, file[0])

    def _of_input(self, each: VariableRead, files: Mapping[File, Any]) -> Any:
        """The value of an input's first file, by path, that has one."""
        chosen = min((file for file in files if file[0] in each.sources), key=lambda file: file[1], default=None)
        return self._default(each.declared, each.sources[0]) if chosen is None else files[chosen]

    def _default(self, path: str, source: str) -> Any:
        given = self.context.values
        return given.get(f"{path}@{source}", given.get(path))
