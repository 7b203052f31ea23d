"""How many partitions there are follows from sizes and memory."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from spark_jobs.execute.run.partitions import Sizes

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
        (64 * MIB * 16, 128 * MIB, 16),
        (64 * MIB * 3000, 128 * MIB, 3000),
        (100 << 40, 128 * MIB, 8192),
        (100 << 40, 1024 * MIB, 65536),
        (100 << 40, 4 * MIB, 512),
    ],
)
def test_partitions_are_as_many_as_size_and_memory_ask_for(input_bytes: int, share: int, partitions: int) -> None:
    assert sizes(input_bytes, share).partitions("s") == partitions
