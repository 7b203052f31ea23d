"""Arrays of matches that hold only what is read of them: results are those of whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import partitions
from spark_jobs.tuning import Tuning
from tests.execute import combines, pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

COMBINE = """
      - type: combine
        name: c
        input: {o: orders, p: parts}
        config: {where: "WHERE", match: collect, propagate_ck: driver}
"""
TRANSFORM = """
      - type: transform
        name: t
        input: c
        config:
          cxl: |
            CXL
"""
#: Whoever writes the arrays down reads all of them.
WHOLE = "      - {type: output, name: whole, input: c, config: {name: whole, type: json, path: out/whole.json}}\n"
PROGRAMS = [
    "emit n = p.length()",
    "emit n = p.map(it => it.f).to_string()",
    "emit n = p.filter(it => it.f > 3).length()",
    "emit n = p.find(it => it.f > 3).w",
    "emit n = p[1].w ?? 'none'",
    "emit n = p.map(it => 10 / it.f).length()",
    "let q = p.filter(it => it.f > 3)\nemit n = q[0].w\nemit m = q.is_empty()\nemit p = p.length()",
    "emit each part in p {\n  emit n = part.w\n  emit f = part.f\n  emit p = 1\n}",
    "emit n = 1",
]
WHERE = ["o.key == p.key", "o.key == p.key and p.f > 3", "o.amount > p.f and o.key <= p.key"]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("cxl", PROGRAMS)
def test_results_are_those_of_whole_arrays(
    cxl: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    lines = cxl.replace("'", '"').replace("\n", "\n            ")
    body = COMBINE.replace("WHERE", where) + TRANSFORM.replace("CXL", lines)
    found = []
    for number, size, more in ((0, 10**9, WHOLE), (1, 10**9, ""), (2, 600, "")):
        folder = tmp_path / str(number)
        folder.mkdir()
        combines.write(folder, body, last="t")
        pipeline = folder / "pipeline.yaml"
        exclude = "path: out/o.csv, include_unmapped: false"
        pipeline.write_text(pipeline.read_text().replace("path: out/o.csv", exclude) + more.removeprefix("    "))
        monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, str(size))
        outcome = pipelines.run(folder, tuning=Tuning(pair_rows=50))
        assert outcome.result.error is None
        written = pipelines.outputs(folder)
        found.append((written["o.csv"], combines.dead(written.get("dead.csv", b""))))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0].splitlines()) > 50
