"""The inputs of the benchmarks in other shapes, drawn by a seed, so that results do not depend on a single shape.

    python benchmarks/run.py --shape 1 --shape 2 --rows 5000000 --runs 1

A seed draws for each property that matters to some workload one of its values (`Shape`). The files have the columns of
`data.py`, so that pipelines and baselines are the same. A shape changes these properties:

| property | values | where |
|---|---|---|
| records of a group | 1, 10, 10,000 | customers of orders, users of events, orders of an interval |
| order of keys | ascending, random, skewed: nine tenths of the records have one key | customers, ids, users |
| lines | alike, or with members in several orders, some of them absent | NDJSON |
| values | short, or long: notes of 300 characters, amounts with 15 digits | all |
| dead records | none, 1 %, half of them | workloads that expect them |
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    #: The lines of some records, by the number of the first one and how many there are.
    _Chunk = Callable[[int, int], pa.StringArray]

#: The workloads whose inputs have shapes.
WORKLOADS = (
    "filter_derive", "route_dlq", "group_16", "group_200k", "lookup", "join", "sort", "ranges", "window",
    "ndjson", "tumbling", "session", "dead_letters", "correlated",
)  # fmt: skip
#: Those that have dead records where a shape has some.
_WITH_DEAD = ("route_dlq", "dead_letters", "correlated")
#: The most customers that a file of them has; `lookup` joins it as the small side.
_MOST_CUSTOMERS = 1_000_000
#: Events in a window of five minutes, all users together.
_EVENTS_A_WINDOW = 100_000
_WINDOW_S = 300
#: What follows a short note.
_LONG = "; the rest of a long note which says little and takes room: " + " ".join(["lorem ipsum dolor sit amet"] * 9)


@dataclass(frozen=True)
class Shape:
    """The properties of a seed's inputs; see the module."""

    group: int
    keys: str
    are_lines_alike: bool
    are_values_long: bool
    #: One record in so many is dead; 0 for none.
    bad_every: int

    @classmethod
    def of(cls, seed: int) -> Shape:
        """The shape of a seed, the same one everywhere."""
        drawn = random.Random(f"shape {seed}")
        return cls(
            drawn.choice([1, 10, 10_000]),
            drawn.choice(["ascending", "random", "skewed"]),
            drawn.random() < 0.5,
            drawn.random() < 0.5,
            drawn.choice([0, 100, 2]),
        )

    @property
    def name(self) -> str:
        """The part of file names that distinguishes this shape from others."""
        return "-".join(str(value) for value in asdict(self).values())

    def about(self, workload: str) -> str:
        """The properties that matter to a workload, in words: `10 in a group, random keys, long values`."""
        words = []
        if workload == "ndjson":
            words.append("members alike" if self.are_lines_alike else "members in several orders")
        else:
            words += [f"{self.group:,} in a group", f"{self.keys} keys"]
        words.append("long values" if self.are_values_long else "short values")
        if self.bad_every and workload in _WITH_DEAD:
            words.append(f"1 in {self.bad_every} dead")
        return ", ".join(words)

    def inputs(self, folder: Path, workload: str, rows: int) -> dict[str, str]:
        """The variables that name the inputs of a workload; the files are made when they are not there yet."""
        bad_every = self.bad_every if workload in _WITH_DEAD else 0
        found = {"BENCH_CUSTOMERS": str(data.customers(folder, self.customers(rows)))}
        if workload == "ndjson":
            found["BENCH_ORDER_LINES"] = str(
                self._file(folder, "ndjson", rows, lambda start, count: self._objects(start, count, rows))
            )
        elif workload in ("tumbling", "session"):
            found["BENCH_EVENTS"] = str(self._file(folder, "events", rows, self._events))
        else:
            name = f"orders-bad-{bad_every}" if bad_every else "orders"
            orders = self._file(folder, name, rows, lambda start, count: self._orders(start, count, rows, bad_every))
            found["BENCH_ORDERS"] = str(orders)
        if workload == "ranges":
            found["BENCH_INTERVALS"] = str(data.intervals(folder, rows, max(1, min(rows // self.group, 1_000_000))))
        return found

    def customers(self, rows: int) -> int:
        """Give the number of customers for a number of orders."""
        return max(1, min(rows // self.group, _MOST_CUSTOMERS))

    def _file(self, folder: Path, kind: str, rows: int, chunk: _Chunk) -> Path:
        starts = range(0, rows, data.CHUNK_ROWS)
        columns = {"ndjson": (), "events": data.EVENT_COLUMNS}.get(kind, data.ORDER_COLUMNS)
        path = folder / f"shaped-{data.FORM}-{kind}-{rows}-{self.name}"
        return data.made(path, columns, (chunk(start, min(data.CHUNK_ROWS, rows - start)) for start in starts))

    def _orders(self, start: int, count: int, rows: int, bad_every: int) -> pa.StringArray:
        return data.csv_lines(*self._order_columns(start, count, rows, bad_every))

    def _order_columns(self, start: int, count: int, rows: int, bad_every: int) -> tuple[pa.StringArray, ...]:
        numbers = np.arange(start, start + count, dtype=np.uint64)
        ids = numbers if self.keys == "ascending" else numbers * np.uint64(_stride(rows)) % np.uint64(rows)
        amounts = self._amounts(numbers)
        if bad_every:
            is_bad = pa.array(data.draw(numbers, 2) % np.uint64(bad_every) == 0)
            amounts = cast("pa.StringArray", pc.if_else(is_bad, "n/a", amounts))
        notes = pc.binary_join_element_wise(
            "order note", data.number_texts(data.draw(numbers, 8) % np.uint64(10_000)), " "
        )
        if self.are_values_long:
            notes = pc.binary_join_element_wise(notes, _LONG, "")
        return (
            data.number_texts(ids + np.uint64(1)),
            data.customer_names(self._keys(numbers, self.customers(rows))),
            data.chosen(data.REGIONS, data.draw(numbers, 4)),
            data.chosen(data.STATUSES, data.draw(numbers, 5)),
            amounts,
            data.number_texts(data.draw(numbers, 6) % np.uint64(20) + np.uint64(1)),
            data.day_texts(data.draw(numbers, 7)),
            notes,
        )

    def _objects(self, start: int, count: int, rows: int) -> pa.StringArray:
        """Orders as lines of JSON."""
        columns = dict(zip(data.ORDER_COLUMNS, self._order_columns(start, count, rows, 0), strict=True))
        names = list(columns)
        if self.are_lines_alike:
            return _lines(columns, names)
        ways = [names, names[::-1], names[3:] + names[:3], names[:-1]]
        which = data.draw(np.arange(start, start + count, dtype=np.uint64), 13) % np.uint64(len(ways))
        return pc.choose(pa.array(which.astype(np.int64)), *(_lines(columns, way) for way in ways))

    def _events(self, start: int, count: int) -> pa.StringArray:
        numbers = np.arange(start, start + count, dtype=np.uint64)
        seconds: np.ndarray = numbers * np.uint64(_WINDOW_S) // np.uint64(_EVENTS_A_WINDOW)
        if self.keys != "ascending":
            seconds = seconds + data.draw(numbers, 11) % np.uint64(60)
        times = np.datetime64("2024-01-01T00:00:00", "s") + seconds.astype(np.int64)
        return data.csv_lines(
            data.number_texts(numbers + np.uint64(1)),
            pc.binary_join_element_wise("u", data.number_texts(self._users(numbers)), ""),
            pc.strftime(pa.array(times), "%Y-%m-%dT%H:%M:%S"),
            self._amounts(numbers),
        )

    def _users(self, numbers: np.ndarray) -> np.ndarray:
        users = max(1, _EVENTS_A_WINDOW // self.group)
        return numbers % np.uint64(users) if self.keys == "ascending" else self._keys(numbers, users)

    def _keys(self, numbers: np.ndarray, count: int) -> np.ndarray:
        """The key of each record, of `count` keys."""
        if self.keys == "ascending":
            return numbers // np.uint64(self.group) % np.uint64(count)
        drawn = data.draw(numbers, 3) % np.uint64(count)
        is_usual = (data.draw(numbers, 14) % np.uint64(10) != 0) & (self.keys == "skewed")
        return np.where(is_usual, np.uint64(0), drawn)

    def _amounts(self, numbers: np.ndarray) -> pa.StringArray:
        if not self.are_values_long:
            return data.amount_texts(data.draw(numbers, 1) % np.uint64(100_000))
        fractions = data.number_texts(data.draw(numbers, 15) % np.uint64(10**12))
        whole = data.number_texts(data.draw(numbers, 1) % np.uint64(1000))
        return pc.binary_join_element_wise(whole, pc.utf8_lpad(fractions, 12, "0"), ".")


def _lines(columns: dict[str, pa.StringArray], names: list[str]) -> pa.StringArray:
    """Objects with some members, in their order."""
    parts: list[object] = []
    for name in names:
        mark = "" if name in ("id", "amount", "quantity") else '"'
        parts += [f'{"," if parts else "{"}"{name}":{mark}', columns[name], mark]
    return pc.binary_join_element_wise(*parts, "}\n", "")


def _stride(count: int) -> int:
    """A step that visits each of some numbers once, in no order."""
    return next(prime for prime in (7_368_787, 9_999_991, 15_485_863) if count % prime)
