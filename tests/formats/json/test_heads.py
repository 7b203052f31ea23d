"""What a scan tells of declared columns that JSON files lack."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats.columns import OnUnmapped, ScanPlan
from spark_jobs.formats.format import ArrayPath
from spark_jobs.formats.json import heads
from spark_jobs.formats.json.fast import arrow
from spark_jobs.formats.json.options import JsonLayout, JsonRead
from spark_jobs.formats.json.read import JsonReader
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pathlib import Path

BOTH = pytest.mark.parametrize("on_unmapped", [OnUnmapped.AUTO_WIDEN, OnUnmapped.DROP])
#: More than the head of a file that is always looked into.
FILLER = "".join(f'{{"id":{number},"text":"{"x" * 100}"}}\n' for number in range(1000))


def plan(
    folder: Path,
    texts: dict[str, str],
    declared: tuple[str, ...],
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    **how: Any,
) -> ScanPlan:
    for name, text in texts.items():
        (folder / name).write_text(text)
    inputs = [files.describe(str(folder / name), name) for name in texts]
    options = how.pop("options", JsonRead())
    return JsonReader(options, tuple(how.pop("arrays", ()))).plan(declared, inputs, on_unmapped, **how)


@BOTH
def test_a_column_that_no_file_has_is_a_warning_and_one_that_some_have_is_none(
    tmp_path: Path, on_unmapped: OnUnmapped
) -> None:
    texts = {"a.json": '{"id":1,"orderId":2}\n{"id":2}', "b.json": '[{"id":3},{"id":4,"note":null}]', "c.json": "[]"}
    got = plan(tmp_path, texts, ("id", "order_id", "note", "zone"), on_unmapped)
    assert got.warnings == (
        "W210: no file has the declared column 'order_id', which is null in every record; did you mean `orderId`?",
        "W210: no file has the declared column 'zone', which is null in every record",
    )
    assert got.missing == (("order_id", 2), ("note", 1), ("zone", 2))
    assert got.nowhere == ("order_id", "zone")


@BOTH
def test_files_with_none_of_the_columns_are_one_warning(tmp_path: Path, on_unmapped: OnUnmapped) -> None:
    texts = {"a.json": '{"id":1,"name":"x"}', "b.json": '{"x":1,"nam":2}', "c.json": '{"y":1}', "d.json": "{}"}
    got = plan(tmp_path, texts, ("id", "name"), on_unmapped)
    assert got.warnings == (
        "W210: no record of b.json and 2 more has any of the declared columns (id, name); the first record has "
        "`x, nam`; did you mean `nam` by `name`?",
    )


@BOTH
def test_where_no_file_has_any_column_the_columns_are_not_told_one_by_one(
    tmp_path: Path, on_unmapped: OnUnmapped
) -> None:
    text = json.dumps({"page": 1, "data": {"rows": [{"id": 1}]}})
    got = plan(tmp_path, {"a.json": text}, ("id", "name"), on_unmapped)
    assert got.warnings == (
        "W210: no record of a.json has any of the declared columns (id, name); the first record has "
        "`page, data.rows`; the array 'data.rows' fits: `options.record_path: data.rows`",
    )
    fitting = plan(tmp_path, {"a.json": text}, ("id",), on_unmapped, options=JsonRead(record_path="data.rows"))
    assert fitting.warnings == ()


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"addr":{"city":"X"}}',
        '{"id":1,"addr.city":null}',
        '{"id":1,"addr":null}',
        '{"id":1}\n{"addr":{"city":1}}',
    ],
)
def test_a_column_below_an_object_is_there_by_any_of_its_spellings(
    tmp_path: Path, on_unmapped: OnUnmapped, text: str
) -> None:
    assert plan(tmp_path, {"a.json": text}, ("id", "addr.city"), on_unmapped).warnings == ()


@BOTH
def test_columns_are_looked_for_in_what_array_paths_make(tmp_path: Path, on_unmapped: OnUnmapped) -> None:
    text = '{"id":1,"items":[{"sku":"a"}]}'
    assert plan(tmp_path, {"a.json": text}, ("sku",), on_unmapped, arrays=[ArrayPath("items")]).warnings == ()


@BOTH
@pytest.mark.parametrize("text", ["", "[]", "{\n", '{"x":1}'])
def test_nothing_is_told_without_records_or_declared_columns(
    tmp_path: Path, on_unmapped: OnUnmapped, text: str
) -> None:
    declared = () if "x" in text else ("id",)
    assert plan(tmp_path, {"a.json": text}, declared, on_unmapped).warnings == ()


@BOTH
@pytest.mark.parametrize("layout", [JsonLayout.NDJSON, JsonLayout.ARRAY])
def test_a_column_that_comes_late_is_found(tmp_path: Path, on_unmapped: OnUnmapped, layout: JsonLayout) -> None:
    records = [*FILLER.splitlines(), '{"late":1}']
    text = "\n".join(records) if layout is JsonLayout.NDJSON else f"[{','.join(records)}]"
    got = plan(tmp_path, {"a.json": text}, ("id", "late", "never"), on_unmapped)
    assert [warning[:46] for warning in got.warnings] == ["W210: no file has the declared column 'never',"]
    assert got.missing == (("never", 1),)


def test_what_would_have_to_be_read_at_length_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "DOUBT_BYTES", len(FILLER) - 1)
    got = plan(tmp_path, {"a.json": FILLER, "b.json": '{"x":1}'}, ("id", "late"), OnUnmapped.DROP)
    assert [warning[:29] for warning in got.warnings] == ["W210: no record of b.json has"]


def test_no_file_is_read_on_where_the_beginnings_have_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads.Heads, "look_through", None)
    got = plan(tmp_path, {"a.json": FILLER, "b.json": '{"late":1}'}, ("id", "late"), OnUnmapped.DROP)
    assert (got.warnings, got.missing) == ((), (("id", 1),))


def test_whoever_reads_a_broken_file_tells_of_it(tmp_path: Path) -> None:
    assert plan(tmp_path, {"a.json": '[{"x":1},'}, ("id",), OnUnmapped.DROP).warnings == ()


def test_few_lines_are_searched_without_arrow_and_many_small_files_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = arrow.read
    counts: list[int] = []
    monkeypatch.setattr(arrow, "read", lambda *given, **named: counts.append(given[1]) or read(*given, **named))
    assert plan(tmp_path, {"a.json": '{"id":1,"x":2}\n' * 20}, ("id",)).origins == (("x", "a.json"),)
    assert counts == []
    texts = {f"{number:03}.json": f'{{"id":{number},"x":"{"y" * 100}"}}\n' * 10 for number in range(200)}
    texts |= {"150.json": texts["150.json"] + '{"z":1,"x":"2"}', "170.json": '{"id":1,"w":{"k":1},"z":3}'}
    got = plan(tmp_path, texts, ("id",))
    assert got.origins == (("x", "000.json"), ("z", "150.json"), ("w.k", "170.json"))
    # Not more lines at a time than Arrow may make places for, whatever their names.
    assert len(counts) == 3


def test_a_layout_may_be_given_as_its_word(tmp_path: Path) -> None:
    options: Any = JsonRead(format="array")  # type: ignore[arg-type]
    (found,) = plan(tmp_path, {"a.json": '  \n[ {"id":1} ]  \n'}, ("id",), options=options).files
    assert found.layout is JsonLayout.ARRAY


def test_a_file_that_was_not_planned_as_json_is_an_error_of_the_file(tmp_path: Path) -> None:
    (found,) = plan(tmp_path, {"a.json": "[]"}, ("id",)).files
    with pytest.raises(FormatError, match=r"a\.json: the file was not planned as JSON"):
        heads.planned_layout(replace(found, layout=None))
