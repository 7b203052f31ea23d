"""Counters behind time windows: what is late counts for nobody behind, wherever it is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      type: csv
      path: s.csv
      schema: {id: int, k: string, ts: date_time}
      watermark: {column: ts, delay: 0s}
  - type: aggregate
    name: windows
    input: s
    config:
      group_by: [k]
      time_window: {tumbling: {size: 1s}}
      cxl: emit c = count(*)
  - type: transform
    name: told
    input: windows
    config: {cxl: "emit dead = $pipeline.dlq_count\\nemit ok = $pipeline.ok_count\\nemit total = $pipeline.total_count"}
  - {type: output, name: o, input: told, config: {type: csv, path: out/o.csv, if_exists: overwrite}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


@pytest.mark.parametrize("split_bytes", [10**9, 200, 40])
@pytest.mark.parametrize("partition_bytes", [10**9, 30])
def test_late_records_do_not_change_counters_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: int, partition_bytes: int
) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split_bytes, partition_bytes)
    records = [f"{n},{'xyz'[n % 3]},2024-01-01T00:00:{n % 60:02}\n" for n in range(30)]
    records[7] = "seven,x,2024-01-01T00:00:07\n"
    # Behind a record of the same split, and of others.
    late = [f"{n},{'xyz'[n % 3]},2024-01-01T00:00:01\n" for n in (30, 31)]
    data = [*records[:6], late[0], *records[6:], late[1]]
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "s.csv": "id,k,ts\n" + "".join(data)})
    assert pipelines.run(tmp_path).result.exit_code == 2
    found = pipelines.outputs(tmp_path)
    assert found["dead.csv"].count(b"late_record") == 2
    assert {row.split(b",", 2)[2] for row in found["o.csv"].splitlines()} == {b"dead,ok,total", b"1,31,32"}
