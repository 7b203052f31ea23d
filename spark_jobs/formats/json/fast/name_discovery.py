"""Notices undeclared names that nobody knew while records are read for good.

Arrow's reader refuses objects with a member that is not in its schema. Where a portion of lines is read with all
members that are known, there is no other one, and looking for names costs nothing. Only where it is refused are names
looked for as `undeclared.py` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.formats.json import undeclared
from spark_jobs.formats.json.exact import objects
from spark_jobs.formats.json.fast import arrow, columnar_explode, uniform
from spark_jobs.formats.json.texts import portions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_jobs.formats.json.exact.one_by_one import Item
    from spark_jobs.formats.json.fast.columnar_explode import Path
    from spark_jobs.tuning import Tuning

#: Portions that may be refused with all members before that is not tried any more.
_REFUSALS = 2


class NameDiscovery:
    """Finds undeclared leaves of records that are not known yet.

    Args:
        declared: the names of the declared columns.
        known: the undeclared names that are known.
        tuning: how much is looked at at once.
    """

    def __init__(self, declared: Sequence[str], known: Sequence[str], tuning: Tuning) -> None:
        self._names = undeclared.Names(declared, known=known, tuning=tuning)
        self._tuning = tuning
        self._usual = {*declared, *known}
        self._parents = objects.parents(declared)
        #: Members that are not read, as Arrow reads them.
        self._others: dict[Path, pa.DataType] = {}
        self._refusals = 0
        self._is_over = False

    @property
    def has_news(self) -> bool:
        """Whether a record had a name that was not known."""
        return self._is_over or self._names.has_news

    def look_at(self, items: Iterable[Item]) -> None:
        """Look at single records."""
        try:
            self._names.look_at(items)
        except undeclared.TooMany:
            self._is_over = True

    def learn(self, records: Sequence[dict[str, Any]]) -> None:
        """Learn the known members that some records have."""
        for record in records:
            for path, value in _leaves(record, ()):
                kind = undeclared.ARROW.get(value.__class__)
                if kind is not None and ".".join(path) in self._usual:
                    self._others[path] = kind

    def read(
        self,
        text: bytes,
        count: int,
        kinds: Mapping[Path, pa.DataType],
        schema: pa.Schema,
        written: uniform.Written | None = None,
    ) -> pa.Table:
        """The values of some objects, by `schema`, which has the members of `kinds`; see `arrow.read`.

        Raises:
            Refused: at least one object needs the exact way.
            NoInt: the same because of its number.
        """
        whole = self._whole(kinds) if self._refusals < _REFUSALS else None
        if whole is not None:
            found = uniform.read(text, count, schema, self._tuning.json_uniform_objects, _scalars(whole), written)
            if found is not None:
                return found
            try:
                return arrow.read(text, count, whole, "error")
            except (arrow.Refused, arrow.NoInt):
                found = arrow.read(text, count, schema, tuning=self._tuning, written=written)
                self._refusals += 1
        else:
            found = arrow.read(text, count, schema, tuning=self._tuning, written=written)
        try:
            self._names.add(portions.Portion(text))
        except undeclared.TooMany:
            self._is_over = True
        return found

    def _whole(self, kinds: Mapping[Path, pa.DataType]) -> pa.Schema | None:
        """The schema with all members that are known; None where it does not tell everything.

        A null in the place of an object is a leaf of its own, unless the object would hold declared columns.
        """
        parents = {path[:at] for path in kinds for at in range(1, len(path))}
        more = {
            path: kind
            for path, kind in self._others.items()
            if path not in parents and not any(path[:at] in kinds for at in range(1, len(path) + 1))
        }
        paths = {**kinds, **more}
        outer = {".".join(path[:at]) for path in paths for at in range(1, len(path))}
        if not paths or not outer <= self._parents:
            return None
        if any(path[:at] in paths for path in paths for at in range(1, len(path))):
            return None
        return pa.schema(list(columnar_explode.structure(paths)))


def _scalars(schema: pa.Schema) -> frozenset[str]:
    """The columns that are no objects."""
    return frozenset(field.name for field in schema if not pa.types.is_struct(field.type))


def _leaves(record: dict[str, Any], prefix: Path) -> Iterable[tuple[Path, Any]]:
    for key, value in record.items():
        path = (*prefix, key)
        if isinstance(value, dict):
            if len(path) < objects.MAX_DEPTH:
                yield from _leaves(value, path)
        else:
            yield path, value
