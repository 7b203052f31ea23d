"""Types and spellings of columns, by all their values."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli.guess import values

if TYPE_CHECKING:
    from spark_jobs.cli.guess.values import Column


def guess(*columns: list[str]) -> list[Column]:
    return values.guess([(f"c{place}", Counter(column), len(column)) for place, column in enumerate(columns)])


@pytest.mark.parametrize(
    ("column", "kind", "keys"),
    [
        (["1", "2", "-3"], "int", {}),
        (["1", "2.5"], "float", {}),
        (["1e3", "2.5E-2", "7"], "float", {}),
        (["1,5", "2,25", "3"], "float", {"decimal_separator": ","}),
        (["1.234,50", "2"], "float", {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234.50", "2"], "float", {"thousands_separator": ","}),
        (["1,234,567", "2"], "int", {"thousands_separator": ","}),
        (["1 234,5", "2 000,0"], "float", {"decimal_separator": ",", "thousands_separator": " "}),
        (["1'234.50", "3"], "float", {"thousands_separator": "'"}),
        (["12E3", "13E4", "14e5"], "string", {}),
        (["12E3", "1.5"], "float", {}),
        (["001", "02"], "string", {}),
        (["12345678901234567890", "2"], "string", {}),
        (["12345678901234567890.12", "2.5", "-7"], "decimal(22,2)", {}),
        (
            ["12.345.678.901.234.567.890,1", "2"],
            "decimal(21,1)",
            {"decimal_separator": ",", "thousands_separator": "."},
        ),
        (["1234567890123.125", "0.000000000000000001"], "decimal(31,18)", {}),
        (["1234567890123456.75e3", "2.5"], "string", {}),
        (["12345678901234567890123456789012345678.5", "2.5"], "string", {}),
        (["12345678901234.5", "1.00000000000000000000"], "float", {}),
        (["1234567890123.5", "1.00"], "float", {}),
        (["3", "n/a", "5", "7", "NA"], "int", {"null_values": ["NA", "n/a"]}),
        ([".5", ".", "2"], "float", {"null_values": ["."]}),
        (["2", "10", "0", "three", "1"], "int", {}),
        (["2", "many", "few", "three"], "string", {}),
        (["nan", "1.5", "2"], "float", {"null_values": ["nan"]}),
        (["yes", "no", "YES"], "bool", {}),
        (["J", "N", "j"], "bool", {"true_values": ["j"], "false_values": ["n"]}),
        (["wahr", "falsch"], "bool", {"true_values": ["wahr"], "false_values": ["falsch"]}),
        (["0", "1"], "int", {}),
        (["2026-01-02", "2026-02-03"], "date", {}),
        (["03.04.26", "05.12.26"], "date", {"format": "%d.%m.%y"}),
        (["3.4.2026", "25.12.2026"], "date", {"format": "%d.%m.%Y"}),
        (["03/04/2026", "25/06/2026"], "date", {"format": "%d/%m/%Y"}),
        (["03/04/2026", "06/25/2026"], "date", {"format": "%m/%d/%Y"}),
        (["12-Jan-2026", "13-Feb-2026"], "date", {"format": "%d-%b-%Y"}),
        (["12 January 2026", "13 May 2026"], "date", {"format": "%d %B %Y"}),
        (["Jan 5, 2026", "May 6, 2026"], "date", {"format": "%b %d, %Y"}),
        (["31.01.2026", "2026-02-01", "1.2.2026"], "date", {"format": "%d.%m.%Y"}),
        (["2026-01-02 10:00:00", "2026-01-03T11:00:00.25"], "date_time", {}),
        (["2026-01-02 10:00", "2026-01-03 11:00"], "date_time", {"format": "%Y-%m-%d %H:%M"}),
        (["25.02.2026 10:15", "03.04.2026 11:20"], "date_time", {"format": "%d.%m.%Y %H:%M"}),
        (["1/25/2026 3:15 PM", "11/12/2026 4:00 AM"], "date_time", {"format": "%m/%d/%Y %I:%M %p"}),
        (["2026-01-02T10:00:00Z", "2026-01-02T10:00:00.5+02:00"], "date_time", {"timezone": "UTC"}),
        (["10:15", "11:20"], "string", {}),
        ([], "string", {}),
    ],
)
def test_a_column_is_what_its_values_are(column: list[str], kind: str, keys: dict[str, Any]) -> None:
    (found,) = guess(column)
    assert (found.type, found.keys) == (kind, keys)


@pytest.mark.parametrize(
    ("name", "column", "said"),
    [
        ("phone", ["030 123 456", "089 456 789", "040 222 333"], "begin with a zero"),
        ("phone", ["+49 301 234 567", "+49 894 567 890"], "begin with a plus"),
        ("day", ["01.02", "02.10"], "begin with a zero"),
        ("siren", ["732 829 320", "404 833 048", "552 100 554"], "all have 9 digits"),
        ("art", ["10.010.100", "10.010.200", "20.010.100"], "all have 8 digits"),
        ("code", ["12E4", "3345", "1298", "45E2"], "looks like a code"),
        ("code", ["12E3", "13E4", "14e5"], "looks like a code"),
        ("app_version", ["1.9", "1.10", "1.1"], "`1.1` and `1.10` would be the same number"),
    ],
)
def test_codes_are_no_numbers(name: str, column: list[str], said: str) -> None:
    (found,) = values.guess([(name, Counter(column), len(column))])
    assert (found.type, found.keys) == ("string", {})
    assert said in found.remarks[0].text


@pytest.mark.parametrize(
    ("name", "column", "kind"),
    [
        ("amount", ["00012.50", "00112.50", "00002.50"], "float"),
        ("people", ["1 234 567", "83 000 000", "9 000 000"], "int"),
        ("people", ["1,234,567", "8,300,000", "9,000,000"], "int"),
        ("size", ["1E5", "2.5", "3"], "float"),
        ("price", ["1.10", "1.1"], "float"),
        ("version", ["1.9", "2.5"], "float"),
        ("n", ["0", "0.5", "-0.25"], "float"),
    ],
)
def test_numbers_that_look_a_little_like_codes_are_numbers(name: str, column: list[str], kind: str) -> None:
    (found,) = values.guess([(name, Counter(column), len(column))])
    assert found.type == kind


def test_numbers_that_a_spreadsheet_shortened_are_told() -> None:
    (found,) = guess(["4.00638E+12", "4.00639E+12"])
    assert found.notes == ["`4.00638E+12` looks as if a spreadsheet had left out its last digits"]
    (found,) = guess(["4.0E+3", "4.5", "1.23456789012345E+12"])
    assert found.notes == []


@pytest.mark.parametrize("word", ["NO", "ON"])
def test_a_country_alone_is_no_truth_value(word: str) -> None:
    (found,) = guess([word, word])
    assert found.type == "string"
    (found,) = guess([word, "yes", "off"])
    assert found.type == "bool"


def test_directions_may_look_like_truth_values() -> None:
    (found,) = guess(["S", "N", "N"])
    assert (found.type, found.remarks[0].is_doubt) == ("string", True)
    assert "true_values: [s]" in found.remarks[0].text


@pytest.mark.parametrize(
    ("column", "name", "said"),
    [
        (["12.05.45", "24.12.88"], "d", "`24.12.88` is in 1988 and `12.05.45` in 2045"),
        (["12.05.45", "24.12.46"], "date_of_birth", "`12.05.45` is in 2045 and `24.12.46` in 2046"),
        (["23-04-12", "24-06-15", "25-08-17"], "d", "may be `format: '%d-%m-%y'` or `format: '%y-%m-%d'`"),
    ],
)
def test_years_of_two_digits_may_be_of_another_century(column: list[str], name: str, said: str) -> None:
    (found,) = values.guess([(name, Counter(column), len(column))])
    assert (found.type, found.remarks[0].is_doubt) == ("string", True)
    assert said in found.remarks[0].text


@pytest.mark.parametrize(
    ("column", "form"),
    [
        (["12.05.25", "24.12.26"], "%d.%m.%y"),
        (["31/01/25", "14/02/25", "03/03/26"], "%d/%m/%y"),
        (["01/31/25", "02/14/25", "03/03/26"], "%m/%d/%y"),
    ],
)
def test_years_of_two_digits_of_one_century_are_dates(column: list[str], form: str) -> None:
    (found,) = guess(column)
    assert (found.type, found.keys) == ("date", {"format": form})
    assert found.remarks[0].text.endswith("is in 2026")


def test_days_that_other_columns_decide_are_told() -> None:
    first, other, third = guess(["25/06/2026"], ["03/04/2026"], ["2026-05-01"])
    assert [remark.text for remark in other.remarks] == ["`03/04/2026` is read as other columns are written"]
    assert first.remarks == third.remarks == []


@pytest.mark.parametrize(
    "columns",
    [
        (["05.06.2026", "31.12.2025", "07/08/2026"],),
        (["12-Jan-2026", "13-Feb-2026", "07/08/2026"],),
        (["2026-05-13", "2026-05-14", "07/08/2026"],),
        (["07/08/2026", "08/08/2026"], ["31.12.2025", "30.12.2025"]),
        (["07/08/2026", "08/08/2026"], ["31/12/2025"], ["12/31/2025"]),
        (["07/08/2026", "08/08/2026"], ["31-12-2025"], ["12-31-2025"]),
    ],
)
def test_dates_of_other_programs_do_not_tell_the_order_of_days(columns: tuple[list[str], ...]) -> None:
    found = guess(*columns)[0]
    assert (found.type, [remark.is_doubt for remark in found.remarks]) == ("string", [True])


@pytest.mark.parametrize(
    ("columns", "form"),
    [
        ((["05/06/2026", "07/08/2026", "31/12/2025"],), "%d/%m/%Y"),
        ((["05/06/2026", "07/08/2026"], ["12-31-2025"]), "%m/%d/%Y"),
        ((["07/08/2026", "08/08/2026"], ["31/12/2025"], ["31.12.2025"]), "%d/%m/%Y"),
        ((["05.06.2026", "06.06.2026"], ["12/31/2025"]), "%d.%m.%Y"),
        ((["05.06.2026", "12/31/2025", "05.06.2025"],), ["%d.%m.%Y", "%m/%d/%Y"]),
        ((["05.06.2026", "12.31.2025"],), "%m.%d.%Y"),
    ],
)
def test_dates_of_the_same_program_tell_the_order_of_days(
    columns: tuple[list[str], ...], form: str | list[str]
) -> None:
    assert guess(*columns)[0].keys == {"format": form}


def test_days_as_digits_need_a_name_that_says_so() -> None:
    days = Counter(["20260131", "20260201"])
    assert [one.type for one in values.guess([("id", days, 2), ("order_date", days, 2)])] == ["int", "date"]


def test_what_cannot_be_told_stays_text_and_is_asked() -> None:
    (number,) = guess(["1,234", "5,678"])
    assert number.type == "string"
    assert [(one.is_doubt, one.text) for one in number.remarks] == [
        (
            True,
            "text: `1,234` may be `1.234` or `1234`, and nothing in the file tells: say `decimal_separator` or "
            "`thousands_separator`",
        )
    ]
    (day,) = guess(["03/04/2026", "05/06/2026"])
    assert (day.type, day.remarks[0].is_doubt) == ("string", True)
    (mixed,) = guess(["13/04/2026", "05/26/2026"])
    assert (mixed.type, mixed.remarks[0].text) == (
        "string", "text: days stand first in some dates, months in others",
    )  # fmt: skip


def test_other_columns_tell_how_a_column_is_written() -> None:
    first, second, third = guess(["1,5", "2,25"], ["1,234", "5,678"], ["1.234", "2.345"])
    assert first.keys == second.keys == {"decimal_separator": ","}
    assert third.keys == {"decimal_separator": ",", "thousands_separator": "."}
    day, other = guess(["25/06/2026"], ["03/04/2026"])
    assert day.keys == other.keys == {"format": "%d/%m/%Y"}


def test_groups_among_plain_numbers_are_read_as_other_columns_have_them() -> None:
    whole, _ = guess(["1.200", "2", "3", "4", "5", "6"], ["1.234,50", "12,00", "7,25", "7,25", "1,00", "1,00"])
    assert (whole.type, whole.keys) == ("int", {"decimal_separator": ",", "thousands_separator": "."})
    assert [remark.text for remark in whole.remarks] == ["`1.200` is read as other columns are written"]
    whole, _ = guess(["1,200", "2", "3", "4", "5", "6"], ["1,234.50", "12.00", "7.25", "7.25", "1.00", "1.00"])
    assert (whole.type, whole.keys) == ("int", {"thousands_separator": ","})
    (alone,) = guess(["1.200", "2", "3", "4", "5", "6"])
    assert (alone.type, alone.keys) == ("int", {})


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["12,5 %", "7 %"], '`12,5 %`: `.regex_replace("[^0-9,+-]", "").replace(",", ".").to_float()`'),
        (["€ 1.234,50"], '`€ 1.234,50`: `.regex_replace("[^0-9,+-]", "").replace(",", ".").to_float()`'),
        (["$1,234.50"], '`$1,234.50`: `.regex_replace("[^0-9.+-]", "").to_float()`'),
        (["12\u00a0%"], '`12<U+00A0>%`: `.regex_replace("[^0-9+-]", "").to_float()`'),
        (["$1,234"], " if it separates groups of digits"),
        (
            ["$12.00", "($5.25)"],
            '`.regex_replace("^(.*?)(?:[(](.*)[)].*|-[^0-9]*)$", "-\\\\1\\\\2")'
            '.regex_replace("[^0-9.+-]", "").to_float()`',
        ),
        (["\u22125", "7", "8"], '`\u22125` has another sign than `-`: `.replace("\u2212", "-").to_float()`'),
        (["1.234,50", "5,25-", "7,00-"], "text: negative numbers, like `5,25-`: `.regex_replace("),
        (["12.00", "(5.25)", "(7)"], "text: negative numbers, like `(5.25)`: `.regex_replace("),
    ],
)
def test_numbers_with_signs_are_told_with_what_reads_them(column: list[str], said: str) -> None:
    (found,) = guess(column)
    assert found.type == "string"
    assert said in found.remarks[0].text


def test_columns_whose_values_differ_are_keys() -> None:
    first, second, third = guess(["1", "2"], ["x", "x"], ["1.5", "2.5"])
    assert [one.is_unique for one in (first, second, third)] == [True, False, False]
