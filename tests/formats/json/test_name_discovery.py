"""Undeclared names that nobody knew are noticed while records are read, and nothing else changes by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import types
from spark_jobs.formats import reading, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import Reading, SourceColumn
from spark_jobs.formats.json import undeclared
from spark_jobs.formats.json.exact import objects, one_by_one
from spark_jobs.formats.json.fast import arrow
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.tuning import DEFAULT, Tuning
from tests.formats.json import generated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.json.texts.portions import Lines

FLAT = (SourceColumn("id", types.INT), SourceColumn("name", types.STRING), SourceColumn("o.i", types.INT))


def planned(path: Path, reader: JsonReader, declared: Sequence[str], known: Sequence[str] | None) -> FilePlan:
    plan = reader.plan(declared, [files.describe(str(path), path.name)], OnUnmapped.DROP).files[0]
    return replace(plan, known=None if known is None else tuple(known))


def read(
    path: Path,
    columns: Sequence[SourceColumn],
    known: Sequence[str],
    options: JsonRead,
    live: frozenset[str],
    tuning: Tuning = DEFAULT,
) -> tuple[list[str], bool]:
    """The records and failures of a file by their rows, and whether there was news."""
    plan = planned(path, JsonReader(options, tuning=tuning), [column.name for column in columns], known)
    wanted = Reading(tuple(columns), tuple(known), failure_texts=True, live=live)
    return records_of(plan, JsonReader(options, tuning=tuning), wanted)


def records_of(plan: FilePlan, reader: JsonReader, wanted: Reading) -> tuple[list[str], bool]:
    outcome = reading.SplitOutcome()
    (split,) = splits.plan([plan], 1 << 30)
    found = []
    for block in reader.read(split, plan, wanted, outcome):
        rows = range(block.first_row, block.first_row + block.count) if block.rows is None else block.rows.to_pylist()
        found += [(row, repr(record)) for row, record in zip(rows, block.batch.to_pylist(), strict=True)]
        found += [(failed.row, repr(failed.failure)) for failed in block.failures]
    return [repr(each) for each in sorted(found)], outcome.has_news


def texts_of(lines: Sequence[str]) -> list[bytes]:
    return [line.encode("utf-8", "surrogatepass") for line in lines if line.strip()]


def leaves(lines: Sequence[str], declared: Sequence[str]) -> list[str]:
    """The undeclared leaves of lines, each line on its own."""
    items = [item for item in one_by_one.of_lines(texts_of(lines), "utf-8") if isinstance(item, dict)]
    finder = objects.Undeclared(declared)
    return list(dict.fromkeys(name for item in items for name, _ in finder.leaves(item)))


some_lines = generated.lines.filter(lambda lines: any(line.strip() for line in lines))
some = st.lists(st.sampled_from(generated.COLUMNS), min_size=1, unique=True)


@given(some_lines, some, st.integers(0, 20), st.integers(0, 12), st.sampled_from([0, 2, 8]), st.booleans())
@example(['{"i":1,"u":{"k":1}}'] * 20 + ['{"i":1,"u":null}'], generated.COLUMNS, 5, 12, 0, False)
@example(['{"o":{"i":1}}'] * 20 + ['{"o":null}'], generated.COLUMNS, 5, 12, 0, False)
@example(['{"i":1}'] * 20 + ['{"i":1,"i\\"":2}'], generated.COLUMNS, 5, 12, 0, False)
@example(['{"i":1,"s":"x"}'] * 20 + ['{"i":1,"s":2}', '{"i":1,"v":2}'], generated.COLUMNS, 5, 1, 0, False)
def test_news_are_the_names_that_were_not_known(
    tmp_path: Path, lines: list[str], columns: Sequence[SourceColumn], first: int, carried: int, fewest: int, few: bool
) -> None:
    path = tmp_path / "in.ndjson"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    declared = [column.name for column in columns]
    known = leaves(lines[:first], declared)
    live = frozenset(declared[:carried])
    tuning = Tuning(json_quick_lines=fewest, json_names_bytes=200 if few else 0)
    found, has_news = read(path, columns, known, JsonRead(JsonLayout.NDJSON), live, tuning)
    assert has_news is (leaves(lines, declared) != known)
    if not has_news:
        wanted = Reading(tuple(columns), tuple(known), failure_texts=True, live=live)
        reader = JsonReader(JsonRead(JsonLayout.NDJSON), tuning=tuning)
        assert records_of(planned(path, reader, declared, None), reader, wanted) == (found, False)


@pytest.mark.parametrize("layout", [JsonLayout.NDJSON, JsonLayout.ARRAY])
@pytest.mark.parametrize(
    ("last", "has_news"),
    [
        ('{"id":1,"name":"x","new":2}', True),
        ('{"id":1,"name":"x","new":null}', True),
        ('{"id":"1","name":"x","new":[{}]}', True),
        ('{"id":"odd","name":"x"}', False),
        ('{"id":1,"o":{"i":2,"j":3}}', True),
        ('{"id":1,"o":{}}', False),
        ('{"id":1,"o":null}', False),
        ('{"id":1,"o.i":7}', False),
        ('{"id":1,"extra":"as before"}', False),
        ('{"id":1,"extra":{"k":1}}', True),
    ],
)
def test_a_last_record_brings_news(tmp_path: Path, layout: JsonLayout, last: str, *, has_news: bool) -> None:
    records = ['{"id":7,"name":"some name","extra":"text","o":{"i":1}}'] * 3000 + [last]
    path = tmp_path / "in.json"
    path.write_text("\n".join(records) if layout is JsonLayout.NDJSON else f"[{','.join(records)}]")
    for live in (frozenset({"id", "name", "o.i"}), frozenset({"id"}), frozenset[str]()):
        assert read(path, FLAT, ("extra",), JsonRead(layout), live)[1] is has_news


@pytest.mark.thorough
def test_what_is_known_is_looked_for_in_no_other_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Lines] = []
    monkeypatch.setattr(undeclared.Names, "add", lambda self, lines: looked.append(lines))
    path = tmp_path / "in.ndjson"
    path.write_text('{"id":7,"name":"some name","extra":"text","o":{"i":1}}\n' * 100_000)
    for live in (frozenset({"id", "name", "o.i"}), frozenset({"id"})):
        assert not read(path, FLAT, ("extra",), JsonRead(JsonLayout.NDJSON), live)[1]
        assert looked == []


@pytest.mark.thorough
def test_members_that_change_their_kind_are_tried_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = arrow.read
    monkeypatch.setattr(arrow, "read", lambda *given, **named: tried.append(given[-1]) or real(*given, **named))
    path = tmp_path / "in.ndjson"
    path.write_text('{"id":7,"name":"some name","extra":"text"}\n{"id":7,"name":"x","extra":1}\n' * 100_000)
    assert not read(path, FLAT[:2], ("extra",), JsonRead(JsonLayout.NDJSON), frozenset({"id"}))[1]
    assert tried.count("error") <= 2


@pytest.mark.parametrize("known", [(), ("extra",), ("extra", "o.j"), None])
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (JsonRead(JsonLayout.NDJSON), "\n".join),
        (JsonRead(JsonLayout.ARRAY), lambda records: f"[{','.join(records)}]"),
        (JsonRead(record_path="of.it"), lambda records: f'{{"of":{{"it":[{",".join(records)}]}}}}'),
    ],
    ids=["lines", "array", "document"],
)
def test_all_records_are_counted_whatever_names_are_known(
    tmp_path: Path, options: JsonRead, text: Callable[[list[str]], str], known: Sequence[str] | None
) -> None:
    path = tmp_path / "in.json"
    path.write_text(text(['{"id":7,"name":"x","extra":1,"o":{"i":1,"j":2}}'] * 40))
    reader = JsonReader(options, tuning=Tuning(json_portion_bytes=100))
    plan = planned(path, reader, [column.name for column in FLAT], known)
    (split,) = splits.plan([plan], 1 << 30)
    outcome = reading.SplitOutcome()
    reader.count(split, plan, outcome)
    assert (outcome.records, outcome.has_news) == (40, False)
