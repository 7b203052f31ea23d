"""`clinker diff-data`: how the records of two files, two folders or two versions of a pipeline differ.

Both sides are held in memory: as Python objects a record takes about one kilobyte.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli import clinker_toml, observation, standard_streams
from spark_jobs.contract import ExitCode
from spark_jobs.cxl import decimals, values
from spark_jobs.diagnostics import nearest
from spark_jobs.diagnostics.printable import printable
from spark_jobs.disk import small_files
from spark_jobs.stores import globs, small_objects
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath

    Row = dict[str, Any]

_VERSION = 1
#: A longer value is cut where people read it.
_WIDEST_VALUE = 60
#: Types whose values make poor keys: equal ones may be written in different ways.
_NO_KEYS = ("Float", "Array", "Map")


@dataclass(frozen=True)
class Rules:
    """The rules that decide which records differ.

    Args:
        key: the columns that say which records belong together; empty: columns that look like a key, else none.
        ignored: columns that are not compared.
        tolerance: by how much two numbers may differ, in units of the numbers.
    """

    key: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    tolerance: float = 0.0


@dataclass(frozen=True)
class Change:
    """A value that differs: the key of its record, and the value on both sides."""

    key: Row
    old: Any
    new: Any


@dataclass(frozen=True)
class ColumnChanges:
    """A column with values that differ: in how many records, and the first of them."""

    name: str
    count: int
    examples: list[Change]


@dataclass(frozen=True)
class Columns:
    """The differences of columns; a type is None if it is unknown."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    retyped: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.retyped)


@dataclass(frozen=True)
class Comparison:
    """The differences between the records of one name.

    Args:
        name: the node, or the file below both folders.
        old_records: how many records there are on the old side.
        new_records: how many there are on the new one.
        key: the columns that records were matched by; empty: a record has its equal or it has none.
        is_found: whether the key was chosen and not asked for.
        repeated: how many keys have several records on one side; those are matched in their order.
        columns: the columns that are not on both sides, or are of another type.
        equal: how many records are the same on both sides.
        changed: how many are on both sides and differ.
        only_old: how many have no match on the new side.
        only_new: how many have none on the old one.
        by_column: what changed, by column, the one with most changes first.
        old_examples: the first records that are on the old side alone.
        new_examples: the first that are on the new side alone.
    """

    name: str
    old_records: int
    new_records: int
    key: tuple[str, ...]
    is_found: bool
    repeated: int
    columns: Columns
    equal: int
    changed: int
    only_old: int
    only_new: int
    by_column: list[ColumnChanges]
    old_examples: list[Row]
    new_examples: list[Row]

    @property
    def differs(self) -> bool:
        """Whether there are any differences."""
        return bool(self.columns or self.changed or self.only_old or self.only_new)


@dataclass(frozen=True)
class _Sides:
    """The inputs of a comparison: pairs of records by name, and the names that are on one side only."""

    pairs: list[tuple[observation.Node, observation.Node]]
    only_old: list[str]
    only_new: list[str]
    notes: list[str]


def main(
    old: FilePath,
    new: FilePath,
    planning: PlanOptions,
    wanted: observation.Observed,
    rules: Rules,
    *,
    most: int,
    diagnostics: str,
    as_json: bool,
    fails: bool,
) -> int:
    """Compare two files of data, two folders of them, or the outputs of two pipelines.

    Args:
        old: the old side.
        new: the new one; of the same kind as the old one.
        planning: how pipelines are planned.
        wanted: which nodes of pipelines, and how many records of each of their sources are read.
        rules: what counts as a difference.
        most: how many examples are shown of each difference.
        diagnostics: how problems are shown.
        as_json: whether the result is for programs.
        fails: whether a difference ends with exit code 1.
    """
    try:
        with clinker_toml.reaching((old, new)):
            sides = _sides(old, new, planning, wanted, diagnostics)
        found = [compared(*pair, rules, most) for pair in sides.pairs]
    except StoreError as error:
        sys.stderr.write(f"clinker diff-data error: {error.code}: {printable(str(error))}\n")
        return ExitCode.IO
    except observation.NotObserved as problem:
        if problem.message is not None:
            sys.stderr.write(f"clinker diff-data error: {printable(problem.message)}\n")
        return problem.code
    with standard_streams.given_up("clinker diff-data", sys.stdout):
        sys.stdout.write(_json(found, sides) if as_json else _text(found, sides))
    differs = bool(sides.only_old or sides.only_new) or any(each.differs for each in found)
    return ExitCode.CONFIG if differs and fails else ExitCode.SUCCESS


def _sides(
    old: FilePath, new: FilePath, planning: PlanOptions, wanted: observation.Observed, diagnostics: str
) -> _Sides:
    for path in (old, new):
        if isinstance(path, Path) and not path.exists():
            raise observation.NotObserved(f"{path}: no such file or folder", ExitCode.IO)
    kinds = {_kind(old), _kind(new)}
    if len(kinds) > 1:
        text = f"{old} is a {_kind(old)} and {new} is a {_kind(new)}: compare two of one kind"
        raise observation.NotObserved(text, ExitCode.CONFIG)
    if kinds == {"pipeline"}:
        return _of_pipelines(old, new, planning, wanted, diagnostics)
    if wanted.nodes:
        raise observation.NotObserved(f"{old} is no pipeline, so it has no node '{wanted.nodes[0]}'", ExitCode.CONFIG)
    read = [{Path(): old}, {Path(): new}] if kinds == {"file"} else [_files(old), _files(new)]
    pairs, notes = [], []
    for below in sorted(read[0].keys() & read[1].keys()):
        seen = [observation.of_file(side[below], planning, wanted, diagnostics) for side in read]
        name = below.as_posix() if below.parts else str(new)
        before, after = (replace(one.nodes[0], name=name) for one in seen)
        pairs.append((before, after))
        # The first line says how many records were read; more lines tell of records that do not fit.
        for side, one in zip(read, seen, strict=True):
            notes += [f"{side[below]}: {line}" for line in one.notes[1:]]
    only = [sorted(map(Path.as_posix, mine.keys() - other.keys())) for mine, other in (read, reversed(read))]
    return _Sides(pairs, only[0], only[1], notes)


def _kind(path: FilePath) -> str:
    if isinstance(path, Path):
        return "folder" if path.is_dir() else "pipeline" if observation.is_pipeline(path) else "file"
    if observation.is_pipeline(path):
        return "pipeline"
    return "folder" if not path.name or (not small_files.is_there(path) and _files(path)) else "file"


def _files(folder: FilePath) -> Mapping[Path, FilePath]:
    """The files below a folder by their names there, without hidden ones."""
    below: dict[Path, FilePath]
    if isinstance(folder, Path):
        found = (path for path in folder.rglob("*") if path.is_file())
        below = {path.relative_to(folder): path for path in found}
    else:
        objects = globs.matching_below(folder, "**", small_objects.settings())
        below = {Path(each.location.name_in(folder) or ""): each.location for each in objects}
    return {name: path for name, path in below.items() if not any(part.startswith(".") for part in name.parts)}


def _of_pipelines(
    old: FilePath, new: FilePath, planning: PlanOptions, wanted: observation.Observed, diagnostics: str
) -> _Sides:
    seen = [observation.observe(path, planning, wanted, diagnostics) for path in (old, new)]
    before, after = ({node.name: node for node in one.nodes} for one in seen)
    pairs = [(node, after[name]) for name, node in before.items() if name in after]
    only = [[name for name in mine if name not in other] for mine, other in ((before, after), (after, before))]
    notes = [f"{word}: {line}" for word, one in zip(("old", "new"), seen, strict=True) for line in one.notes]
    return _Sides(pairs, only[0], only[1], notes)


def compared(old: observation.Node, new: observation.Node, rules: Rules, most: int) -> Comparison:
    """Compare the records of two nodes, with at most `most` examples of each difference.

    Raises:
        NotObserved: the rules name a column that is not there.
    """
    rows = [side.records() for side in (old, new)]
    names = [_names(node, side) for node, side in zip((old, new), rows, strict=True)]
    shared = [name for name in names[0] if name in names[1]]
    for name in (*rules.key, *rules.ignored):
        if not all(name in side for side in names):
            missing = [word for word, side in zip(("old", "new"), names, strict=True) if name not in side]
            # An ignored column may be on one side only.
            if name in rules.ignored and len(missing) == 1:
                continue
            hint = nearest.hint(name, shared)
            text = f"{new.name}: there is no column '{name}' on the {' and the '.join(missing)} side"
            raise observation.NotObserved(f"{text}{f'; {hint}' if hint else ''}", ExitCode.CONFIG)
    compared = [name for name in shared if name not in rules.ignored]
    key = rules.key or _found_key(compared, rows, old.types)
    columns = Columns(
        [name for name in names[1] if name not in names[0] and name not in rules.ignored],
        [name for name in names[0] if name not in names[1] and name not in rules.ignored],
        {name: (a, b) for name in compared if (a := old.types.get(name)) and (b := new.types.get(name)) and a != b},
    )
    matched = _Matched.by(key or compared, *rows)
    by_column, changed = _changes(
        matched.pairs, [name for name in compared if name not in key], key, rules.tolerance, most
    )
    return Comparison(
        new.name, len(rows[0]), len(rows[1]), key, bool(key) and not rules.key, matched.repeated if key else 0, columns,
        len(matched.pairs) - changed, changed, len(matched.only_old), len(matched.only_new), by_column,
        matched.only_old[:most], matched.only_new[:most],
    )  # fmt: skip


def _names(node: observation.Node, rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys([*node.types, *(name for row in rows for name in row)]))


def _found_key(names: Sequence[str], sides: Sequence[Sequence[Row]], types: Mapping[str, str]) -> tuple[str, ...]:
    """The first column in which each record of each side has a value of its own."""
    for name in names:
        if types.get(name, "").startswith(_NO_KEYS):
            continue
        if all(_is_unique(name, rows) for rows in sides) and any(sides):
            return (name,)
    return ()


def _is_unique(name: str, rows: Sequence[Row]) -> bool:
    seen = set()
    for row in rows:
        value = row.get(name)
        if value is None or isinstance(value, float | list | dict) or (known := _plain(value)) in seen:
            return False
        seen.add(known)
    return True


@dataclass(frozen=True)
class _Matched:
    """The records of both sides, matched by the values of some columns; equal values are matched in order.

    Args:
        pairs: the records that both sides have, in the order of the old side.
        only_old: the records of the old side that have no other.
        only_new: the names that only the new side has.
        repeated: how many values have several records on one side.
    """

    pairs: list[tuple[Row, Row]]
    only_old: list[Row]
    only_new: list[Row]
    repeated: int

    @classmethod
    def by(cls, key: Sequence[str], old: Iterable[Row], new: Iterable[Row]) -> _Matched:
        """Match them by columns."""

        def key_of(row: Row) -> tuple[Any, ...]:
            return tuple(_plain(row.get(name)) for name in key)

        waiting: dict[tuple[Any, ...], list[Row]] = {}
        for row in new:
            waiting.setdefault(key_of(row), []).append(row)
        seen = Counter({known: len(rows) for known, rows in waiting.items()})
        twice = {known for known, count in seen.items() if count > 1}
        taken: Counter[tuple[Any, ...]] = Counter()
        pairs, only_old = [], []
        for row in old:
            known = key_of(row)
            at = taken[known]
            taken[known] += 1
            if at == 1:
                twice.add(known)
            if at < seen[known]:
                pairs.append((row, waiting[known][at]))
            else:
                only_old.append(row)
        left = {id(row) for known, rows in waiting.items() for row in rows[taken[known] :]}
        only_new = [row for rows in waiting.values() for row in rows if id(row) in left]
        return cls(pairs, only_old, only_new, len(twice))


def _changes(
    pairs: Iterable[tuple[Row, Row]], names: Sequence[str], key: Sequence[str], tolerance: float, most: int
) -> tuple[list[ColumnChanges], int]:
    """The differences in matched records, by column, and the number of records that differ."""
    counts: Counter[str] = Counter()
    examples: dict[str, list[Change]] = {}
    changed = 0
    for old, new in pairs:
        differing = [name for name in names if not same(old.get(name), new.get(name), tolerance)]
        changed += bool(differing)
        for name in differing:
            counts[name] += 1
            if counts[name] <= most:
                shown = {part: new.get(part) for part in key}
                examples.setdefault(name, []).append(Change(shown, old.get(name), new.get(name)))
    return [ColumnChanges(name, count, examples.get(name, [])) for name, count in counts.most_common()], changed


def same(old: Any, new: Any, tolerance: float) -> bool:
    """Whether two values are the same: numbers by their value, a number and a text by the number in the text."""
    if _is_number(old) and isinstance(new, str):
        return _is_written(old, new)
    if _is_number(new) and isinstance(old, str):
        return _is_written(new, old)
    if _is_number(old) and _is_number(new):
        return _plain(old) == _plain(new) or (tolerance > 0 and math.isclose(old, new, rel_tol=0.0, abs_tol=tolerance))
    return bool(_plain(old) == _plain(new))


def _is_written(number: float | Decimal, text: str) -> bool:
    written = decimals.of_text(text)
    if written is not None and not (isinstance(number, float) and decimals.of_float(number) is None):
        return bool(_plain(written) == _plain(number))
    try:
        return isinstance(number, float) and float(text) == number
    except ValueError:
        return False


def _plain(value: Any) -> Any:
    """A value as a key: true is not 1, a Decimal is the Int or Float with its digits, members have no order."""
    if isinstance(value, bool | list | dict):
        return (type(value).__name__, json.dumps(value, sort_keys=True, default=values.decimal_text))
    return values.plainest(value) if isinstance(value, Decimal) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _json(found: Sequence[Comparison], sides: _Sides) -> str:
    document = {
        "schema_version": _VERSION,
        "differs": bool(sides.only_old or sides.only_new) or any(each.differs for each in found),
        "comparisons": [{**asdict(each), "differs": each.differs} for each in found],
        "only_old": sides.only_old,
        "only_new": sides.only_new,
        "notes": sides.notes,
    }
    return json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n"


def _text(found: Sequence[Comparison], sides: _Sides) -> str:
    lines = [f"{printable(name)}: only on the old side" for name in sides.only_old]
    lines += [f"{printable(name)}: only on the new side" for name in sides.only_new]
    for each in found:
        lines += _lines(each)
    return "".join(f"{line}\n" for line in [*lines, *map(printable, sides.notes)])


def _lines(one: Comparison) -> Iterator[str]:
    records = f"{_counted(one.old_records)} before, {_counted(one.new_records)} after"
    yield f"{printable(one.name)}: {records}, {_matching(one)}"
    if one.repeated:
        keys = "1 key has" if one.repeated == 1 else f"{one.repeated:,} keys have"
        yield f"  {keys} several records on a side; they are compared in their order"
    for name in one.columns.removed:
        yield f"  - column {printable(name)}"
    for name in one.columns.added:
        yield f"  + column {printable(name)}"
    for name, (before, after) in one.columns.retyped.items():
        yield f"  ~ column {printable(name)}: {before} -> {after}"
    if not one.changed and not one.only_old and not one.only_new:
        yield "  no record differs"
        return
    counts = {"equal": one.equal, "changed": one.changed, "only before": one.only_old, "only after": one.only_new}
    yield f"  {', '.join(f'{count:,} {word}' for word, count in counts.items())}"
    for column in one.by_column:
        yield f"  {printable(column.name)}: changed in {_counted(column.count)}"
        for change in column.examples:
            yield f"    {_members(change.key)}: {_shown(change.old)} -> {_shown(change.new)}"
    for word, rows, count in (("before", one.old_examples, one.only_old), ("after", one.new_examples, one.only_new)):
        if count:
            first = "" if count == len(rows) else f", the first {len(rows)}" if rows else ""
            yield f"  only {word}{first}:"
            for row in rows:
                yield f"    {_members({name: row.get(name) for name in one.key} or row)}"


def _matching(one: Comparison) -> str:
    if not one.key:
        return "compared whole, for no column has a value of its own in each record (see --key)"
    return f"matched by {printable(', '.join(one.key))}{' (see --key)' if one.is_found else ''}"


def _members(row: Row) -> str:
    return ", ".join(f"{printable(name)}={_shown(value)}" for name, value in row.items())


def _shown(value: Any) -> str:
    text = printable(f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= _WIDEST_VALUE else text[: _WIDEST_VALUE - 1] + "…"


def _counted(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"
