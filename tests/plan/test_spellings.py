"""What is wrong with keys that say how texts of a source are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{name: p}}
nodes:
  - type: source
    name: rows
    config: {{type: {type}, path: in.dat, options: {options}, schema: [{{name: a, type: {kind}, {keys}}}]}}
  - type: output
    name: o
    input: rows
    config: {{type: csv, path: out.csv}}
"""


@pytest.mark.parametrize(
    ("kind", "keys", "options", "said"),
    [
        (
            "string",
            "decimal_separator: ','",
            "{}",
            "it is for Int and Float and Decimal and Numeric, and this column is `String`",
        ),
        ("int", "true_values: [x]", "{}", "it is for Bool, and this column is `Int`"),
        ("float", "decimal_separator: ';'", "{}", "expected `.` or `,`, found ';'"),
        ("float", "thousands_separator: x", "{}", "expected `.`, `,`, `'`, `_` or a space, found 'x'"),
        ("float", "thousands_separator: '.'", "{}", "it must differ from the decimal separator"),
        ("bool", "true_values: x, false_values: [X]", "{}", "`x` is among `true_values` as well"),
        ("date", "format: ['%d.%m.%Y', '%Q']", "{}", "`format` of `a`"),
        ("int", "required: false", "{decimal_separator: x}", "`decimal_separator`: expected `.` or `,`, found 'x'"),
        ("int", "null_values: []", "{}", "null_values"),
    ],
)
def test_a_spelling_that_cannot_be_meant_is_refused(
    kind: str, keys: str, options: str, said: str, tmp_path: Path
) -> None:
    text = PIPELINE.format(type="csv", kind=kind, keys=keys, options=options)
    found = problems(tmp_path, text)
    assert [item.code.id for item in found] == ["E007"]
    assert said in found[0].message


def test_a_column_may_leave_out_what_its_file_separates_with(tmp_path: Path) -> None:
    options = "{decimal_separator: ',', thousands_separator: '.'}"
    text = PIPELINE.format(type="csv", kind="float", keys="thousands_separator: ''", options=options)
    assert problems(tmp_path, text) == []
