"""How many partitions there are follows from sizes and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from spark_jobs.execute.run import partitions
from spark_jobs.execute.run.partitions import Sizes, Written
from spark_jobs.nodes.terms.needs import Rows

MIB = 1 << 20


def sizes(input_bytes: int, share: int) -> Sizes:
    plan: Any = Mock(memory_limit_bytes=4 * share, by_name={"s": Mock(inputs=())})
    plan.by_name["s"].name = "s"
    inputs: Any = Mock(bytes_of=lambda names: input_bytes)
    return Sizes(plan, inputs, share, {})


@pytest.mark.parametrize(
    ("input_bytes", "share", "partitions"),
    [
        (1, 128 * MIB, 1),
        (15 * MIB, 128 * MIB, 1),
        (16 * MIB, 128 * MIB, 2),
        (50 * MIB, 128 * MIB, 4),
        (500 * MIB, 128 * MIB, 7),
        (64 * MIB * 16, 128 * MIB, 16),
        (64 * MIB * 3000, 128 * MIB, 3000),
        (100 << 40, 128 * MIB, 8192),
        (100 << 40, 1024 * MIB, 65536),
        (100 << 40, 4 * MIB, 512),
    ],
)
def test_partitions_are_as_many_as_size_and_memory_ask_for(input_bytes: int, share: int, partitions: int) -> None:
    assert sizes(input_bytes, share).partitions("s") == partitions


@pytest.mark.parametrize(
    ("input_bytes", "written", "row_bytes", "pieces"),
    [
        (60 * MIB, None, 64, 1),
        (300 * MIB, None, 64, 5),
        (300 * MIB, Written(10 * MIB, 100_000), 64, 1),
        (300 * MIB, Written(10 * MIB, 1_000_000), 0, 1),
        (300 * MIB, Written(10 * MIB, 2_000_000), 64, 5),
        (300 * MIB, Written(70 * MIB, 100_000), 64, 5),
        (60 * MIB, Written(50 * MIB, 2_000_000), 64, 1),
    ],
)
def test_what_each_record_needs_beside_itself_counts(
    input_bytes: int, written: Written | None, row_bytes: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was to be written in one piece stays one."""
    rows = Rows("c", "p")
    monkeypatch.setattr(partitions.upstream, "inputs", lambda planned: [(Mock(node="s"), rows)])
    found = replace(sizes(input_bytes, 128 * MIB), written={} if written is None else {rows: written})
    found.plan.by_name["c"] = Mock()  # type: ignore[index]
    assert found.materialized_partitions(rows, row_bytes=row_bytes) == pieces
