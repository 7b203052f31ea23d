"""A run's identity: ids that sort by time, and the moment it began."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID


def uuid7() -> str:
    """A UUIDv7 (RFC 9562): milliseconds since 1970, then random bits."""
    millis = time.time_ns() // 1_000_000
    bits = millis << 80 | 0x7 << 76 | int.from_bytes(os.urandom(2), "big") >> 4 << 64
    bits |= 0b10 << 62 | int.from_bytes(os.urandom(8), "big") >> 2
    return str(UUID(int=bits))


@dataclass(frozen=True)
class Identity:
    """What names a run; `started` is UTC."""

    execution_id: str
    batch_id: str
    started: datetime

    @classmethod
    def new(cls, execution_id: str | None, batch_id: str | None) -> Identity:
        """An identity with what was asked for and new ids for the rest."""
        return cls(execution_id or uuid7(), batch_id or uuid7(), datetime.now(UTC))
