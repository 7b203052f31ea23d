"""Keys that stand in another place than they belong: the message says where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: s, {outside}config: {{ type: {format}, path: a.dat, {source}schema: {{ id: int }} }} }}
  - {{ type: output, name: o, input: s, config: {{ type: csv, path: o.csv{output} }} }}
"""


@pytest.mark.parametrize(
    ("format", "where", "key", "value"),
    [
        ("csv", "source", "compression", "gzip"),
        ("csv", "source", "encoding", "latin-1"),
        ("json", "source", "record_path", "a"),
        ("xml", "source", "record_path", "/a/b"),
        ("xml", "source", "compression", "zstd"),
        ("csv", "output", "compression", "gzip"),
        ("csv", "output", "delimiter", "';'"),
        ("xml", "outside", "compression", "gzip"),
    ],
)
def test_an_option_beside_its_options_is_told_where_it_belongs(
    format: str, where: str, key: str, value: str, tmp_path: Path
) -> None:
    shown = {"source": "", "output": "", "outside": "", "format": format}
    shown[where] = f", {key}: {value}" if where == "output" else f"{key}: {value}, "
    (problem,) = problems(tmp_path, PIPELINE.format(**shown))
    assert problem.code.id == "E005"
    assert problem.message.startswith(f"unknown key `{key}`")
    assert problem.help == f"`{key}` belongs under `options:`: write `options: {{ {key}: … }}`"


def test_an_option_of_another_format_is_just_unknown(tmp_path: Path) -> None:
    shown = {"source": "root_element: a, ", "output": "", "outside": "", "format": "csv"}
    (problem,) = problems(tmp_path, PIPELINE.format(**shown))
    assert str(problem.help).startswith("allowed here: ")
