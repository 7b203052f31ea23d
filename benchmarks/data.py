"""The orders and customers that the benchmarks read: the same bytes for the same size on every machine, made once.

Values are arithmetic on the row number (no random generator whose stream could change), and whole columns of text are
joined by Arrow, so that 20 million rows take seconds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

CUSTOMERS = 200_000
REGIONS = ("north", "east", "south", "west")
STATUSES = ("new", "paid", "shipped", "cancelled")
SEGMENTS = ("private", "business", "public")
ORDER_COLUMNS = ("id", "customer", "region", "status", "amount", "quantity", "day", "note")
EVENT_COLUMNS = ("id", "user", "at", "amount")
INTERVALS = 100_000
INTERVAL_COLUMNS = ("low", "high", "label")
CUSTOMER_COLUMNS = ("customer", "name", "segment", "discount")
#: One amount in this many is no number in the orders of a workload.
BAD_EVERY = {"route_dlq": 1000, "dead_letters": 2, "correlated": 1000, "correlated_all_dirty": 20}
#: Part of the file names: to be raised when the bytes change, so that cached files of an older form are not used.
FORM = 1
#: The orders of a small file, which has some 500 bytes.
SMALL_ROWS = 7
CHUNK_ROWS = 500_000
_DAYS = 730
#: Users of the events, how many events there are in a second, and how many seconds they come in disorder.
USERS, _EVENTS_A_SECOND, _DISORDER = 10_000, 333, 60


def orders(folder: Path, rows: int, *, bad_every: int = 0) -> Path:
    """A CSV file of orders, made when it is not there yet.

    Args:
        folder: where the file is kept.
        rows: how many.
        bad_every: one amount in this many is `n/a`; 0 for none.
    """
    path = folder / f"orders-{FORM}-{rows}{f'-bad-{bad_every}' if bad_every else ''}.csv"
    starts = range(0, rows, CHUNK_ROWS)
    return made(path, ORDER_COLUMNS, (_orders(start, min(CHUNK_ROWS, rows - start), bad_every) for start in starts))


def small_orders(folder: Path, rows: int) -> Path:
    """The same orders as `orders` in many small files; the pattern that matches them."""
    found = folder / f"orders-{FORM}-{rows}-small"
    if not found.exists():
        aside = found.with_name(f"{found.name}.{os.getpid()}")
        aside.mkdir(parents=True)
        head = (",".join(ORDER_COLUMNS) + "\n").encode()
        lines = _orders(0, rows, 0).to_pylist()
        for start in range(0, rows, SMALL_ROWS):
            text = "".join(lines[start : start + SMALL_ROWS]).encode()
            (aside / f"{start // SMALL_ROWS:06}.csv").write_bytes(head + text)
        aside.rename(found)
    return found / "*.csv"


def order_lines(folder: Path, rows: int) -> Path:
    """The same orders as NDJSON."""
    path = folder / f"orders-{FORM}-{rows}.ndjson"
    starts = range(0, rows, CHUNK_ROWS)
    return made(path, (), (_objects(start, min(CHUNK_ROWS, rows - start)) for start in starts))


def events(folder: Path, rows: int) -> Path:
    """A CSV file of events, about in the order of their times."""
    path = folder / f"events-{FORM}-{rows}.csv"
    starts = range(0, rows, CHUNK_ROWS)
    return made(path, EVENT_COLUMNS, (_events(start, min(CHUNK_ROWS, rows - start)) for start in starts))


def skewed_orders(folder: Path, rows: int) -> Path:
    """The same orders, nine of ten of one customer."""
    starts = range(0, rows, CHUNK_ROWS)
    chunks = (csv_lines(*_skewed(_order_columns(start, min(CHUNK_ROWS, rows - start), 0))) for start in starts)
    return made(folder / f"orders-{FORM}-{rows}-skewed.csv", ORDER_COLUMNS, chunks)


def _skewed(columns: tuple[pa.StringArray, ...]) -> tuple[pa.StringArray, ...]:
    ids, names, *others = columns
    is_other = pc.equal(pc.utf8_slice_codeunits(ids, -1), "7")
    one = customer_names(np.zeros(1, dtype=np.uint64))[0]
    return ids, cast("pa.StringArray", pc.if_else(is_other, names, one)), *others


def intervals(folder: Path, rows: int, count: int = INTERVALS) -> Path:
    """A CSV file with intervals that have each order's id in one of them, in no order."""
    numbers = (np.arange(count, dtype=np.uint64) * np.uint64(104_729)) % np.uint64(count)
    low, high = (
        each * np.uint64(rows) // np.uint64(count) + np.uint64(1) for each in (numbers, numbers + np.uint64(1))
    )
    labels = pc.binary_join_element_wise("interval", number_texts(numbers), " ")
    path = folder / f"intervals-{FORM}-{rows}-{count}.csv"
    return made(path, INTERVAL_COLUMNS, [csv_lines(number_texts(low), number_texts(high), labels)])


def customers(folder: Path, count: int = CUSTOMERS) -> Path:
    """A CSV file with a row for each customer, in another order than the orders name them."""
    return made(folder / f"customers-{FORM}-{count}.csv", CUSTOMER_COLUMNS, [_customers(count)])


def made(path: Path, columns: Sequence[str], chunks: Iterable[pa.StringArray]) -> Path:
    """The file with these lines; written aside, so that a file with this name is complete."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        with aside.open("wb") as file:
            if columns:
                file.write((",".join(columns) + "\n").encode())
            for lines in chunks:
                _, offsets, text = lines.buffers()
                ends = np.frombuffer(offsets, dtype=np.int32)
                file.write(text[int(ends[lines.offset]) : int(ends[lines.offset + len(lines)])])
        aside.rename(path)
    return path


def _orders(start: int, count: int, bad_every: int) -> pa.StringArray:
    return csv_lines(*_order_columns(start, count, bad_every))


def _objects(start: int, count: int) -> pa.StringArray:
    parts: list[object] = []
    for name, texts in zip(ORDER_COLUMNS, _order_columns(start, count, 0), strict=True):
        mark = "" if name in ("id", "amount", "quantity") else '"'
        parts += [f'{"," if parts else "{"}"{name}":{mark}', texts, mark]
    return pc.binary_join_element_wise(*parts, "}\n", "")


def _order_columns(start: int, count: int, bad_every: int) -> tuple[pa.StringArray, ...]:
    ids = np.arange(start, start + count, dtype=np.uint64)
    amounts = amount_texts(draw(ids, 1) % np.uint64(100_000))
    if bad_every:
        is_bad = pa.array(draw(ids, 2) % np.uint64(bad_every) == 0)
        amounts = cast("pa.StringArray", pc.if_else(is_bad, "n/a", amounts))
    return (
        number_texts(ids + np.uint64(1)),
        customer_names(draw(ids, 3) % np.uint64(CUSTOMERS)),
        chosen(REGIONS, draw(ids, 4)),
        chosen(STATUSES, draw(ids, 5)),
        amounts,
        number_texts(draw(ids, 6) % np.uint64(20) + np.uint64(1)),
        day_texts(draw(ids, 7)),
        pc.binary_join_element_wise("order note", number_texts(draw(ids, 8) % np.uint64(10_000)), " "),
    )


def _events(start: int, count: int) -> pa.StringArray:
    ids = np.arange(start, start + count, dtype=np.uint64)
    seconds = ids // np.uint64(_EVENTS_A_SECOND) + draw(ids, 11) % np.uint64(_DISORDER)
    times = np.datetime64("2024-01-01T00:00:00", "s") + seconds.astype(np.int64)
    return csv_lines(
        number_texts(ids + np.uint64(1)),
        pc.binary_join_element_wise("u", number_texts(draw(ids, 12) % np.uint64(USERS)), ""),
        pc.strftime(pa.array(times), "%Y-%m-%dT%H:%M:%S"),
        amount_texts(draw(ids, 1) % np.uint64(100_000)),
    )


def _customers(count: int) -> pa.StringArray:
    # A stride without a common factor visits every number once.
    numbers = (np.arange(count, dtype=np.uint64) * np.uint64(104_729)) % np.uint64(count)
    return csv_lines(
        customer_names(numbers),
        pc.binary_join_element_wise("Customer number", number_texts(numbers), " "),
        chosen(SEGMENTS, draw(numbers, 9)),
        pc.binary_join_element_wise("0", pc.utf8_lpad(number_texts(draw(numbers, 10) % np.uint64(30)), 2, "0"), "."),
    )


def draw(numbers: np.ndarray, stream: int) -> np.ndarray:
    """A well mixed number for each number; streams are independent (the finalizer of splitmix64)."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(stream * 0xD1B54A32D192ED03 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def number_texts(numbers: np.ndarray) -> pa.StringArray:
    return pc.cast(pa.array(numbers.astype(np.int64)), pa.string())


def customer_names(numbers: np.ndarray) -> pa.StringArray:
    return pc.binary_join_element_wise("c", pc.utf8_lpad(number_texts(numbers), 6, "0"), "")


def amount_texts(cents: np.ndarray) -> pa.StringArray:
    """Cents as amounts with two decimals."""
    return pc.binary_join_element_wise(
        number_texts(cents // np.uint64(100)), pc.utf8_lpad(number_texts(cents % np.uint64(100)), 2, "0"), "."
    )


def day_texts(draws: np.ndarray) -> pa.StringArray:
    first = np.datetime64("2024-01-01", "D")
    return pc.cast(pa.array(first + (draws % np.uint64(_DAYS)).astype(np.int64)), pa.string())


def chosen(texts: tuple[str, ...], draws: np.ndarray) -> pa.StringArray:
    return pa.array(texts, pa.string()).take(pa.array((draws % np.uint64(len(texts))).astype(np.int64)))


def csv_lines(*columns: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*columns, ","), "", "\n")
