"""`decimal` in schemas: a word for `float` that is told once, unless the workspace keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
    (tmp_path / "clinker.toml").write_text('[behavior]\ndecimal = "float"\n')
    assert problems(tmp_path, PIPELINE.replace("SCHEMA", schema)) == []


def test_a_column_that_is_called_decimal_is_no_decimal(tmp_path: Path) -> None:
    assert problems(tmp_path, PIPELINE.replace("SCHEMA", "[{name: decimal, type: float, description: decimal}]")) == []


def test_a_workspace_keeps_nothing_but_float(tmp_path: Path) -> None:
    (tmp_path / "clinker.toml").write_text('[behavior]\ndecimal = "exact"\n')
    assert "E340" in [one.code.id for one in problems(tmp_path, PIPELINE.replace("SCHEMA", "{a: float}"))]


@pytest.mark.parametrize("kind", ["'decimal(10,2)'", "'nullable(decimal)x'", "'varchar(20)'"])
def test_a_type_with_a_size_is_told_what_to_write(kind: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, PIPELINE.replace("SCHEMA", f"{{a: {kind}}}"))
    assert found.code.id == "E007"
    if "(" in kind and "nullable" not in kind:
        assert "write `float`" in found.message
