"""`decimal` in schemas: with digits the exact type, without them a word for `float` unless the workspace says more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl import types
from spark_jobs.nodes import model
from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: SCHEMA}}
  - {type: output, name: o, input: s, config: {type: csv, path: out.csv}}
"""


@pytest.mark.parametrize(
    "schema",
    [
        "{a: decimal, b: decimal}",
        "[{name: a, type: decimal}, {name: b, type: decimal}]",
        "[{name: a, type: {nullable: decimal}}, {name: b, type: nullable(decimal)}]",
    ],
)
def test_decimal_is_told_once(schema: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, PIPELINE.replace("SCHEMA", schema))
    assert found.code.id == "W008"
    assert "1 more places" in found.message
    assert "clinker.toml" in str(found.help)
    for meaning in ("float", "exact"):
        (tmp_path / "clinker.toml").write_text(f'[behavior]\ndecimal = "{meaning}"\n')
        assert problems(tmp_path, PIPELINE.replace("SCHEMA", schema)) == []


def test_a_column_that_is_called_decimal_is_no_decimal(tmp_path: Path) -> None:
    assert problems(tmp_path, PIPELINE.replace("SCHEMA", "[{name: decimal, type: float, description: decimal}]")) == []


def test_a_workspace_says_float_or_exact(tmp_path: Path) -> None:
    (tmp_path / "clinker.toml").write_text('[behavior]\ndecimal = "money"\n')
    assert "E340" in [one.code.id for one in problems(tmp_path, PIPELINE.replace("SCHEMA", "{a: float}"))]


@pytest.mark.parametrize(
    ("word", "precision", "scale", "nullable"),
    [
        ("decimal(10,2)", 10, 2, False),
        ("decimal( 38 , 38 )", 38, 38, False),
        ("decimal(5)", 5, 0, False),
        ("numeric(12,2)", 12, 2, False),
        ("nullable(decimal(10,2))", 10, 2, True),
    ],
)
def test_a_decimal_has_digits(word: str, precision: int, scale: int, nullable: bool) -> None:
    wanted = types.decimal_of(precision, scale)
    assert model.column_type(word) == (wanted.or_null() if nullable else wanted)


def test_the_word_alone_is_exact_where_the_workspace_says_so(tmp_path: Path) -> None:
    assert model.column_type("decimal") == types.FLOAT
    with model.exact_decimals(True):
        assert model.column_type("decimal") == types.DECIMAL
        assert model.column_type("nullable(decimal)") == types.DECIMAL.or_null()
    parquet = PIPELINE.replace("SCHEMA", "{a: decimal}").replace(
        "type: csv, path: out.csv", "type: parquet, path: out.parquet"
    )
    (tmp_path / "clinker.toml").write_text('[behavior]\ndecimal = "exact"\n')
    (found,) = problems(tmp_path, parquet)
    assert "each may have its own" in found.message


@pytest.mark.parametrize("kind", ["decimal(39,2)", "decimal(0,0)", "decimal(2,3)"])
def test_a_decimal_has_no_more_digits_than_there_are(kind: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, PIPELINE.replace("SCHEMA", f"{{a: '{kind}'}}"))
    assert (found.code.id, "1 to 38 digits" in found.message) == ("E007", True)


@pytest.mark.parametrize("kind", ["nullable(decimal)x", "varchar(20)", "float(10)"])
def test_a_type_with_a_size_is_told_what_to_write(kind: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, PIPELINE.replace("SCHEMA", f"{{a: '{kind}'}}"))
    assert found.code.id == "E007"
    if "nullable" not in kind:
        assert "write `decimal(12,2)`" in found.message


@pytest.mark.parametrize(("default", "found"), [("1", []), ("2.50", []), ("'x'", ["E015"]), ("123456789.5", ["E015"])])
def test_variables_may_be_decimals(default: str, found: list[str], tmp_path: Path) -> None:
    text = PIPELINE.replace("SCHEMA", "{a: int}")
    text = text.replace("{name: p}", f"{{name: p, vars: {{v: {{type: 'decimal(10,2)', default: {default}}}}}}}")
    assert [one.code.id for one in problems(tmp_path, text)] == found


@pytest.mark.parametrize(
    ("declared", "cxl", "help_text"),
    [
        ("float", "a", "`.to_float()`"),
        ("int", "a * 2", "`.to_int()`"),
        ("string", "a", "`.to_string()`"),
        ("float", "a.to_float()", None),
        ("int", "a.to_int()", None),
    ],
)
def test_a_decimal_is_converted_to_the_type_of_a_variable(
    declared: str, cxl: str, help_text: str | None, tmp_path: Path
) -> None:
    text = PIPELINE.replace("SCHEMA", "{a: 'decimal(10,2)'}")
    text = text.replace("{name: p}", f"{{name: p, vars: {{record: {{v: {{type: {declared}}}}}}}}}")
    text = text.replace("input: s", "input: w")
    text += f"  - {{type: state, name: w, input: s, config: {{scope: record, set: [{{var: v, cxl: {cxl}}}]}}}}\n"
    found = problems(tmp_path, text)
    if help_text is None:
        assert not found
    else:
        (problem,) = found
        assert (problem.code.id, "Decimal" in problem.message) == ("E200", True)
        assert help_text in (problem.help or "")
