"""`clinker profile`: summarises the columns of a file, or of a node of a pipeline."""

from __future__ import annotations

import html
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from spark_jobs.cli import observation, standard_streams, tables
from spark_jobs.contract import ExitCode
from spark_jobs.cxl import values
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath

_VERSION = 1
_TOP = 5
#: A longer value is cut where people read it.
_WIDEST_VALUE = 40


@dataclass(frozen=True)
class Top:
    """A value and how many records have it."""

    value: Any
    count: int


@dataclass(frozen=True)
class Column:
    """The statistics of a column.

    Args:
        name: its name.
        type: its type; empty where that is not known.
        count: how many records have a value.
        nulls: how many have none.
        empty: how many have a text without characters.
        distinct: how many different values there are.
        least: the smallest value; of texts the first in the order of code points; None of containers.
        most: the largest.
        mean: the mean of numbers.
        shortest: how many characters the shortest text has.
        longest: how many the longest has.
        top: the commonest values, the most frequent first.
    """

    name: str
    type: str
    count: int
    nulls: int
    empty: int
    distinct: int
    least: Any = None
    most: Any = None
    mean: float | None = None
    shortest: int | None = None
    longest: int | None = None
    top: tuple[Top, ...] = ()

    @property
    def is_key(self) -> bool:
        """Whether each record has a value of its own."""
        return self.nulls == 0 and self.count > 1 and self.distinct == self.count


@dataclass(frozen=True)
class Profile:
    """The statistics of the records of a file or a node."""

    node: str
    records: int
    columns: list[Column] = field(default_factory=list)


def main(
    path: FilePath, planning: PlanOptions, wanted: observation.Observed, *, diagnostics: str, form: str, quiet: bool
) -> int:
    """Profile the nodes of a pipeline, or a data file with a guessed source.

    Args:
        path: a pipeline's file, or a file of data.
        planning: how the pipeline is planned.
        wanted: which nodes of a pipeline, and how many records of each source are read.
        diagnostics: how problems are shown.
        form: `text`, `json` or `html`.
        quiet: whether nothing is said of where the records come from.
    """
    try:
        if observation.is_pipeline(path):
            found = observation.observe(path, planning, wanted, diagnostics)
        else:
            found = observation.of_file(path, planning, wanted, diagnostics)
    except observation.NotObserved as problem:
        if problem.message is not None:
            sys.stderr.write(f"clinker profile error: {printable(problem.message)}\n")
        return problem.code
    profiles = [of(node) for node in found.nodes]
    with standard_streams.given_up("clinker profile", sys.stdout):
        sys.stdout.write(_FORMS[form](profiles, found.notes))
    if not quiet and form == "text":
        sys.stderr.write("".join(f"{printable(line)}\n" for line in found.notes))
    return ExitCode.SUCCESS


def of(node: observation.Node) -> Profile:
    """The profile of a node's records."""
    rows = node.records()
    names = list(dict.fromkeys([*node.types, *(name for row in rows for name in row)]))
    columns = [_column(name, node.types.get(name, ""), [row.get(name) for row in rows]) for name in names]
    return Profile(node.name, len(rows), columns)


def _column(name: str, kind: str, read: Sequence[Any]) -> Column:
    found = [value for value in read if value is not None]
    counts: Counter[Any] = Counter(map(_comparable, found))
    plain = {_comparable(value): value for value in found}
    top = tuple(Top(plain[value], count) for value, count in counts.most_common(_TOP))
    column = Column(
        name, kind, len(found), len(read) - len(found), sum(value == "" for value in found), len(counts), top=top
    )
    if not found:
        return column
    if all(_is_number(value) for value in found):
        return replace(column, least=min(found), most=max(found), mean=_mean(found))
    if all(isinstance(value, str) for value in found):
        lengths = [len(value) for value in found]
        return replace(column, least=min(found), most=max(found), shortest=min(lengths), longest=max(lengths))
    return column


def _comparable(value: Any) -> Any:
    """A value as a key: true is not 1, and containers have none of their own."""
    if isinstance(value, bool | list | dict):
        return (type(value).__name__, _json(value, sort_keys=True))
    return values.plainest(value) if isinstance(value, Decimal) else value


def _json(value: Any, **options: Any) -> str:
    """A value as JSON, in which Decimals are texts: programs would round them as numbers."""
    return json.dumps(value, ensure_ascii=False, default=values.decimal_text, **options)


def _mean(numbers: Sequence[Any]) -> float:
    """The mean of numbers of any kind."""
    return float(sum(map(Fraction, numbers)) / len(numbers)) if _has_decimals(numbers) else sum(numbers) / len(numbers)


def _has_decimals(numbers: Sequence[Any]) -> bool:
    return any(isinstance(number, Decimal) for number in numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _as_json(profiles: Sequence[Profile], notes: Sequence[str]) -> str:
    document = {"schema_version": _VERSION, "profiles": [asdict(each) for each in profiles], "notes": list(notes)}
    return _json(document, indent=2) + "\n"


def _as_text(profiles: Sequence[Profile], notes: Sequence[str]) -> str:
    lines = []
    for profile in profiles:
        lines.append(f"{printable(profile.node)}: {_counted(profile.records, 'record')}")
        rows = [list(_cells(column, profile.records).values()) for column in profile.columns]
        lines += tables.of_texts(list(_HEADS), rows)
    return "".join(f"{line}\n" for line in lines)


_HEADS = ("column", "type", "nulls", "empty", "distinct", "from", "to", "mean", "length", "top")


def _cells(column: Column, records: int) -> dict[str, str]:
    """A column as people read it, by heading."""
    cells = (
        column.name,
        column.type or "?",
        _share(column.nulls, records),
        _share(column.empty, records),
        f"{column.distinct:,}{', a key' if column.is_key else ''}",
        _shown(column.least),
        _shown(column.most),
        "" if column.mean is None else f"{column.mean:.6g}",
        "" if column.longest is None else _range(column.shortest, column.longest),
        ", ".join(f"{_shown(top.value)} ×{top.count:,}" for top in column.top if top.count > 1),
    )
    return dict(zip(_HEADS, cells, strict=True))


def _share(count: int, records: int) -> str:
    if not count:
        return "0"
    return f"{count:,} ({100 * count / records:.3g}%)"


def _range(least: int | None, most: int) -> str:
    return str(most) if least == most else f"{least} to {most}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return values.decimal_text(value)
    text = value if isinstance(value, str) and value else _json(value)
    return text if len(text) <= _WIDEST_VALUE else text[: _WIDEST_VALUE - 1] + "…"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .3rem .7rem .3rem 0; text-align: left; vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
meter { width: 5rem; }
small { opacity: .75; }
"""


def _as_html(profiles: Sequence[Profile], notes: Sequence[str]) -> str:
    """The profiles as one file that needs no network."""
    title = ", ".join(profile.node for profile in profiles)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{_safe(title)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
    ]
    for profile in profiles:
        parts += _section(profile)
    parts += [f"<p><small>{_safe(note.strip())}</small></p>" for note in notes]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _section(profile: Profile) -> Iterable[str]:
    yield f"<h1>{_safe(profile.node)}</h1><p>{_counted(profile.records, 'record')}</p><div><table>"
    heads = (*_HEADS[:2], "filled", *_HEADS[2:])
    yield "<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"
    for column in profile.columns:
        cells = _cells(column, profile.records)
        share = column.count / profile.records if profile.records else 0.0
        meter = f'<meter value="{share:.4f}">{100 * share:.3g}%</meter>'
        shown = [meter if head == "filled" else _safe(cells[head]) for head in heads]
        yield "<tr>" + "".join(f'<td class="number">{cell}</td>' for cell in shown) + "</tr>"
    yield "</table></div>"


def _safe(text: str) -> str:
    return html.escape(printable(text))


_FORMS = {"text": _as_text, "json": _as_json, "html": _as_html}
