"""A format schema may say the encoding of files; the options of the node have the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - {{ type: source, name: rows, config: {{ path: in.txt, {source} }} }}
  - {{ type: output, name: o, input: rows, config: {{ path: out/o.txt, {output} }} }}
"""
LAYOUT = "encoding: latin-1\nfields: [{name: v, start: 0, width: 2}]\n"
READ = "type: fixed_width, format_schema: layout.yaml"
WRITE = "type: fixed_width, schema: layout.yaml"


@pytest.mark.parametrize(
    ("source", "output", "read", "written"),
    [
        (READ, "type: csv", b"\xe9 \n", "v\né\n".encode()),
        (READ + ", options: {encoding: utf-8}", "type: csv", "é\n".encode(), "v\né\n".encode()),
        (READ, WRITE, b"\xe9 \n", b"\xe9 \n"),
        (READ, WRITE + ", options: {encoding: utf-8}", b"\xe9 \n", "é\n".encode()),
        ("type: csv, format_schema: layout.yaml", "type: csv, schema: layout.yaml", b"v\n\xe9\n", b"v\n\xe9\n"),
        ("type: json, format_schema: layout.yaml", "type: xml", b'{"v":"\xe9"}\n', None),
    ],
)
def test_the_encoding_of_a_format_schema(
    source: str, output: str, read: bytes, written: bytes | None, here: Path
) -> None:
    text = PIPELINE.format(source=source, output=output)
    pipelines.write(here, {"pipeline.yaml": text, "layout.yaml": LAYOUT, "in.txt": read})
    outcome = pipelines.run(here)
    assert outcome.result.error is None
    expected = "<Root><Record><v>é</v></Record></Root>".encode() if written is None else written
    assert pipelines.outputs(here) == {"o.txt": expected}
