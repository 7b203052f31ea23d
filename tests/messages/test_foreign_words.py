"""Words of SQL, Python and spreadsheets in programs: one error each, and what CXL writes instead; whole texts."""

from __future__ import annotations

import pytest

from spark_jobs.cli.cxl import command

#: A program, the error, and its help.
_CASES = [
    ("emit a = ROUND(price, 2)", "resolve", "unknown function 'ROUND'", "`round` is a method: write `price.round(…)`"),
    ("emit a = UPPER(name)", "resolve", "unknown function 'UPPER'", "`upper` is a method: write `name.upper()`"),
    ("emit a = COALESCE(name, 'x')", "resolve", "unknown function 'COALESCE'", "write `name ?? default`"),
    ("emit a = NVL(name, 'x')", "resolve", "unknown function 'NVL'", "write `name ?? default`"),
    ("emit a = nullif(name, 'x')", "resolve", "unknown function 'nullif'", "write `name.null_if(other)`"),
    ("emit a = greatest(price, qty)", "resolve", "unknown function 'greatest'", "write `price.max(other)`"),
    ("emit a = least(price, qty)", "resolve", "unknown function 'least'", "write `price.min(other)`"),
    ("emit a = INITCAP(name)", "resolve", "unknown function 'INITCAP'", "write `name.title_case()`"),
    (
        "emit a = regexp_replace(name, 'a', 'b')",
        "resolve",
        "unknown function 'regexp_replace'",
        "write `name.regex_replace(pattern, replacement)`",
    ),
    ("emit a = today()", "resolve", "unknown function 'today'", "write `now.to_date()`"),
    ("emit a = current_date", "resolve", "unknown field 'current_date'", "write `now.to_date()`"),
    ("emit a = row_number()", "resolve", "unknown function 'row_number'", "write `$window.row_number()`"),
    (
        "emit a = uuid()",
        "resolve",
        "unknown function 'uuid'",
        "a run that is repeated has to give the same records: make a key of columns, `value.sha256()`",
    ),
    ("emit a = cast(price as int)", "parse", "a value is converted by a method", "write `price.to_int()`"),
    ("emit a = CAST(price + 1 AS VARCHAR(10))", "parse", "a value is converted by a method",
     "write `(price + 1).to_string()`"),
    ("emit a = price::int", "resolve", "unresolved identifier 'price'",
     "write `price.to_int()`; `::` reads a member of a module"),
    ("emit a = 'x' if qty > 1 else name", "parse", "the condition of a choice stands first",
     "write `if qty > 1 then 'x' else name`"),
    ("emit a = if(qty > 1, 'a', 'b')", "parse", "`if` is no function", "write `if qty > 1 then 'a' else 'b'`"),
    (
        "emit a = case when qty > 1 then 'a' else 'b' end",
        "parse",
        "`case` is a word of SQL",
        "a choice is written `if … then … else …` or `match { condition => value, _ => default }`",
    ),
    ("filter name like 'A%'", "parse", "`like` is a word of SQL", 'write `name.starts_with("A")`'),
    ("filter name not like '%A%'", "parse", "`like` is a word of SQL", 'write `not name.contains("A")`'),
    (
        "filter name like 'A_b%'",
        "parse",
        "`like` is a word of SQL",
        'write `name.matches("…")` with a regular expression: `.*` for `%`, `.` for `_`',
    ),
    ("filter qty between 1 and 3", "parse", "`between` is a word of SQL", "write `qty >= 1 and qty <= 3`"),
    ("filter name is null", "parse", "`is` is no operator", "write `name.is_null()`"),
    ("filter name is not null", "parse", "`is` is no operator", "write `not name.is_null()`"),
    (
        "filter name in ('a', 'b', 'c')",
        "parse",
        "`in` is no operator",
        "compare with each value: `name == 'a' or name == 'b'`, or use `match`",
    ),
    (
        "filter name not in ('a', 'b')",
        "parse",
        "`in` is no operator",
        "compare with each value: `name != 'a' and name != 'b'`, or use `match`",
    ),
    ("emit a = extract(year from day)", "parse", "a part of a date is read by a method", "write `day.year()`"),
    (
        "-- the name",
        "parse",
        "`--` begins no comment",
        "a comment starts with `#` and goes to the end of its line",
    ),
    (
        "emit a = name // the name",
        "parse",
        "`//` begins no comment",
        "a comment starts with `#` and goes to the end of its line",
    ),
    (
        "/* the name */",
        "parse",
        "`/*` begins no comment",
        "a comment starts with `#` and goes to the end of its line",
    ),
    ("where qty > 1", "parse", "`where` is a word of SQL",
     "write `filter condition`: records that do not meet it are left out"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "stage", "message", "hint"), _CASES, ids=lambda case: case)
def test_a_word_of_another_language_is_one_error(
    program: str, stage: str, message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record = '{"name": "Ada", "price": 2.5, "qty": 3, "day": "2026-01-02"}'
    assert command.main(["eval", "--record", record, "-e", program]) == 1
    assert capsys.readouterr().err == f"error[{stage}]: {message} (at <inline>:1)\n  help: {hint}\n"


def test_each_line_is_told_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    program = "emit a = name is null\nemit b = qty between 1 and 3 # is null\nemit c = 'x is null'"
    assert command.main(["eval", "--record", '{"name": "Ada", "qty": 3}', "-e", program]) == 1
    assert capsys.readouterr().err == (
        "error[parse]: `is` is no operator (at <inline>:1)\n  help: write `name.is_null()`\n"
        "error[parse]: `between` is a word of SQL (at <inline>:2)\n  help: write `qty >= 1 and qty <= 3`\n"
    )


def test_a_long_line_costs_no_time(capsys: pytest.CaptureFixture[str]) -> None:
    program = "emit a = " + "name is " * 40_000
    assert command.main(["eval", "--record", '{"name": "Ada"}', "-e", program]) == 1
    assert "error[parse]" in capsys.readouterr().err
