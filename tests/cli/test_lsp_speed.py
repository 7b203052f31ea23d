"""The language server answers soon, also in a pipeline of a hundred nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_lsp import Editor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES = 100
#: The processor time that an answer may take; twice of what it takes.
_MOST_S = 0.2
_TIMES = 6


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    pytest.importorskip("pygls")
    found = Editor(tmp_path / "pipeline.yaml")
    yield found
    found.ask("shutdown")
    found._send(method="exit", params={})
    assert found.process.wait(timeout=60) == 0


def _pipeline() -> str:
    schema = "{id: int, n: int, price: float}"
    head = "pipeline: {name: p}\nnodes:\n"
    source = f"  - {{type: source, name: n0, config: {{type: csv, path: in.csv, schema: {schema}}}}}\n"
    nodes = "".join(
        f"  - type: transform\n    name: n{number}\n    input: n{number - 1}\n    config:\n      cxl: |\n"
        f"        emit c{number} = n * price + {number}\n        emit id = id\n"
        for number in range(1, NODES - 1)
    )
    return (
        f"{head}{source}{nodes}  - {{type: output, name: o, input: n{NODES - 2}, config: {{type: csv, path: o.csv}}}}\n"
    )


def _processor_s(editor: Editor) -> float:
    fields = Path(f"/proc/{editor.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _each_s(editor: Editor, work: Callable[[int], object]) -> float:
    """The processor time of one of several answers."""
    begin = _processor_s(editor)
    for number in range(_TIMES):
        work(number)
    return (_processor_s(editor) - begin) / _TIMES


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the processor time of processes is read in /proc")
def test_answers_come_soon_in_a_pipeline_of_a_hundred_nodes(editor: Editor) -> None:
    text = _pipeline()
    assert editor.write(text) == []
    changed = [text.replace("price + 50\n", f"price + {number}\n") for number in range(_TIMES)]
    assert _each_s(editor, lambda number: editor.write(changed[number])) < _MOST_S

    def completed(number: int) -> None:
        editor.write_without_looking(text.replace("emit c60 = n * price + 60\n", f"emit c60 = {number} * pr\n"))
        assert "price" in editor.proposed(f"emit c60 = {number} * pr")

    assert _each_s(editor, completed) < _MOST_S
    assert editor.write(text) == []
    assert _each_s(editor, lambda _: editor.ask("textDocument/hover", **editor.at("price + 50"))) < _MOST_S
    assert _each_s(editor, lambda _: editor.ask("textDocument/definition", **editor.at("input: n50", 8))) < _MOST_S
