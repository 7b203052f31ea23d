"""Failures in frames: a record fails when a row of its frame does that the function has to look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from spark_jobs.nodes.windows.kernels.function import Given
    from spark_jobs.nodes.windows.strip import Strip


class Running:
    """The first failure of each row's frame."""

    def __init__(self) -> None:
        #: That of the partition that goes on.
        self._carried: str | None = None

    def of(self, strip: Strip, given: Given) -> pa.Array | None:
        """Packed failures for each row; None where there is none."""
        failing = given.failing
        if failing is None or not failing[: strip.count].any():
            if self._carried is None or not strip.head:
                self._carried = None
                return None
            failing = np.zeros(strip.count, dtype=bool)
        first = strip.first_of(failing[: strip.count])
        texts = [None, *(given.failures.to_pylist() if given.failures is not None else ())]
        chosen = first + 1
        if self._carried is not None and strip.head:
            texts.append(self._carried)
            chosen[: strip.head] = len(texts) - 1
        found = pa.array(texts, pa.string()).take(pa.array(chosen))
        self._carried = found[-1].as_py() if strip.count else self._carried
        return found if found.null_count < len(found) else None


def both(first: pa.Array | None, second: pa.Array | None) -> pa.Array | None:
    """Failures of two kinds; the first counts where a row has both."""
    if first is None or second is None:
        return second if first is None else first
    import pyarrow.compute as pc

    return pc.coalesce(first, second)
