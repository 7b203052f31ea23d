"""Values keep their identity through formats: what is written and read again is the same value, never another one.

A run reads undeclared columns of JSON and writes each format; the next reads all these and writes each again; the last
one reads what came of it. A text format may make a text of a value, always the same one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.cxl import values
from spark_jobs.cxl.written_numbers import number_of
from tests.execute import pipelines, without_spark
from tests.few import VERY_FEW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Raw(str):
    """A JSON number as it stands in a file."""

    __slots__ = ()


_NUMBERS = """
    0 -0.0 1.0 1e16 1e-7 0.1 -1.7976931348623157e308 5e-324 9223372036854775807 -9223372036854775808
    9223372036854775808 -9223372036854775809 12345678901234567890 1e999 -1E400 1e-400
    9999999999999999.9999 -0.10000000000000001 12345678901234567890.50 0.30000000000000004 1.5e25 9007199254740993.0
"""
NUMBERS = [Raw(text) for text in (*_NUMBERS.split(), "1" + "0" * 400)]
TEXTS = [
    "", " ", "a", "é", "😀", "007", "1", "1.0", "1e5", "-0", "12345678901234567890", "true", "null", "2024-02-29",
    "2024-02-29T10:00:00", "29.02.2024", "NaN", "inf", '"', '""', "a,b", "a\nb", "a\r\nb", "[1]", "$float", "\\",
    '{"$date":"2024-01-01"}', "\t", "\u2028", "=1+1",
]  # fmt: skip
#: What XML can hold without a rule of its own for spaces and line ends.
PLAIN_TEXTS = [text for text in TEXTS if text and not set(text) & set(" \t\r\n\u2028")]
SCALARS = st.one_of(st.sampled_from(NUMBERS), st.booleans(), st.none())
NESTED = st.recursive(
    st.one_of(SCALARS, st.sampled_from(TEXTS)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["k", "$k", "é", ""]), inner, max_size=2)
    ),
    max_leaves=5,
)
#: By column; those with a dot stand in an object.
ANY_COLUMNS = {"u": NESTED, "v": st.one_of(SCALARS, st.sampled_from(TEXTS)), "o.x": NESTED, "w w": NESTED}
#: Under names that Avro can have.
PLAIN_COLUMNS = dict.fromkeys(["u", "v"], NESTED.filter(lambda value: not isinstance(value, dict)))
FLAT_COLUMNS = dict.fromkeys(["u", "v"], st.one_of(SCALARS, st.sampled_from(PLAIN_TEXTS)))
#: How sources and outputs of a format are told, and what it makes of a value.
JSON = {"array": {"type": "json"}, "ndjson": {"type": "json", "options": {"format": "ndjson"}}}
PARQUET = {"parquet": {"type": "parquet"}}
AVRO = {"avro": {"type": "avro"}}
CSV = {"csv": {"type": "csv"}}
XML = {"xml": {"type": "xml"}}


def as_text(value: Any) -> Any:
    return None if value is None else values.text_of(value)


MAKES: dict[str, Callable[[Any], Any]] = {
    "json": lambda value: value,
    "parquet": as_text,
    "avro": as_text,
    "csv": lambda value: "" if value is None else values.text_of(value),
    "xml": lambda value: as_text(value) or None,
}


def held(value: Any) -> Any:
    """A value as columns hold it."""
    match value:
        case Raw():
            return number_of(value)
        case list():
            return [held(item) for item in value]
        case dict():
            return {key: held(item) for key, item in value.items()}
        case _:
            return value


def spelled(value: Any) -> str:
    """A value as JSON."""
    match value:
        case Raw():
            return str(value)
        case list():
            return "[" + ",".join(map(spelled, value)) + "]"
        case dict():
            return "{" + ",".join(f"{json.dumps(key)}:{spelled(item)}" for key, item in value.items()) + "}"
        case _:
            return json.dumps(value)


def leaves(name: str, value: Any) -> dict[str, Any]:
    """The columns that an undeclared member makes."""
    if not isinstance(value, dict):
        return {name: value}
    return {leaf: item for key, inner in value.items() for leaf, item in leaves(f"{name}.{key}", inner).items()}


def source(kind: dict[str, Any], name: str, path: str) -> dict[str, Any]:
    around = {"options": {"record_path": "rows/row"}} if kind["type"] == "xml" else {}
    config = {**kind, **around, "path": path, "schema": [{"name": "k", "type": "int"}]}
    return {"type": "source", "name": name, "config": config}


def output(kind: dict[str, Any], name: str, path: str, given: str) -> dict[str, Any]:
    around = {"options": {"root_element": "rows", "record_element": "row"}} if kind["type"] == "xml" else {}
    return {"type": "output", "name": name, "input": given, "config": {**kind, **around, "path": path}}


def hop(folder: Path, given: dict[str, dict[str, Any]], wanted: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Read some files, and write each in several formats; gives the new files by the way that they have come."""
    nodes: list[dict[str, Any]] = []
    made: dict[str, dict[str, Any]] = {}
    for number, (way, kind) in enumerate(given.items()):
        nodes.append(source(kind, f"s{number}", f"{way}.data"))
        for name, other in wanted.items():
            made[f"{way}-{name}"] = other
            nodes.append(output(other, f"o{len(made)}", f"{way}-{name}.data", f"s{number}"))
    pipeline = {
        "pipeline": {"name": "hop"},
        "error_handling": {"strategy": "continue", "dlq": {"path": "dead.csv"}},
        "nodes": nodes,
    }
    (folder / "dead.csv").unlink(missing_ok=True)
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline, allow_unicode=True))
    outcome = pipelines.run(folder, force=True)
    assert outcome.result.exit_code in (0, 2), outcome.result.error
    return made


def prove(folder: Path, records: list[dict[str, Any]], formats: dict[str, dict[str, Any]]) -> None:
    columns = {leaf: None for record in records for name, value in record.items() for leaf in leaves(name, value)}
    # Every column has a value somewhere: what is null everywhere is absent in files whose records name their members.
    lines = [{"k": 0, **dict.fromkeys(columns, "x")}, *({"k": at, **record} for at, record in enumerate(records, 1))]
    (folder / "in.data").write_text("\n".join(map(spelled, lines)))
    first = hop(folder, {"in": JSON["ndjson"]}, formats)
    last = hop(folder, hop(folder, first, formats), {"read": JSON["ndjson"]})
    assert len(last) == len(formats) ** 2
    for way in last:
        steps = [formats[name]["type"] for name in way.split("-")[1:-1]]
        rows = (folder / f"{way}.data").read_text().rstrip("\n").split("\n")
        found = {row["k"]: row for row in (json.loads(row, parse_int=number_of, parse_float=number_of) for row in rows)}
        for line in lines:
            flat = {leaf: item for name, value in line.items() for leaf, item in leaves(name, value).items()}
            row = found.get(line["k"])
            if row is None:
                assert f"{line['k']}" in (folder / "dead.csv").read_text(), f"{way}: {line} is lost"
                continue
            for column in columns:
                expected = held(flat.get(column))
                for step in steps:
                    expected = MAKES[step](expected)
                assert repr(row.get(column)) == repr(expected), f"{way}: {column} of {line}"


def records_of(kinds: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({}, optional=kinds), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


@VERY_FEW
@given(records_of(ANY_COLUMNS))
@example([{"v": number} for number in NUMBERS])
@example([{"v": text, "u": [text]} for text in TEXTS])
@example([{"u": [number, {"k": [number]}]} for number in NUMBERS])
def test_values_of_every_kind_stay_what_they_are(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    prove(tmp_path, records, JSON | PARQUET | CSV)


@VERY_FEW
@given(records_of(PLAIN_COLUMNS))
@example([{"v": text, "u": [text, number]} for text, number in zip(TEXTS, NUMBERS * 2, strict=False)])
def test_values_under_plain_names_stay_what_they_are_in_avro_too(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    prove(tmp_path, records, {"ndjson": JSON["ndjson"]} | PARQUET | CSV | AVRO)


@VERY_FEW
@given(records_of(FLAT_COLUMNS))
@example([{"v": number} for number in NUMBERS])
@example([{"v": text, "u": None} for text in PLAIN_TEXTS])
def test_flat_values_stay_what_they_are_in_xml_too(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    prove(tmp_path, records, {"ndjson": JSON["ndjson"]} | CSV | XML)
