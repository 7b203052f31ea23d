"""Records with very many elements become as many records, a few megabytes at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats.json.parser import JsonParser
from spark_jobs.nodes.transform.run import Transform
from spark_jobs.tuning import DEFAULT
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.nodes.records import batches

COUNT, WIDE = 60_000, 20_000
LIMIT = 64 << 20

JSON = json.dumps({"k": "x" * WIDE, "a": [1] * COUNT}) + "\n"
XML = f"<r><o><k>{'x' * WIDE}</k>{'<a>1</a>' * COUNT}</o></r>"
EACH = json.dumps({"k": "x" * WIDE, "a": [1] * 9_999}) + "\n"
READ = {
    "json": ("in.json", JSON, "type: json, schema: {k: string, a: int}, array_paths: [{path: a, mode: explode}]"),
    "xml": (
        "in.xml",
        XML,
        "type: xml, options: {record_path: r/o}, schema: {k: string, a: int}, array_paths: [{path: a, mode: explode}]",
    ),
    "each": ("in.json", EACH, "type: json, schema: {k: string, a: array}"),
    "array": ("in.json", f"[{JSON}]", "type: json, schema: {k: string}, array_paths: [{path: a, mode: explode}]"),
}


@pytest.mark.parametrize("kind", READ)
def test_what_stands_beside_many_elements_is_there_a_few_megabytes_at_a_time(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once they would be more than a gigabyte."""
    without_spark.install(monkeypatch)
    name, data, said = READ[kind]
    program = {"each": "emit each x in a { emit v = x }", "array": "emit v = 1"}.get(kind, "emit v = a")
    pipeline = f"""
        pipeline: {{ name: p }}
        nodes:
          - {{ type: source, name: s, config: {{ path: {name}, {said} }} }}
          - type: transform
            name: each
            input: s
            config:
              cxl: |
                {program}
          - type: transform
            name: short
            input: each
            config:
              cxl: |
                emit k = k.substring(0, 1)
          - {{ type: output, name: o, input: short, config: {{ type: csv, path: out/o.csv, exclude: [a] }} }}
    """
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, name: data})
    seen: list[tuple[int, int]] = []
    process = Transform.process

    def noting(self: Transform, batch: batches.Batch, port: int) -> None:
        if self.step.name == "short":
            seen.append((batch.count, batch.data.nbytes))
        process(self, batch, port)

    monkeypatch.setattr(Transform, "process", noting)
    outcome = pipelines.run(tmp_path, threads=1, memory_limit_bytes=LIMIT)
    assert outcome.result.exit_code == 0
    count = 9_999 if kind == "each" else COUNT
    assert sum(each for each, _ in seen) == count
    assert max(size for _, size in seen) < LIMIT
    lines = pipelines.outputs(tmp_path)["o.csv"].decode().splitlines()
    assert len(lines) == count + 1
    assert lines[0].split(",")[0] == "k"
    assert set(lines[1:]) == {"x,1"}


def test_elements_without_end_are_read_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    made = JsonParser.__init__

    def with_short_portions(self: JsonParser, *arguments: Any, **others: Any) -> None:
        others["tuning"] = replace(DEFAULT, json_portion_bytes=1 << 16)
        made(self, *arguments[:7], **others)

    monkeypatch.setattr(JsonParser, "__init__", with_short_portions)
    count = 200_000
    data = json.dumps({"a": [1] * count}) + "\n"
    pipeline = """
        pipeline: { name: p }
        nodes:
          - { type: source, name: s,
              config: { path: in.json, type: json, schema: {a: any}, array_paths: [{path: a, mode: explode}] } }
          - { type: transform, name: short, input: s, config: { cxl: "filter a.to_int() == 2" } }
          - { type: output, name: o, input: short, config: { type: csv, path: out/o.csv } }
    """
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.json": data})
    seen: list[int] = []
    process = Transform.process

    def noting(self: Transform, batch: batches.Batch, port: int) -> None:
        seen.append(batch.count)
        process(self, batch, port)

    monkeypatch.setattr(Transform, "process", noting)
    assert pipelines.run(tmp_path, threads=1, memory_limit_bytes=LIMIT).result.exit_code == 0
    assert sum(seen) == count
    assert max(seen) <= 16_384
