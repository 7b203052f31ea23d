"""Keys of values of any kind: equal values are one key, and no others."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.cxl import types, values
from spark_jobs.nodes import keys


def _key(value: Any) -> Any:
    return keys.equal_column(values.to_arrow([value], types.ANY), types.ANY)[0].as_py()


@pytest.mark.parametrize(
    ("left", "right", "is_one"),
    [
        (1, 1.0, True),
        (2**53, float(2**53), True),
        (2**53 + 1, float(2**53), False),
        (2**63 - 1, float(2**63), False),
        (2**53 + 1, Decimal("9007199254740993.0"), True),
        (float(2**53), Decimal("9007199254740993"), False),
        (0.1, Decimal("0.10"), True),
        (0.1, Decimal("0.10000000000000001"), False),
        (1e16, Decimal("9999999999999999.9999"), False),
        (Decimal(2**64), Decimal(f"{2**64}.00"), True),
        (Decimal(2**64), str(2**64), False),
        ([2**53 + 1], [float(2**53)], False),
        ({"k": 1}, {"k": Decimal("1.00")}, True),
    ],
    ids=repr,
)
def test_no_digits_are_lost_between_kinds_of_numbers(left: Any, right: Any, is_one: bool) -> None:
    assert (_key(left) == _key(right)) is is_one
