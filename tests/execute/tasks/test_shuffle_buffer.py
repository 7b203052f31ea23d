"""Payloads on their way: of a size that Spark moves well, in their order, and on disk when they are many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.execute.tasks import block_codec, shuffle_buffer, shuffle_records, spill
from spark_jobs.nodes import memory
from spark_jobs.nodes.terms import shape
from spark_jobs.plan.physical import fragments

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class _Step:
    name: str


def _outbox(folder: Path, share: int) -> tuple[shuffle_buffer.ShuffleBuffer, spill.TaskSpill]:
    op = fragments.PhysicalOperator("g#final", _Step("g"), shape.Role.FINAL, 0, silent=False)  # type: ignore[arg-type]
    exchange = fragments.Exchange(0, shape.ExchangeKind.HASH, 1, 4, "g#final")
    space = spill.TaskSpill(spill.Settings(str(folder)))
    return shuffle_buffer.ShuffleBuffer(
        fragments.Job(0, (), {op.id: op}, (exchange,)), 0, memory.MemoryPool(share), lambda: space
    ), space


def _sent(op: shuffle_buffer.ShuffleBuffer) -> list[dict[str, Any]]:
    batches = list(op.batches())
    assert all(batch.num_rows <= shuffle_records.BATCH for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_wide_rows_make_small_payloads(tmp_path: Path) -> None:
    op, space = _outbox(tmp_path, 1 << 30)
    table = pa.table({"text": [f"{i:04}" * 2000 for i in range(3_000)]})
    op.send(0, 3, 7, table)
    rows = _sent(op)
    most = memory.step_bytes(1 << 30)
    assert len(rows) > table.nbytes // most > 1
    parts = [block_codec.decode(row["payload"]) for row in sorted(rows, key=lambda row: row["ordinal"])]
    assert max(part.nbytes for part in parts) <= most
    assert pa.concat_tables(parts) == table
    assert space.spilled == {}


def test_what_is_sent_with_one_ordinal_keeps_its_order_on_disk_too(tmp_path: Path) -> None:
    op, space = _outbox(tmp_path, 12_000)
    for i in range(50):
        op.send(0, i % 4, 2, pa.table({"i": [i]}))
    op.send(0, 0, 1, pa.table({"i": [-1]}))
    rows = sorted(_sent(op), key=lambda row: row["ordinal"])
    assert [block_codec.decode(row["payload"])["i"][0].as_py() for row in rows] == [-1, *range(50)]
    assert space.spilled["g"] > 3000
    assert list(tmp_path.iterdir()) == []
    space.close()
