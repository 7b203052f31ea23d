"""Compares the results of a case with the expected ones, as differences that people can read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from spark_jobs.cli.cases import running
from spark_jobs.cli.cases.json_text import json_text
from spark_jobs.cxl import decimals
from spark_jobs.diagnostics import nearest, render
from spark_jobs.plan.reading import scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cli.cases import model
    from spark_jobs.cli.cases.reading import Case
    from spark_jobs.cli.cases.running import Ran
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.execute.dlq.work_list import Entry

    Row = dict[str, Any]

#: Floats that differ by less are equal: a sum in another order is no other result.
_TOLERANCE = 1e-9
_MOST_DIFFERENCES = 5
_OF_LETTERS = ("source", "row", "stage", "field", "value", "category", "detail")


@dataclass(frozen=True)
class Difference:
    """An assertion that does not hold: its place in the case, and how the records differ."""

    span: Span
    message: str
    lines: tuple[str, ...] = ()


def differences(case: Case, ran: Ran) -> list[Difference]:
    """The assertions of a case that do not hold."""
    found = list(_diagnostics(case, ran))
    if not ran.is_planned:
        return found
    if ran.error is not None or case.config.error is not None:
        return [*found, *_error(case, ran)]
    for name, expected in case.config.expect.items():
        if name not in ran.rows:
            hint = nearest.hint(name, list(ran.rows))
            found.append(Difference(case.place("expect", name), f"there is no node '{name}'; {hint}".rstrip("; ")))
        else:
            found += _rows(case, name, expected, ran.rows[name])
    return [*found, *_letters(case, ran.dead)]


def _diagnostics(case: Case, ran: Ran) -> Iterator[Difference]:
    errors, warnings = running.codes_of(ran.diagnostics)
    wanted = case.config.diagnostics
    place = case.place("diagnostics")
    for code in wanted:
        if code not in errors and code not in warnings:
            yield Difference(place, f"diagnostic {code} is expected, and planning does not find it")
    surprising = [each for each in ran.diagnostics if each.is_error and each.code.id not in wanted]
    if surprising:
        text = render.render(surprising, render.Style.CONCISE, colour=False)
        yield Difference(place, "the pipeline has errors", tuple(text.splitlines()))


def _error(case: Case, ran: Ran) -> Iterator[Difference]:
    wanted, got = case.config.error, str(ran.error) if ran.error else None
    place = case.place("error")
    if wanted is None:
        yield Difference(place, "the run ended with an error", (got or "",))
    elif got is None:
        yield Difference(place, f"the run is expected to end with an error ({wanted}), and did not")
    elif wanted not in got:
        yield Difference(place, "the run ended with another error", (f"expected: {wanted}", f"got:      {got}"))


def _rows(case: Case, name: str, expected: model.Expected, got: Sequence[Row]) -> Iterator[Difference]:
    pairs = _pairs(expected, got)
    lines: list[str] = []
    place = None
    count = 0
    for number, (want, have) in enumerate(pairs, 1):
        unequal = list(_row(want, have, partial=expected.partial))
        if not unequal:
            continue
        count += 1
        if want is not None and place is None:
            place = _place(case, name, expected.rows.index(want))
        if count <= _MOST_DIFFERENCES:
            at = f"row {number}: " if expected.ordered else ""
            what = "is missing" if have is None else "is not expected" if want is None else "differs"
            lines += [f"{at}{what}", *(f"  {line}" for line in unequal)]
    if count:
        if count > _MOST_DIFFERENCES:
            lines.append(f"and {count - _MOST_DIFFERENCES} more")
        rows = f"{_count(len(expected.rows))} expected, {len(got)} came"
        yield Difference(place or case.place("expect", name), f"'{name}': {rows}", tuple(lines))


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


def _place(case: Case, name: str, number: int) -> Span:
    """The place of an expected row."""
    for path in (("expect", name, "rows", number), ("expect", name, number)):
        if case.node(*path) is not None:
            return case.place(*path)
    return case.place("expect", name)


def _pairs(expected: model.Expected, got: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
    """Expected rows, each with the one that came for it."""
    if expected.ordered:
        longest = max(len(expected.rows), len(got))
        wanted: list[Row | None] = [*expected.rows, *[None] * longest]
        had: list[Row | None] = [*got, *[None] * longest]
        return list(zip(wanted[:longest], had[:longest], strict=True))
    left = list(got)
    pairs: list[tuple[Row | None, Row | None]] = []
    without = []
    for want in expected.rows:
        fit = next((row for row in left if _is_same(want, row, partial=expected.partial)), None)
        if fit is None:
            without.append(want)
        else:
            left.remove(fit)
            pairs.append((want, fit))
    for want in without:
        near = max(left, key=lambda row: _likeness(want, row), default=None)
        if near is not None:
            left.remove(near)
        pairs.append((want, near))
    return pairs + [(None, row) for row in left]


def _likeness(want: Row, have: Row) -> int:
    return sum(_are_equal(value, have.get(name)) for name, value in want.items())


def _is_same(want: Row, have: Row, *, partial: bool) -> bool:
    return not any(True for _ in _cells(want, have, partial=partial))


def _cells(want: Row, have: Row, *, partial: bool) -> Iterator[str]:
    """The columns in which two rows differ; one that is absent is null."""
    for name in want if partial else dict.fromkeys([*want, *have]):
        if not _are_equal(want.get(name), have.get(name)):
            yield name


def _row(want: Row | None, have: Row | None, *, partial: bool) -> Iterator[str]:
    if want is None or have is None:
        yield f"{'+' if want is None else '-'} {json_text(have if want is None else want)}"
        return
    differing = list(_cells(want, have, partial=partial))
    if not differing:
        return
    same = {name: value for name, value in want.items() if name not in differing and value is not None}
    if same:
        yield f"  {json_text(same)}"
    for name in differing:
        yield f"- {name}: {json_text(want.get(name))}"
        yield f"+ {name}: {json_text(have.get(name))}"


def _are_equal(want: Any, have: Any) -> bool:
    if isinstance(want, dict) and isinstance(have, dict):
        return not any(True for _ in _cells(want, have, partial=False))
    if isinstance(want, list) and isinstance(have, list):
        return len(want) == len(have) and all(map(_are_equal, want, have))
    if isinstance(want, bool) or isinstance(have, bool) or want is None or have is None:
        return want is have
    if isinstance(have, Decimal) and isinstance(want, int | float | str):
        # A number in YAML counts by the digits that are written.
        return decimals.of_text(want.text if isinstance(want, scalars.WrittenFloat) else str(want)) == have
    if isinstance(want, int | float) and isinstance(have, int | float):
        return want == have or math.isclose(want, have, rel_tol=_TOLERANCE)
    return bool(want == have)


def _letters(case: Case, dead: Sequence[Entry]) -> Iterator[Difference]:
    wanted = case.config.dead_letters
    lines: list[str] = []
    place = None
    for number in range(max(len(wanted), len(dead))):
        want = wanted[number] if number < len(wanted) else None
        have = facts(dead[number]) if number < len(dead) else None
        unequal = list(_letter(want, have))
        if unequal:
            what = "is missing" if have is None else "is not expected" if want is None else "differs"
            lines += [f"dead letter {number + 1} {what}", *(f"  {line}" for line in unequal)]
            if place is None and want is not None:
                place = case.place("dead_letters", number)
    if lines:
        letters = "1 dead letter" if len(wanted) == 1 else f"{len(wanted)} dead letters"
        message = f"{letters} expected, {len(dead)} came"
        yield Difference(place or case.place("dead_letters"), message, tuple(lines))


def _letter(want: Row | None, have: Row | None) -> Iterator[str]:
    if have is None:
        yield f"- {json_text(want)}"
    elif want is None:
        yield f"+ {json_text({name: have[name] for name in _OF_LETTERS if have.get(name)})}"
    else:
        for name, value in want.items():
            got = have.get(name, "")
            texts = _texts(value)
            if got not in texts and not (name == "detail" and texts[0] in got):
                yield f"- {name}: {texts[0]}"
                yield f"+ {name}: {got}"


def _texts(value: Any) -> list[str]:
    """The texts that a value of a dead letter may have: a number counts as it is written and by its value."""
    if value is None or isinstance(value, str):
        return [value or ""]
    written = [value.text] if isinstance(value, scalars.WrittenInt | scalars.WrittenFloat) else []
    return [*written, json.dumps(value)]


def facts(entry: Entry) -> Row:
    """The facts about a dead letter as texts. They replace columns of its record with the same name."""
    known = (entry.source, entry.row, entry.stage, entry.field, entry.value, entry.category, entry.detail)
    return {**entry.record, **dict(zip(_OF_LETTERS, known, strict=True))}
