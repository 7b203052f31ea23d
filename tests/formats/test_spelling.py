"""Other spellings of numbers, truth values and nulls: columns convert as single texts do, and hints say what helps."""

from __future__ import annotations

import contextlib
import io
import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cli.cxl import command as cxl
from spark_jobs.cxl import types
from spark_jobs.formats import coerce, hints, spelling
from spark_jobs.formats.format import SourceColumn
from spark_jobs.formats.spelling import Spelling
from tests.formats.csv.files import read_csv
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

GERMAN = Spelling(",", ".")
KINDS = [types.INT, types.FLOAT, types.NUMERIC, types.BOOL, types.STRING]
TEXTS = st.one_of(
    st.text("0123456789.,' +-e\u00a0\u202f’", max_size=8),
    st.sampled_from(["NA", "ja", "JA", "nein", "true", "0", "nan", "Inf", "-", "1.234,5", "1 234", "12,34,567", "Ja"]),
)


def of_single(text: str, static: types.Type, spelled: Spelling) -> object:
    """What the exact rules make of a text; a marker where it does not convert."""
    try:
        usual = spelled.usual(text, static.kind)
        return None if usual is None else coerce.text_to(usual, static.kind)
    except ValueError:
        return "does not convert"


@given(
    st.lists(st.none() | TEXTS, max_size=12),
    st.sampled_from(KINDS),
    st.builds(
        Spelling,
        st.sampled_from(".,"),
        st.sampled_from(["", ".", ",", " ", "'", "_"]),
        st.sampled_from([(), ("NA",), ("-", "0")]),
        st.sampled_from([(), ("ja",), ("JA", "0")]),
        st.sampled_from([(), ("nein",)]),
    ),
)
def test_columns_convert_as_single_texts_do(texts: list[str | None], static: types.Type, spelled: Spelling) -> None:
    if spelling.problems(spelled):
        return
    column = coerce.without_nulls(pa.array(texts, pa.string()), spelled.null_values)
    done = coerce.convert(column, static, (), spelled)
    expected = [None if text is None else of_single(text, static, spelled) for text in texts]
    assert done.failed.tolist() == [row for row, value in enumerate(expected) if value == "does not convert"]
    found = done.array.to_pylist()
    for value, wanted in zip(found, expected, strict=True):
        if isinstance(wanted, float) and isinstance(value, float):
            assert value == wanted or (value != value and wanted != wanted)
        elif static is not types.NUMERIC:
            assert value == (None if wanted == "does not convert" else wanted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.234,50", 1234.5),
        ("12,5", 12.5),
        (",5", 0.5),
        ("1234,5", 1234.5),
        ("-1.234.567", -1234567),
        ("1,5e3", 1500.0),
    ],
)
def test_german_numbers_are_read(text: str, value: float) -> None:
    assert coerce.convert(pa.array([text]), types.FLOAT, (), GERMAN).array.to_pylist() == [value]


@pytest.mark.parametrize("text", ["1.5", "1.2345", "12.34,5", "1,234.5", "1,2,3", ".123", "1..234", "1.234."])
def test_a_number_in_another_spelling_is_no_number(text: str) -> None:
    assert coerce.convert(pa.array([text]), types.FLOAT, (), GERMAN).failed.tolist() == [0]


def test_blanks_between_groups_may_be_the_unbreakable_ones() -> None:
    texts = pa.array(["1 234", "1\u00a0234", "1\u202f234", "1'234"])
    done = coerce.convert(texts, types.INT, (), Spelling(thousands_separator=" "))
    assert done.array.to_pylist() == [1234, 1234, 1234, None]
    assert done.failed.tolist() == [3]


def test_csv_and_json_read_alike(tmp_path: Path) -> None:
    texts = ["1.234,50", "NA", "1.5", "7"]
    spelled = Spelling(",", ".", ("NA",))
    columns = (SourceColumn("n", types.FLOAT, spelling=spelled), SourceColumn("s", types.STRING, spelling=spelled))
    csv_text = "n,s\n" + "".join(f'"{text}","{text}"\n' for text in texts)
    json_text = "".join(f'{{"n": "{text}", "s": "{text}"}}\n' for text in texts) + '{"n": 1.5, "s": ""}\n'
    read = read_csv(tmp_path / "in.csv", csv_text.encode(), {}, columns=columns)
    numbers = [{"n": 1234.5, "s": "1.234,50"}, {"n": None, "s": None}, {"n": 7.0, "s": "7"}]
    assert read.records == numbers
    assert [row for row, *_ in read.failures] == [2]
    from_json = read_json(tmp_path / "in.json", json_text, {}, columns=columns)
    assert from_json.records == [*numbers, {"n": 1.5, "s": ""}]
    assert [row for row, *_ in from_json.failures] == [2]


def test_a_null_word_is_an_absent_value_and_an_empty_text_is_not(tmp_path: Path) -> None:
    columns = (
        SourceColumn("s", types.STRING, required=True, spelling=Spelling(null_values=("NA",))),
        SourceColumn("t", types.STRING),
    )
    read = read_csv(tmp_path / "in.csv", b"s,t,u\nNA,NA,NA\n,,\n", {}, columns=columns, null_values=("NA",))
    assert [(row, category) for row, _, _, category, _ in read.failures] == [(0, "missing_required_field")]
    assert read.records == [{"s": "", "t": "", "$widened.u": ""}]
    columns = (SourceColumn("t", types.STRING),)
    read = read_csv(tmp_path / "in.csv", b"t,u\nNA,NA\n", {}, columns=columns, null_values=("NA",))
    assert read.records == [{"t": "NA", "$widened.u": None}]


@pytest.mark.parametrize(
    ("text", "static", "named"),
    [
        ("1.234,50", types.FLOAT, ["decimal_separator: ','", "thousands_separator: '.'"]),
        ("1 234,5", types.FLOAT, ["decimal_separator: ','", "thousands_separator: ' '"]),
        ("12,5", types.FLOAT, ["decimal_separator: ','"]),
        ("1,234.5", types.FLOAT, ["thousands_separator: ','"]),
        ("1'234", types.INT, ['thousands_separator: "\'"']),
        ("1,234", types.FLOAT, ["decimal_separator: ','", "thousands_separator: ','"]),
        ("3.5", types.INT, ["float"]),
        ("1.200", types.INT, ["thousands_separator: '.'", "decimal_separator: ','", "or begins a fraction", "float"]),
        ("NA", types.DATE, ["null_values: ['NA']"]),
        ("NA", types.decimal_of(12, 2), ["null_values: ['NA']"]),
        ("1,5", types.decimal_of(12, 2), ["decimal_separator: ','"]),
        ("", types.INT, ["null_values: ['']"]),
        ("", types.DATETIME, ["null_values: ['']"]),
        ("ja", types.BOOL, ["true_values"]),
        ("02.01.2026", types.DATE, ["format: '%d.%m.%Y'"]),
        ("02.01.26", types.DATE, ["format: '%d.%m.%y'"]),
        ("31/12/2026", types.DATE, ["format: '%d/%m/%Y'"]),
        ("02-Mar-2026", types.DATE, ["format: '%d-%b-%Y'"]),
        ("20260102", types.DATE, ["format: '%Y%m%d'"]),
        ("02.01.2026 10:00", types.DATETIME, ["format: '%d.%m.%Y %H:%M'"]),
        ("2026-01-02 10:00", types.DATE, ["date_time"]),
    ],
)
def test_what_a_hint_names_reads_the_text(text: str, static: types.Type, named: list[str]) -> None:
    hint = hints.hint_for(text, static)
    assert hint is not None
    assert [part for part in named if part not in hint] == []
    found = re.search(r"`format: '([^']*)'`", hint)
    if found:
        assert not len(coerce.convert(pa.array([text]), static, (found[1],)).failed)
    keys = dict(re.findall(r"`(decimal_separator|thousands_separator): ['\"](.)['\"]`", hint))
    if keys and "or stands" not in hint:
        assert not len(coerce.convert(pa.array([text]), static, (), Spelling(**keys)).failed)


@pytest.mark.parametrize(
    ("text", "number"),
    [("5.25-", -5.25), ("(5.25)", -5.25), ("12 %", 12.0), ("7.50 EUR", 7.5), ("$1.50", 1.5), ("CHF -2.5", -2.5)],
)
@pytest.mark.parametrize("column", [None, SourceColumn("n", types.FLOAT, spelling=Spelling(",", "."))], ids=str)
def test_what_a_hint_writes_takes_the_sign_off_a_number(text: str, number: float, column: SourceColumn | None) -> None:
    hint = hints.hint_for(text, types.FLOAT, column)
    assert hint is not None
    found = re.search(r"`(\.regex_replace\(.*\))`", hint)
    assert found is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        record = json.dumps({"n": text})
        assert cxl.main(["eval", "--record", record, "-e", f"emit x = n{found[1]}.trim().to_float()"]) == 0
    assert json.loads(printed.getvalue()) == {"x": number}


@pytest.mark.parametrize("error", ["#REF!", "#DIV/0!", "#N/A", "#NAME?"])
@pytest.mark.parametrize("static", [types.INT, types.FLOAT, types.DATE, types.BOOL])
def test_an_error_of_a_spreadsheet_is_no_word_for_nothing(error: str, static: types.Type) -> None:
    hint = hints.hint_for(error, static)
    assert hint == "it is an error of a spreadsheet's formula: correct it there, or in a copy of the file"


def test_no_hint_names_a_key_that_is_set() -> None:
    column = SourceColumn("n", types.FLOAT, spelling=Spelling(",", ".", ("NA",)))
    assert hints.hint_for("1.5", types.FLOAT, column) is None
    assert hints.hint_for("NA", types.FLOAT, column) is None
    assert hints.hint_for("abc", types.FLOAT) is None


@pytest.mark.parametrize("kind", ["of", "hundred"])
def test_a_separator_that_cannot_be_one_is_refused(kind: str) -> None:
    spelled = Spelling(decimal_separator=kind, thousands_separator=kind)
    assert [key for key, _ in spelling.problems(spelled)] == ["decimal_separator", "thousands_separator"]


def test_a_separator_has_one_meaning() -> None:
    assert spelling.problems(Spelling(",", ",")) != []
    assert spelling.problems(Spelling(thousands_separator=".")) != []
    assert spelling.problems(Spelling(true_values=("x",), false_values=("X",))) != []
