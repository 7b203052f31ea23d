"""Options of formats that no file can have: date formats, encodings, the characters of CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import ORDERS, output, problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("form", "says"), [("%H:%M", "no year"), ("%Y-%Y-%m-%d", "twice"), ("%Y-%m", "no day")])
def test_a_date_format_that_gives_no_date_is_refused(form: str, says: str, tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", f"name: shop, date_formats: ['%d.%m.%Y', '{form}']") + output("orders")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert says in problem.message
    assert problem.span is not None
    assert problem.span.file.text[problem.span.start : problem.span.end] == f"'{form}'"


@pytest.mark.parametrize("name", ["punycode", "idna", "undefined", "unicode_escape", "raw_unicode_escape", "hex", "no"])
@pytest.mark.parametrize("kind", ["csv", "json", "xml"])
def test_an_encoding_that_no_file_has_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    text = ORDERS + output("orders", config=f", options: {{ encoding: {name} }}").replace("type: csv", f"type: {kind}")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert f"'{name}'" in problem.message
    assert problem.help is not None
    assert "`utf-8`" in problem.help


def test_an_encoding_that_is_spelled_wrong_is_found(tmp_path: Path) -> None:
    text = ORDERS.replace("path:", "options: { encoding: utf-9 }\n      path:") + output("orders")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert problem.help == "did you mean `utf-8`?"


@pytest.mark.parametrize("kind", ["csv", "json", "xml"])
def test_an_encoding_without_the_characters_of_a_name_is_refused(kind: str, tmp_path: Path) -> None:
    settings = ', mapping: { "é": id, "ü": note }, options: { encoding: ascii }'
    text = ORDERS + output("orders", config=settings).replace("type: csv", f"type: {kind}")
    found = problems(tmp_path, text)
    assert [problem.code.id for problem in found] == ["E007", "E007"]
    assert "column 'é': character 'é' (U+00E9) cannot be written as ascii" in found[0].message
    spans = [problem.span for problem in found if problem.span]
    assert [span.file.text[span.start : span.end] for span in spans] == ["id", "note"]
    assert not problems(tmp_path, text.replace("ascii", "latin-1"))
    without = problems(tmp_path, text.replace("options: {", "include_header: false, options: {"))
    assert bool(without) == (kind != "csv")


@pytest.mark.parametrize(
    ("written", "says"), [(r"'\t'", '"\\t" for a tab in double quotes'), ("';;'", "found 2"), (r'"\t"', "")]
)
def test_a_delimiter_is_one_character(written: str, says: str, tmp_path: Path) -> None:
    found = problems(tmp_path, ORDERS + output("orders", config=f", options: {{ delimiter: {written} }}"))
    assert [says in problem.message for problem in found] == [True] * bool(says)


def test_a_column_that_no_element_can_be_called_is_refused(tmp_path: Path) -> None:
    settings = ', mapping: { "order id": id, "@ok": note }'
    text = ORDERS + output("orders", config=settings).replace("type: csv", "type: xml")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert "column 'order id': 'order id' is not an XML name" in problem.message
    assert problem.help == "name it under `mapping`, or leave it out by `exclude`"
    assert not problems(tmp_path, text.replace("order id", "order-id"))


@pytest.mark.parametrize("key", ["delimiter", "quote_char"])
@pytest.mark.parametrize("character", ["", "ab", "é", "\\n", "\\0"])
def test_a_csv_character_that_cannot_structure_a_file_is_refused(key: str, character: str, tmp_path: Path) -> None:
    text = ORDERS + output("orders", config=f', options: {{ {key}: "{character}" }}')
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert f"`{key}`: expected one" in problem.message


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("type: fixed_width, schema: {encoding: nope, fields: [{name: id, width: 3}]}", "unknown encoding 'nope'"),
        ("type: fixed_width, schema: {encoding: utf-16, fields: [{name: id, width: 3}]}", "ASCII line ends"),
        ("type: parquet, schema: {encoding: latin-1, fields: [{name: id}]}", "Parquet files have none"),
    ],
)
def test_the_encoding_of_a_format_schema_is_checked(place: str, says: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, ORDERS + output("orders").replace("type: csv", place))
    assert says in problem.message
    assert problem.span is not None
    assert problem.span.file.text[problem.span.start : problem.span.end] == "schema"


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ("type: fixed_width, schema: {fields: [{name: id, width: 99999999999999999999}]}", 64 << 20),
        ("type: fixed_width, schema: {fields: [{name: id, start: 9223372036854775807, width: 1}]}", 64 << 20),
        ("type: fixed_width, schema: {fields: [{name: id, start: 0, end: 9223372036854775807}]}", 64 << 20),
        ("type: csv, schema: {fields: [{name: id, type: decimal, scale: 4294967296}]}", 400),
        ("type: csv, schema: {fields: [{name: id, type: decimal, precision: 4294967296}]}", 400),
        ("type: csv, if_exists: unique_suffix, unique_suffix_width: 4294967296", 255),
    ],
)
def test_numbers_beyond_all_measure_are_refused(settings: str, most: int, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, ORDERS + output("orders").replace("type: csv", settings))
    assert problem.code.id == "E007"
    assert f"must be at most {most}" in problem.message


def test_more_elements_than_any_segment_has_are_refused(tmp_path: Path) -> None:
    source = ORDERS.replace("type: csv", "type: x12\n      options: {max_elements: 10000}")
    (problem,) = problems(tmp_path, source + output("orders"))
    assert "must be at most 9999" in problem.message


@pytest.mark.parametrize("name", ["a.b", "unit price", "é", "1x"])
def test_a_name_that_avro_does_not_have_is_refused(name: str, tmp_path: Path) -> None:
    text = ORDERS + output("orders", config=f", mapping: {{ '{name}': id }}").replace("type: csv", "type: avro")
    (problem,) = problems(tmp_path, text)
    assert problem.code.id == "E007"
    assert f"column '{name}': names in an Avro file" in problem.message
