"""Values of partitions, beside those that the library of the tables makes."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import transforms as library
from pyiceberg import types as iceberg
from pyiceberg.transforms import parse_transform

from spark_jobs.formats.tables import transforms
from spark_jobs.formats.tables.partitions import Partition, Transform, parsed

MOMENTS = [0, -1, 1, 86_400_000_000, -86_400_000_001, 1_767_323_045_678_901, -62_135_596_800_000_000, None]
TEXTS = ["", "a", "ab", "abc", "abcd", "abcde", "é", "日本語", "😀😁", "x" * 100, None, "a\0b", "iceberg"]
NUMBERS = [0, 1, -1, 34, 2**31 - 1, -(2**31), None]
DAYS = [0, -1, 1, 17486, -719162, 2932896, None]
DECIMALS = [None, *map(Decimal, ("0.00", "14.20", "-14.20", "0.01", "-0.01", "1.27", "1.28", "-1.28", "-1.29"))]
CASES: list[tuple[pa.DataType, iceberg.PrimitiveType, list[Any]]] = [
    (pa.int64(), iceberg.LongType(), [*NUMBERS, 2**63 - 1, 1 - 2**63 + 100]),
    (pa.int32(), iceberg.IntegerType(), [*NUMBERS[:-2], 100 - 2**31, None]),
    (pa.string(), iceberg.StringType(), TEXTS),
    (pa.decimal128(9, 2), iceberg.DecimalType(9, 2), DECIMALS),
    (
        pa.decimal128(38, 2),
        iceberg.DecimalType(38, 2),
        [*DECIMALS, Decimal("9" * 30 + ".99"), Decimal("-" + "9" * 30 + ".10")],
    ),
    (pa.date32(), iceberg.DateType(), DAYS),
    (pa.timestamp("us"), iceberg.TimestampType(), MOMENTS),
    (pa.timestamp("us", "UTC"), iceberg.TimestamptzType(), MOMENTS),
]


def found(partition: Partition, kind: pa.DataType, values: list[Any]) -> list[Any]:
    made = transforms.values(partition, pa.table({"c": pa.array(values, kind)}))
    return [
        (each - datetime.date(1970, 1, 1)).days if isinstance(each, datetime.date) else each
        for each in made.to_pylist()
    ]


@pytest.mark.parametrize(
    ("kind", "theirs", "values"), CASES, ids=lambda case: str(case) if not isinstance(case, list) else ""
)
@pytest.mark.parametrize(
    "text",
    ["bucket[16]", "bucket[1000003]", "truncate[1]", "truncate[3]", "truncate[50]", "year", "month", "day", "hour"],
)
def test_values_are_those_of_the_library(
    text: str, kind: pa.DataType, theirs: iceberg.PrimitiveType, values: list[Any]
) -> None:
    transform = parse_transform(text)
    word, _, argument = text.rstrip("]").partition("[")
    ours = Partition("c", Transform(word), int(argument or 0))
    if not transform.can_transform(theirs):
        assert transforms.problem(ours.transform, kind) is not None
        return
    assert transforms.problem(ours.transform, kind) is None
    expected = transform.transform(theirs)
    assert found(ours, kind, values) == [None if each is None else expected(each) for each in values]


def test_hashes_are_those_of_the_specification() -> None:
    """The values that the specification gives for hashes, as buckets of the largest number."""
    most = (1 << 31) - 1
    for kind, value, expected in (
        (pa.int32(), 34, 2017239379),
        (pa.int64(), 34, 2017239379),
        (pa.decimal128(9, 2), Decimal("14.20"), -500754589),
        (pa.date32(), datetime.date(2017, 11, 16), -653330422),
        (pa.timestamp("us"), datetime.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        (pa.string(), "iceberg", 1210000089),
    ):
        made = transforms.values(Partition("c", Transform.BUCKET, most), pa.table({"c": pa.array([value], kind)}))
        assert made.to_pylist() == [(expected & most) % most]


def test_the_lowest_numbers_are_cut_to_what_has_a_digit_more() -> None:
    lowest, cut = Decimal("-9999999.99"), Decimal("-10000000.00")
    assert found(Partition("c", Transform.TRUNCATE, 50), pa.decimal128(9, 2), [lowest, None]) == [cut, None]
    expected = parse_transform("truncate[50]").transform(iceberg.DecimalType(9, 2))
    assert expected(lowest) == cut
    assert found(Partition("c", Transform.TRUNCATE, 1 << 32), pa.int32(), [-1, 1]) == [-(1 << 32), 0]


def test_many_texts_of_many_lengths_are_hashed_in_their_places() -> None:
    values = ["é" * (at % 40) + "x" * (at % 7) for at in range(5000)]
    expected = library.BucketTransform(97).transform(iceberg.StringType())
    rows = pa.table({"c": pa.chunked_array([values[:7], values[7:]])}).slice(3)
    assert transforms.values(Partition("c", Transform.BUCKET, 97), rows).to_pylist() == [*map(expected, values[3:])]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("day", "day"),
        ("day(at)", "day(at)"),
        ("bucket(16,id)", "bucket(16, id)"),
        ("truncate( 4 , id )", "truncate(4, id)"),
        ("year(x)", "year(x)"),
    ],
)
def test_partitions_are_read_from_texts(text: str, shown: str) -> None:
    """A column may be called like a function of another one."""
    assert str(parsed(text, ["day", "at", "id", "year(x)"])) == shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("week(at)", "'week(at)' has no function of partitions: there are year, month, day, hour, bucket, truncate"),
        ("bucket(id)", "'bucket(id)' is no partition: write it as `bucket(16, id)`"),
        ("bucket(0, id)", "'bucket(0, id)' is no partition"),
        ("truncate(2147483648, id)", "2147483648 is too large, and 2147483647 is the most"),
        ("day(3, at)", "'day(3, at)' is no partition: write it as `day(at)`"),
        ("day(nope)", "there is no column 'nope' to partition by"),
        ("nope", "there is no column 'nope' to partition by"),
        ("void(at)", "'void(at)' has no function of partitions"),
    ],
)
def test_what_is_no_partition_is_said(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        parsed(text, ["at", "id"])
    assert problem in str(raised.value)
