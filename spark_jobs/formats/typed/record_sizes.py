"""The approximate bytes of each record of some columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence


def of(columns: Sequence[pa.Array], count: int) -> np.ndarray:
    """The bytes of each record's values: the length of texts, and eight for others.

    Args:
        columns: the columns.
        count: how many records there are.
    """
    found = np.full(count, 8 * len(columns), dtype=np.int64)
    for column in columns:
        if pa.types.is_string(column.type):
            found += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        elif pa.types.is_list(column.type):
            found += 16 * pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        elif pa.types.is_struct(column.type):
            found += of(column.flatten(), count)
    return found
