"""What a window function is at work: what it is given of each row, what it gives, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np

    from spark_jobs.nodes.windows.call import Call
    from spark_jobs.nodes.windows.strip import Strip


@dataclass(frozen=True)
class Given:
    """What a function is given of each row: values, and packed failures where computing them failed."""

    values: pa.Array
    failures: pa.Array | None = None

    @property
    def failing(self) -> np.ndarray | None:
        """The rows that failed."""
        return None if self.failures is None else self.failures.is_valid().to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Results:
    """What a function gives for each row: a value, or a packed failure."""

    values: pa.Array
    failures: pa.Array | None = None


class Function:
    """A call at work on the strips of a stream, one after the other."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def results(self, strip: Strip, given: Given) -> Results:
        """The results for a strip, of which the rest of a partition may follow."""
        raise NotImplementedError

    @property
    def gives_arrays(self) -> bool:
        """Whether each row gets an array of its frame."""
        return False

    def lengths(self, strip: Strip, given: Given | None) -> np.ndarray:
        """How many values the array of each row of a strip has at most; `given` is None where it is not known yet."""
        raise NotImplementedError

    def ended(self, strip: Strip, given: Given, rows: np.ndarray) -> Results:
        """The results for some rows alone: the last ones of partitions, from which these are seen as a whole."""
        result, wanted = self.results(strip, given), pa.array(rows)
        failures = None if result.failures is None else result.failures.take(wanted)
        return Results(result.values.take(wanted), failures)
