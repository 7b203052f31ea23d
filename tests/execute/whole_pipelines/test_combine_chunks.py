"""Build sides that are larger than a task: their drivers meet them in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import partitions
from spark_jobs.nodes.combine import run as combining
from spark_jobs.tuning import Tuning
from tests.execute import combines, pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

IN_CHUNKS = {
    **{name: text for name, text in combines.SHAPES.items() if name != "three inputs"},
    "ranges alone": combines.combine(where="o.amount > p.f and o.key <= p.key"),
    "collected and tested": combines.COLLECT.replace("o.key == p.key", "o.amount > p.f and 100 / (p.f - 3) < 40"),
    "a test that fails": combines.combine(where="o.key == p.key and 100 / p.f > o.amount", miss="skip"),
    "a test that fails, first match": combines.combine(where="o.amount > p.f and 100 / (p.f - 3) < 40", match="first"),
    "a miss is an error": combines.combine(where="o.amount > p.f", match="first", miss="error"),
}


@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("shape", IN_CHUNKS)
def test_a_build_side_meets_its_drivers_in_chunks(
    shape: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs, dead letters and counters are those of a build side that is looked up at once."""
    without_spark.install(monkeypatch)
    combines.write(tmp_path, IN_CHUNKS[shape])
    whole = pipelines.run(tmp_path)
    wanted = pipelines.outputs(tmp_path)
    cut: list[int] = []

    def chunked(self: combining.Combine, qualifier: str, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        cut.append(table.num_rows)
        return ((start, table.slice(start, rows)) for start in range(0, table.num_rows, rows))

    monkeypatch.setattr(combining.Combine, "is_large", lambda *_: True)
    monkeypatch.setattr(combining.Combine, "cut", chunked)
    for partition_bytes in ("600", str(10**9)):
        monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, partition_bytes)
        found = pipelines.run(tmp_path, force=True, tuning=Tuning(pair_rows=7))
        assert found.result.error == whole.result.error
        if whole.result.error is None:
            now = pipelines.outputs(tmp_path)
            assert now["o.csv"] == wanted["o.csv"]
            assert combines.dead(now.get("dead.csv", b"")) == combines.dead(wanted.get("dead.csv", b""))
            assert {n: dict(node) for n, node in found.nodes.items()} == {
                n: dict(node) for n, node in whole.nodes.items()
            }
    assert max(cut) > rows


@pytest.mark.slow
@pytest.mark.parametrize("where", ["o.amount > p.f", "o.key == p.key"])
def test_a_build_side_may_be_larger_than_a_tasks_memory(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.combine(where=where, match="first"))
    wide = "\n".join(f"{i % 3},{i % 9},{'w' * 5000}{i}" for i in range(1000))
    (tmp_path / "parts.csv").write_text(f"key,f,w\n{wide}\n")
    assert pipelines.run(tmp_path).result.error is None
    wanted = pipelines.outputs(tmp_path)["o.csv"]
    small = pipelines.run(tmp_path, memory_limit_bytes=8 << 20, force=True)
    assert small.result.error is None
    assert pipelines.outputs(tmp_path)["o.csv"] == wanted


@pytest.mark.slow
def test_matches_of_one_record_that_do_not_fit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.combine(where="o.amount > p.f", match="all"))
    wide = "\n".join(f"{i % 3},{i % 9},{'w' * 5000}{i}" for i in range(1000))
    (tmp_path / "parts.csv").write_text(f"key,f,w\n{wide}\n")
    (tmp_path / "orders.csv").write_text("id,key,amount\n1,2,30\n2,2,40\n")
    failed = pipelines.run(tmp_path, memory_limit_bytes=8 << 20).result
    assert failed.exit_code == 1
    assert failed.error is not None
    assert failed.error.code == "E310"
    assert "combine 'c': a record of 'o' has matches of" in failed.error.message


def test_one_of_several_build_sides_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    combines.write(tmp_path, combines.THREE)
    monkeypatch.setattr(combining.Combine, "most_needed", 100)
    failed = pipelines.run(tmp_path).result
    assert failed.error is not None
    assert failed.error.code == "E310"
    assert "combine 'c': the build side 'p' needs" in failed.error.message
