"""A run's identity: ids that sort by time, and the moment it began."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pyarrow as pa

#: The two digits of each byte, and where the 32 digits stand in the text.
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint8).reshape(256, 2)
_DIGIT_PLACES = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): milliseconds since 1970, then random bits."""
    millis = time.time_ns() // 1_000_000
    bits = millis << 80 | 0x7 << 76 | int.from_bytes(os.urandom(2), "big") >> 4 << 64
    bits |= 0b10 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return str(UUID(int=bits))


def uuid7s(count: int) -> pa.StringArray:
    """Many of them, made at once."""
    numbers = np.frombuffer(os.urandom(16 * count), dtype=np.uint8).reshape(count, 16).copy()
    numbers[:, :6] = np.frombuffer((time.time_ns() // 1_000_000).to_bytes(6, "big"), dtype=np.uint8)
    numbers[:, 6] = numbers[:, 6] & 0x0F | 0x70
    numbers[:, 8] = numbers[:, 8] & 0x3F | 0x80
    texts = np.full((count, 36), ord("-"), dtype=np.uint8)
    texts[:, _DIGIT_PLACES] = _HEX[numbers].reshape(count, 32)
    offsets = np.arange(0, 36 * count + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


@dataclass(frozen=True)
class Identity:
    """What names a run; `started` is UTC, `called` the id that its metrics have."""

    execution_id: str
    batch_id: str
    started: datetime
    called: str

    @classmethod
    def new(cls, execution_id: str | None, batch_id: str | None) -> Identity:
        """An identity with what was asked for and new ids for the rest.

        Metrics call a run by its batch where no execution id was asked for (book: "UUID v7 or custom --batch-id").
        """
        own = execution_id or uuid7()
        return cls(own, batch_id or uuid7(), datetime.now(UTC), called=own if execution_id else batch_id or own)
