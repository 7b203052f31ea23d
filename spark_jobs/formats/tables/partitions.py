"""Partition fields of tables: values of columns, or transforms of them. No Arrow here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CALL = re.compile(r"(?P<function>[a-z]+)\(\s*(?:(?P<argument>\d+)\s*,\s*)?(?P<column>.+?)\s*\)")


#: The largest number of buckets, and the largest width.
_MOST = (1 << 31) - 1


class Transform(StrEnum):
    """The function that derives a partition value from a column value; the names are Iceberg's."""

    IDENTITY = "identity"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    BUCKET = "bucket"
    TRUNCATE = "truncate"
    #: Nothing: a partition that the table had once.
    VOID = "void"

    @property
    def has_argument(self) -> bool:
        """Whether it needs an argument: the number of buckets, or a width."""
        return self in (Transform.BUCKET, Transform.TRUNCATE)


#: The transforms that users may write, by their names.
_FUNCTIONS = {each.value: each for each in Transform if each not in (Transform.IDENTITY, Transform.VOID)}


@dataclass(frozen=True)
class Partition:
    """One of the values by which a table is divided.

    Args:
        column: the column that it is made of; empty where there is none any more.
        transform: how.
        argument: the number of buckets, or the width.
    """

    column: str
    transform: Transform = Transform.IDENTITY
    argument: int = 0

    @property
    def name(self) -> str:
        """The name of the partition field, such as `at_day` or `id_bucket_16`."""
        if self.transform is Transform.IDENTITY:
            return self.column
        kind = "trunc" if self.transform is Transform.TRUNCATE else str(self.transform)
        return f"{self.column}_{kind}" + (f"_{self.argument}" if self.transform.has_argument else "")

    def __str__(self) -> str:
        """It as pipelines have it, such as `day`, `day(at)` or `bucket(16, id)`."""
        if self.transform is Transform.IDENTITY:
            return self.column
        return f"{self.transform}({f'{self.argument}, ' if self.transform.has_argument else ''}{self.column})"


def identities(columns: Iterable[str]) -> tuple[Partition, ...]:
    """Partitions by the values of columns."""
    return tuple(Partition(column) for column in columns)


def parsed(text: str, columns: Sequence[str]) -> Partition:
    """A partition as pipelines have it.

    Args:
        text: a column, or a function of one, such as `day(at)` or `bucket(16, id)`.
        columns: the columns that there are.

    Raises:
        ValueError: it is neither; the text says why.
    """
    matched = None if text in columns else _CALL.fullmatch(text)
    found = Partition(text)
    if matched is not None:
        function = _FUNCTIONS.get(matched["function"])
        if function is None:
            raise ValueError(f"'{text}' has no function of partitions: there are {', '.join(_FUNCTIONS)}")
        if function.has_argument != (matched["argument"] is not None) or matched["argument"] == "0":
            example = f"{function}(16, {matched['column']})" if function.has_argument else f"{function}(at)"
            raise ValueError(f"'{text}' is no partition: write it as `{example}`")
        found = Partition(matched["column"], function, int(matched["argument"] or 0))
        if found.argument > _MOST:
            raise ValueError(f"'{text}' is no partition: {found.argument} is too large, and {_MOST} is the most")
    if found.column not in columns:
        raise ValueError(f"there is no column '{found.column}' to partition by")
    return found
