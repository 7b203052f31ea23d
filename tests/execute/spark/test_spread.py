"""Work that is spread over tasks: answers in the order of the items, errors that are told and others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.spark import spread
from tests.execute import without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shared(total: int, portion: int) -> tuple[int, float]:
    return portion, total / portion


def opened(path: str) -> int:
    with open(path, "rb") as file:
        return len(file.read())


@pytest.fixture
def none(monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session that nobody needs."""
    without_spark.install(monkeypatch)
    return object()  # type: ignore[return-value]


def test_answers_come_in_the_order_of_the_items(none: SparkSession) -> None:
    assert spread.parallel_map(none, partial(shared, 6), [3, 1, 2]) == [(3, 2.0), (1, 6.0), (2, 3.0)]


def test_no_items_need_no_tasks() -> None:
    assert spread.parallel_map(object(), opened, []) == []  # type: ignore[arg-type]


def test_what_is_told_is_raised_with_its_file_and_of_the_first_item(none: SparkSession) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        spread.parallel_map(none, opened, ["/nowhere/b", "/nowhere/a"], reraised=(OSError,))
    assert raised.value.filename == "/nowhere/b"


def test_what_is_not_told_is_left_to_the_task(none: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        spread.parallel_map(none, partial(shared, 6), [2, 0], reraised=(OSError,))
