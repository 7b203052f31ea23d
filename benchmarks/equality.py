"""Whether two programs wrote the same rows: in any order, into one file or a folder of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import data

if TYPE_CHECKING:
    from pathlib import Path

_PRICED = {
    "id": "BIGINT",
    "customer": "VARCHAR",
    "day": "DATE",
    "total": "DOUBLE",
    "size": "VARCHAR",
    "zone": "VARCHAR",
}
_ORDERS = dict(
    zip(data.ORDER_COLUMNS, ("BIGINT", *["VARCHAR"] * 3, "DOUBLE", "BIGINT", "DATE", "VARCHAR"), strict=True)
)
_KINDS = {**_ORDERS, "total": "DOUBLE"}
_TOTALS = {"orders": "BIGINT", "revenue": "DOUBLE", "pieces": "BIGINT", "mean": "DOUBLE", "largest": "DOUBLE"}
_FULL = {"orders": "BIGINT", "pieces": "BIGINT", "least": "BIGINT"}
_RANGED = {
    "id": "BIGINT", "customer": "VARCHAR", "amount": "DOUBLE", "day": "DATE", "nth": "BIGINT", "so_far": "DOUBLE",
}  # fmt: skip
_EVENT_TOTALS = {"events": "BIGINT", "spent": "DOUBLE", "mean": "DOUBLE", "largest": "DOUBLE"}
#: For each workload its results and their columns. Rejected rows are compared by number: each program has its own form.
RESULTS: dict[str, dict[str, dict[str, str]]] = {
    "filter_derive": {"priced": _PRICED},
    "ndjson": {"priced": _PRICED},
    "ndjson_widened": {"priced": _PRICED},
    "startup": {"priced": _PRICED},
    "small_files": {"priced": _PRICED},
    "route_dlq": {**dict.fromkeys(("cancelled", "large", "northern", "others"), _KINDS), "rejected": {}},
    "dead_letters": {"good": _ORDERS, "rejected": {}},
    "correlated": {"good": _ORDERS, "rejected": {}},
    "correlated_all_dirty": {"good": _ORDERS, "rejected": {}},
    "retracted": {
        "good": {**_ORDERS, "basket": "BIGINT", "shelf": "BIGINT"},
        "baskets": {"basket": "BIGINT", **_FULL},
        "shelves": {"shelf": "BIGINT", **_FULL},
        "rejected": {},
    },
    "window": {"ranged": _RANGED},
    "window_large": {"ranged": _RANGED},
    "group_16": {"totals": {"region": "VARCHAR", "status": "VARCHAR", **_TOTALS}},
    "group_200k": {"totals": {"customer": "VARCHAR", **_TOTALS}},
    "tumbling": {"totals": {"user": "VARCHAR", **_EVENT_TOTALS}},
    "session": {"totals": {"user": "VARCHAR", **_EVENT_TOTALS}},
    "lookup": {
        "named": {
            "id": "BIGINT", "customer": "VARCHAR", "name": "VARCHAR",
            "segment": "VARCHAR", "price": "DOUBLE", "day": "DATE",
        }
    },
    "ranges": {"labelled": {"id": "BIGINT", "amount": "DOUBLE", "label": "VARCHAR"}},
    "collect": {"counted": {"customer": "VARCHAR", "name": "VARCHAR", "orders": "BIGINT"}},
    "skew": {
        "named": {"id": "BIGINT", "customer": "VARCHAR", "name": "VARCHAR", "amount": "DOUBLE"},
        "totals": {"customer": "VARCHAR", "orders": "BIGINT", "revenue": "DOUBLE", "pieces": "BIGINT"},
    },
    "sort": {
        "sorted": _ORDERS,
    },
    "join": {
        "joined": {
            "id": "BIGINT", "customer": "VARCHAR", "amount": "DOUBLE", "quantity": "BIGINT", "note": "VARCHAR",
        }
    },
}  # fmt: skip


_CUT = "floor({0} * least(10000, pow(10, 9 - floor(log10(greatest(abs({0}), 1))))) + 0.317)"


def differences(workload: str, one: Path, other: Path) -> list[str]:
    """List the differences between the results of two programs, by result.

    Floats are compared to four decimals and ten digits, since sums in another order round otherwise; they are cut where
    no short decimal number lies, so that a last digit decides nothing.
    """
    found = []
    for name, columns in RESULTS[workload].items():
        summaries = [_summary(folder, name, columns) for folder in (one, other)]
        if summaries[0] != summaries[1]:
            found.append(f"{name}: {summaries[0]} and {summaries[1]}")
    return found


def _summary(folder: Path, name: str, columns: dict[str, str]) -> tuple[int, int]:
    """The number of rows, and the sum of a hash of each."""
    whole = folder / f"{name}.csv"
    pattern = str(whole if whole.exists() else folder / name / "part-*")
    if not columns and not any(
        path.stat().st_size for path in [whole, *folder.glob(f"{name}/part-*")] if path.exists()
    ):
        return 0, 0  # without rejected rows there is no file
    if not columns:
        return _first(
            f"SELECT count(*) FROM read_csv('{pattern}', header = true, all_varchar = true, null_padding = true)"
        )[0], 0
    cut = {column: _CUT.format(column) for column, kind in columns.items() if kind == "DOUBLE"}
    values = ", ".join(cut.get(column, column) for column in columns)
    kinds = ", ".join(f"'{column}': '{kind}'" for column, kind in columns.items())
    source = f"read_csv('{pattern}', header = true, types = {{{kinds}}})"
    rows, total = _first(f"SELECT count(*), sum(hash({values})::HUGEINT) FROM {source}")
    return rows, total or 0


def _first(query: str) -> tuple[Any, ...]:
    import duckdb

    row: tuple[Any, ...] = duckdb.connect().execute(query).fetchall()[0]
    return row
