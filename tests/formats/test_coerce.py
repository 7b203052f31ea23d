from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.cxl import types, values
from spark_jobs.cxl.dates import strftime
from spark_jobs.formats import coerce, date_forms
from tests.formats.csv.files import read_csv
from tests.formats.json.test_reading_json import read_json

if TYPE_CHECKING:
    from pathlib import Path

D, T = dt.date, dt.datetime
BAD = object()
CODES = ["Y", "m", "d", "-d", "_m", "e", "b", "B", "a", "j", "y", "C", "H", "M", "p", "G", "V", "u", "F", "D", "v", "s"]
BUILTIN = ["%Y-%m-%d", "%m/%d/%Y", "%Y/%m/%d", "%m-%d-%Y"]


def convert(texts: list[str | None], static: types.Type, formats: tuple[str, ...] = ()) -> list[Any]:
    """The values, `BAD` where a text failed."""
    done = coerce.convert(pa.array(texts, pa.string()), static, formats)
    assert done.array.type == values.arrow_type(static)
    assert done.failed.tolist() == sorted(set(done.failed.tolist()))
    items = values.from_arrow(done.array, static)
    assert all(items[row] is None for row in done.failed)
    return [BAD if row in done.failed else item for row, item in enumerate(items)]


ACCEPTED = [
    (types.INT, "12", 12),
    (types.INT, "+5", 5),
    (types.INT, "-007", -7),
    (types.INT, "-9223372036854775808", -(2**63)),
    (types.INT, "000000000000000000000000000012", 12),
    (types.FLOAT, "2.5", 2.5),
    (types.FLOAT, ".5", 0.5),
    (types.FLOAT, "5.", 5.0),
    (types.FLOAT, "+3", 3.0),
    (types.FLOAT, "1E-3", 0.001),
    (types.FLOAT, "1e400", math.inf),
    (types.FLOAT, "-Infinity", -math.inf),
    (types.FLOAT, "9007199254740993", 9007199254740992.0),
    (types.NUMERIC, "7", 7),
    (types.NUMERIC, "10.0", 10.0),
    (types.NUMERIC, "1e2", 100.0),
    (types.NUMERIC, "9223372036854775808", 9223372036854775808.0),
    (types.BOOL, "oN", True),
    (types.BOOL, "YES", True),
    (types.BOOL, "0", False),
    (types.BOOL, "off", False),
    (types.DATE, "2024-02-29", D(2024, 2, 29)),
    (types.DATE, "2024-2-9", D(2024, 2, 9)),
    (types.DATE, "03/09/2024", D(2024, 3, 9)),
    (types.DATE, "3/9/2024", D(2024, 3, 9)),
    (types.DATE, "2024/03/09", D(2024, 3, 9)),
    (types.DATE, "03-09-2024", D(2024, 3, 9)),
    (types.DATE, "9999-12-31", D(9999, 12, 31)),
    (types.DATETIME, "2024-03-09T01:02:03", T(2024, 3, 9, 1, 2, 3)),
    (types.DATETIME, "2024-03-09 01:02:03", T(2024, 3, 9, 1, 2, 3)),
    (types.DATETIME, "03/09/2024 01:02:03", T(2024, 3, 9, 1, 2, 3)),
    (types.DATETIME, "03/09/2024 01:02", T(2024, 3, 9, 1, 2)),
    (types.DATETIME, "2024-3-9T1:2:3", T(2024, 3, 9, 1, 2, 3)),
    (types.STRING, " as is ", " as is "),
    (types.ANY, "12", "12"),
    (types.ARRAY, '["a",1,null]', ["a", 1, None]),
    (types.MAP, '{"k":1.0}', {"k": 1.0}),
    (types.ARRAY, "[9223372036854775808,1e400,-0]", [Decimal("9223372036854775808"), "1e400", 0]),
    (types.ARRAY, "[9999999999999999.9999,0.1,12.50]", [Decimal("9999999999999999.9999"), 0.1, 12.5]),
]
REFUSED = [
    (types.INT, ["0x1F", " 5", "5 ", "--1", "-", "3.0", "1_000", "9223372036854775808", "१", "1e3", "5x", "\n5"]),
    (types.FLOAT, ["nan(ind)", "0x10", "1_0", " 1", "1 ", "e5", ".", "+", "1,5", "infi", "١"]),
    (types.NUMERIC, ["x", "0x1"]),
    (types.BOOL, ["y", "2", " true", "ja", "ｔrue"]),
    (types.DATE, ["1/5/24", "2024-02-30", "29.02.2024", "0000-01-01", "20240105", "2024-01-05T00:00:00", "12024-01-01",
                  "2024-13-1", "0/1/2024", "2024-01-0 5", ""]),
    (
        types.DATETIME,
        ["2024-03-09", "2024-03-09T01:02", "2024-03-09T01:02:03Z", "2024-03-09T24:00:00", "2024-03-09t01:02:03",
         "0000-01-01T00:00:00", "x" * 19],
    ),
    (types.ARRAY, ["[1", '{"k":1}', "NaN", "text", "[" * 100_000]),
    (types.NULL, ["x"]),
]  # fmt: skip


@pytest.mark.parametrize(("static", "text", "value"), ACCEPTED)
def test_accepted_spellings(static: types.Type, text: str, value: Any) -> None:
    alone = convert([text], static)
    assert alone == [value]
    assert type(alone[0]) is type(value)
    usual = next(other for kind, other, _ in ACCEPTED if kind == static)
    assert convert([usual, None, text, usual], static)[1:3] == [None, value]


@pytest.mark.parametrize(("static", "text"), [(static, text) for static, texts in REFUSED for text in texts])
def test_refused_spellings(static: types.Type, text: str) -> None:
    assert convert([text], static) == [BAD]
    usual = next((other for kind, other, _ in ACCEPTED if kind == static), None)
    assert convert([usual, None, text], static)[1:] == [None, BAD]


def test_nan_is_a_float() -> None:
    assert all(math.isnan(number) for number in convert(["NaN", "nan", "-nan", "NAN"], types.FLOAT))


def test_formats_of_the_pipeline_come_after_iso_and_before_the_others() -> None:
    formats = ("%d/%m/%Y", "%d/%m/%Y %H:%M", "%m-%Y-%d", "%d-%b-%Y", "%Y%m%d")
    texts = ["03/04/2024", "2024-03-04", "04/25/2024", "02-2024-29", "02-29-2024", "05-feb-2024", "20240229", "1st May"]
    days = [D(2024, 4, 3), D(2024, 3, 4), D(2024, 4, 25), D(2024, 2, 29), D(2024, 2, 29), D(2024, 2, 5), D(2024, 2, 29)]
    assert convert(list(texts), types.DATE, formats) == [*days, BAD]
    assert convert(["03/04/2024 05:06", "04/25/2024 05:06", "03/04/2024"], types.DATETIME, formats) == [
        T(2024, 4, 3, 5, 6),
        T(2024, 4, 25, 5, 6),
        BAD,
    ]


@pytest.mark.parametrize(
    ("form", "text", "moment"),
    [
        ("%d %B %Y", "7 September 1999", T(1999, 9, 7)),
        ("%a, %d %b %y", "Tue, 07 Sep 99", T(1999, 9, 7)),
        ("%a, %d %b %y", "Thu, 07 Sep 99", None),
        ("%a %d %b %Y", "Tue 02 January 2024", None),
        ("%a %d %B %Y", "tue 2 JAN 2024", T(2024, 1, 2)),
        ("%-d.%m.%Y", "2.01.2024", T(2024, 1, 2)),
        ("%G-W%V-%u", "2024-W01-2", T(2024, 1, 2)),
        ("%s", "86400", T(1970, 1, 2)),
        ("%C%y/%e/%m", "1999/ 7/09", T(1999, 9, 7)),
        ("%d.%m.%Y %k Uhr", "7.9.1999 25 Uhr", T(1999, 9, 7)),
        ("%y", None, None),
        ("%Y/%j", "2024/366", T(2024, 12, 31)),
        ("%Y/%j", "2023/366", None),
        ("%F %I:%M:%S %p", "2024-01-02 12:05:06 am", T(2024, 1, 2, 0, 5, 6)),
        ("%F %I:%M %Q", None, None),
        ("%F %T.%f", "2024-01-02 03:04:05.25", T(2024, 1, 2, 3, 4, 5, 250_000)),
        ("%d.%m.%y", "1.2.70", T(1970, 2, 1)),
        ("%d.%m.%y", "1.2.69", T(2069, 2, 1)),
        ("%d%%%m%%%Y", "1%2%2024", T(2024, 2, 1)),
    ],
)
def test_date_formats(form: str, text: str | None, moment: T | None) -> None:
    if text is None:
        assert date_forms.format_problem(form) is not None
    elif moment is None:
        for read in (date_forms.to_date, date_forms.to_datetime):
            with pytest.raises(ValueError):
                read(text, (form,))
        assert strftime.parse_date(text, form) is None
    else:
        assert date_forms.format_problem(form) is None
        assert date_forms.to_date(text, (form,)) == moment.date() == strftime.parse_date(text, form)
        if moment.time() != dt.time():
            assert date_forms.to_datetime(text, (form,)) == moment == strftime.parse_datetime(text, form)


def test_an_hour_that_is_on_no_clock_face_is_no_moment() -> None:
    for text in ("2024-01-02 13:05 pm", "2024-01-02 00:05 am"):
        with pytest.raises(ValueError):
            date_forms.to_datetime(text, ("%F %I:%M %p",))


@given(st.datetimes(T(1000, 1, 1), T(2999, 1, 1)), st.lists(st.sampled_from(CODES), min_size=1, max_size=6), st.data())
def test_a_format_means_the_same_in_sources_and_in_cxl(moment: T, codes: list[str], data: st.DataObject) -> None:
    form = " ".join(f"%{code}" for code in codes)
    text = strftime.write(moment, form)
    text = data.draw(st.sampled_from([text, text.upper(), text.replace(" ", ""), text + "x"]))
    try:
        day = date_forms.to_date(text, (form,))
    except ValueError:
        day = None
    wanted = strftime.parse_date(text, form)
    builtin = [strftime.parse_date(text, known) for known in BUILTIN]
    expected = builtin[0] or wanted or next((found for found in builtin if found), None)
    assert day == expected or (day is None and expected is not None and expected.day <= 12)


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%-d/%m/%y", "%e %B %Y", "%v", "100%% %d %b %Y", "%A %d %h %Y"])
def test_a_month_first_date_is_not_read_for_another_day_after_a_day_first_format(form: str) -> None:
    texts: list[str | None] = ["03/04/2026", "03-04-2026", "03/25/2026", "04/04/2026", "2026-04-03", "2026/04/03"]
    read = [BAD, BAD, D(2026, 3, 25), D(2026, 4, 4), D(2026, 4, 3), D(2026, 4, 3)]
    assert convert(texts, types.DATE, (form,)) == read
    moments: list[str | None] = ["03/04/2026 05:06", "03/25/2026 05:06:07"]
    assert convert(moments, types.DATETIME, (form + " %H:%M",)) == [BAD, T(2026, 3, 25, 5, 6, 7)]
    zoned = date_forms.zoned("Europe/Vienna", (form + " %H:%M",))
    assert convert(moments, types.DATETIME, zoned) == [BAD, T(2026, 3, 25, 5, 6, 7)]


@pytest.mark.parametrize("forms", [(), ("%m.%d.%Y",), ("%Y%m%d",), ("%%d %m %Y",), ("%d.%m.%Y", "%m/%d/%Y")])
def test_month_first_dates_are_read_where_no_format_says_otherwise(forms: tuple[str, ...]) -> None:
    assert convert(["03/04/2026"], types.DATE, forms) == [D(2026, 3, 4)]


@pytest.mark.parametrize("form", ["%Q", "%d.%m", "%d %d %m %Y", "%", "%Y-%m"])
def test_unusable_date_formats_are_told(form: str) -> None:
    assert date_forms.format_problem(form)


mixtures = {
    types.INT: st.integers(-(10**20), 10**20).map(str) | st.text("0123456789+-xX. ", max_size=6),
    types.FLOAT: st.floats().map(repr) | st.text("0123456789+-.eEinfa()", max_size=7),
    types.BOOL: st.sampled_from(["true", "TRUE", "yes", "0", "off", "x", " on"]),
    types.DATE: st.dates().map(str) | st.text("0123456789-/", min_size=6, max_size=10),
    types.DATETIME: st.datetimes().map(lambda t: t.isoformat(timespec="seconds")) | st.text("012389-/T: ", max_size=19),
    types.NUMERIC: st.integers().map(str) | st.floats().map(repr) | st.text("0123456789+-.eE", max_size=5),
}  # fmt: skip


@pytest.mark.parametrize("static", mixtures, ids=str)
def test_columns_convert_like_their_single_texts(static: types.Type) -> None:
    def single(text: str) -> Any:
        try:
            return coerce.text_to(text, static.kind)
        except ValueError:
            return BAD

    @given(st.lists(mixtures[static], max_size=6), st.integers(0, 3))
    def check(texts: list[str], start: int) -> None:
        column = pa.array(["-", *texts], pa.string()).slice(1).slice(min(start, len(texts)))
        done = coerce.convert(column, static)
        items = values.from_arrow(done.array, static)
        got = [BAD if row in done.failed else item for row, item in enumerate(items)]
        assert list(map(repr, got)) == [repr(single(text)) for text in column.to_pylist()]

    check()


def test_what_a_failure_says() -> None:
    from spark_jobs.formats.format import SourceColumn

    failure = coerce.failure_of(SourceColumn("n", types.INT.or_null()), "abc")
    assert (failure.detail, str(failure.category), failure.value, failure.field) == (
        "conversion failed: cannot convert 'abc' to Int",
        "type_coercion_failure",
        "abc",
        "n",
    )
    required = SourceColumn("n", types.INT, required=True)
    assert str(coerce.failure_of(required, "x").category) == "required_field_conversion_failure"
    assert str(coerce.absence_of(required).category) == "missing_required_field"


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [("2024-02-10T10:20:30.5", 500_000), ("2024-02-10 10:20:30.000001", 1), ("2024-02-29T23:59:59.123456789", 123_456)],
)
def test_fractions_of_seconds_are_read_as_writers_give_them(text: str, microseconds: int) -> None:
    assert date_forms.to_datetime(text).microsecond == microseconds
    column = pa.array([text, "2024-02-10T10:20:30", None])
    converted = coerce.convert(column, types.DATETIME, ())
    assert converted.failed.tolist() == []
    assert [None if value is None else value.microsecond for value in converted.array.to_pylist()] == [
        microseconds,
        0,
        None,
    ]


@pytest.mark.parametrize("kind", [types.INT, types.FLOAT, types.NUMERIC], ids=str)
def test_a_decimal_comma_has_a_hint(kind: types.Type, tmp_path: Path) -> None:
    texts = ["1.234,50", "-3,5", "x", "1.5,0,2", "1.234.567,8"]
    csv = read_csv(tmp_path / "in.csv", ("n\n" + "\n".join(f'"{text}"' for text in texts)).encode(), {"n": kind})
    lines = "\n".join(f'{{"n":"{text}"}}' for text in texts)
    for failures in (csv.failures, read_json(tmp_path / "in.json", lines, {"n": kind}).failures):
        assert [row for row, *_ in failures] == list(range(5))
        assert [row for row, *_, detail in failures if "`decimal_separator: ','`" in detail] == [0, 1, 4]
        assert [row for row, *_, detail in failures if "`thousands_separator: '.'`" in detail] == [0, 4]
        assert all(f"cannot convert '{texts[row]}' to" in detail for row, *_, detail in failures)


def test_a_year_of_two_digits_is_told_where_the_format_reads_four() -> None:
    from spark_jobs.formats.format import SourceColumn

    said = "`%Y`, which reads four digits; `%y` reads two"
    four = SourceColumn("d", types.DATE.or_null(), formats=("%d.%m.%Y",))
    assert said in coerce.failure_of(four, "05.03.26").detail
    assert said not in coerce.failure_of(four, "31.02.2026").detail
    assert (
        said not in coerce.failure_of(SourceColumn("d", types.DATE.or_null(), formats=("%d.%m.%y",)), "5.3.26x").detail
    )
    failed = np.array([0, 2])
    told = list(coerce.no_conversions(four, pa.array(["05.03.26", "05.03.2026", "x"]), failed))
    assert [(rows.tolist(), said in reason.after) for rows, reason in told] == [([0], True), ([2], False)]
