"""A run's identity: ids that sort by time, and the moment it began."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
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


@dataclass
class Series:
    """Ascending UUIDv7s, made by several writers at once: all of an earlier series precede those of a later one.

    All have one moment. After it stand the series and a counter (RFC 9562, 6.2), then bits that tell this writer from
    others.

    Args:
        millis: the moment, since 1970.
        series: the part of the numbered entries that this writer makes, up to 255.
    """

    millis: int
    series: int
    _next: int = 0
    _own: int = field(default_factory=lambda: int.from_bytes(os.urandom(5), "big") >> 6)

    def take(self, count: int) -> pa.StringArray:
        """The next so many ids."""
        place = np.arange(self._next, self._next + count, dtype=np.uint64)
        self._next += count
        # After the timestamp, the 74 bits are: 8 for the series, 32 for the counter, 34 for the writer.
        high = np.uint64(self.millis << 16 | 0x7 << 12 | self.series << 4) | place >> np.uint64(28)
        low = (place & np.uint64((1 << 28) - 1)) << np.uint64(34) | np.uint64(0b10 << 62 | self._own)
        numbers = np.stack([high, low], axis=1).astype(">u8").view(np.uint8).reshape(count, 16)
        texts = np.full((count, 36), ord("-"), dtype=np.uint8)
        texts[:, _DIGIT_PLACES] = _HEX[numbers].reshape(count, 32)
        offsets = np.arange(0, 36 * count + 1, 36, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts))


@dataclass(frozen=True)
class Identity:
    """The names of a run; `started` is UTC, `called` is the id in its metrics."""

    execution_id: str
    batch_id: str
    started: datetime
    called: str

    @classmethod
    def new(cls, execution_id: str | None, batch_id: str | None) -> Identity:
        """An identity with the given ids, and new ids for the rest.

        Metrics call a run by its batch where no execution id was asked for.
        """
        own = execution_id or uuid7()
        return cls(own, batch_id or uuid7(), datetime.now(UTC), called=own if execution_id else batch_id or own)
