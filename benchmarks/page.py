"""The tables of results in docs/performance.md, written from what `run.py --json` measured.

    python -m benchmarks.page whole.json warm.json

`make bench-page` measures and writes them. The text between the two marks of the page is replaced, so that no figure
there is from another state of the code or another machine than its neighbours.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

from benchmarks import measure, run, shapes  # noqa: E402 - after the path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = _REPOSITORY / "docs" / "performance.md"
_BEGIN = "<!-- measured by `make bench-page`: begin -->\n"
_END = "<!-- measured by `make bench-page`: end -->\n"


def main() -> int:
    """Replace the tables of the page."""
    parser = argparse.ArgumentParser(description="Write measurements into docs/performance.md.")
    parser.add_argument("measured", type=Path, nargs="+", help="files that `run.py --json` wrote")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (default docs/performance.md)")
    arguments = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in arguments.measured]
    arguments.page.write_text(with_tables(arguments.page.read_text(), documents))
    return 0


def with_tables(page: str, documents: Sequence[dict[str, Any]]) -> str:
    """The page with the tables of some measurements between its marks.

    Raises:
        ValueError: the page does not have both marks, or measurements are of different setups.
    """
    found = re.search(re.escape(_BEGIN) + ".*?" + re.escape(_END), page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no lines {_BEGIN.strip()} and {_END.strip()}")
    conditions = {json.dumps([each["setup"][key] for key in ("cores", "memory_gib", "versions")]) for each in documents}
    if len(conditions) > 1:
        raise ValueError("the measurements are from different computers or versions: " + "; ".join(sorted(conditions)))
    text = "\n".join(line for document in documents for line in _sections(document))
    return page[: found.start()] + _BEGIN + "\n" + text + "\n" + _END + page[found.end() :]


def _sections(document: dict[str, Any]) -> Iterator[str]:
    setup, results = document["setup"], [_result(record) for record in document["results"]]
    rounds = "one round" if setup["rounds"] == 1 else f"medians of {setup['rounds']} rounds"
    versions = ", ".join(f"{name} {version}" for name, version in setup["versions"].items())
    where = f"{setup['cores']} cores, {setup['memory_gib']} GiB, {rounds}; {versions}"
    if setup["warm"]:
        yield from _table(f"### Warm sessions ({where})", _shaped(results))
        return
    kind = "Whole processes on a standalone cluster" if setup["cluster"] else "Whole processes"
    yield from _table(f"### {kind} ({where})", _whole(results))
    if len(growth := list(_growth(results))) > 1:
        yield from _table("### Growth", growth)


def _result(record: dict[str, Any]) -> run.Result:
    runs = {
        program: [measure.Measurement(**each) for each in measurements]
        for program, measurements in record["runs"].items()
    }
    return run.Result(record["workload"], record["rows"], record["seed"], runs)


def _table(heading: str, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A heading and a table; the first row is its head."""
    head, *body = rows
    yield from (heading, "")
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(row) + " |" for row in body)
    yield ""


def _whole(results: Sequence[run.Result]) -> list[list[str]]:
    rows = [
        ["workload", "shape", "rows", "goal", "time / PySpark", "processor / PySpark", "memory / PySpark",
         "time / DuckDB"]
    ]  # fmt: skip
    for result in results:
        if {"clinker", "spark"} <= set(result.runs):
            memory = f"{result.peak('clinker') / result.peak('spark'):.2f}" if result.peak("spark") else ""
            rows.append([
                f"`{result.workload}`", _shape(result), f"{result.rows:,}", f"≤ {run.GOALS[result.workload]}",
                _ratio(result.ratio("spark")), _ratio(result.cpu_ratio("spark")), memory,
                _ratio(result.ratio("duckdb")),
            ])  # fmt: skip
    return rows


def _shaped(results: Sequence[run.Result]) -> list[list[str]]:
    rows = [["workload", "shape", "rows", "Clinker, µs per row", "PySpark, µs per row", "processor / PySpark"]]
    for result in results:
        if {"clinker", "spark"} <= set(result.runs):
            each = [f"{result.cpu_seconds(program) / result.rows * 1e6:.1f}" for program in ("clinker", "spark")]
            rows.append([
                f"`{result.workload}`", _shape(result), f"{result.rows:,}", *each, _ratio(result.cpu_ratio("spark")),
            ])  # fmt: skip
    return rows


def _growth(results: Sequence[run.Result]) -> Iterator[list[str]]:
    yield ["workload", "rows", "time", "processor", "memory"]
    for workload in dict.fromkeys(result.workload for result in results):
        sizes = [each for each in results if each.workload == workload and each.seed is None and "clinker" in each.runs]
        small, large = min(sizes, key=_rows, default=None), max(sizes, key=_rows, default=None)
        if small is None or large is None or small.rows == large.rows:
            continue
        yield [
            f"`{workload}`",
            f"{small.rows:,} to {large.rows:,}",
            f"{large.seconds('clinker') / small.seconds('clinker'):.2f}",
            f"{large.cpu_seconds('clinker') / small.cpu_seconds('clinker'):.2f}",
            f"{large.peak('clinker') / small.peak('clinker'):.2f}",
        ]


def _rows(result: run.Result) -> int:
    return result.rows


def _shape(result: run.Result) -> str:
    return "" if result.seed is None else f"seed {result.seed}: {shapes.Shape.of(result.seed).about(result.workload)}"


def _ratio(found: float | None) -> str:
    return "" if found is None else f"{found:.2f}" if found < 10 else f"{found:.0f}"


if __name__ == "__main__":
    sys.exit(main())
