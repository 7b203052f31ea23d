"""Measures the Arrow memory of a task under a memory limit, against its share of it.

    python benchmarks/memory.py [--rows 2000000] [--limit 64M] [workload ...]

Each workload is a pipeline whose records have to wait somewhere. Its tasks run one after another in a process of their
own, without Spark, with two tasks' shares of the limit; the figure is the most that Arrow had allocated at a time.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa

from benchmarks import task
from spark_jobs import plan
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor
from spark_jobs.plan.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

THREADS = 2
#: The limit for a task's peak, as a multiple of its share: allocations are rounded up, and a batch is on its way.
ALLOWED = 1.25
_HEAD = "pipeline: {name: memory, concurrency: {threads: 2}}\nnodes:\n"
_SCHEMA = "{id: int, key: string, text: string}"
_SOURCE = f"  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {_SCHEMA}}}}}\n"
_WIDE = ", ".join(f"c{number}: string" for number in range(200))
_TEXT = "some text that is longer than the other values "


@dataclass(frozen=True)
class Workload:
    """A pipeline's nodes behind the source, and the lines of its input."""

    nodes: str
    lines: Callable[[int], Iterator[str]]
    source: str = _SOURCE
    header: str = "id,key,text"


def _output(of: str, more: str = "", name: str = "o", form: str = "csv") -> str:
    return f"  - {{type: output, name: {name}, input: {of}, config: {{type: {form}, path: out/{name}.{form}{more}}}}}\n"


def _aggregate(emits: str, by: str = "key", name: str = "a") -> str:
    return f"  - {{type: aggregate, name: {name}, input: s, config: {{group_by: [{by}], cxl: '{emits}'}}}}\n"


def _unique(rows: int) -> Iterator[str]:
    """Keys that come once each, scattered."""
    return (f"{i},k{i * 7_919 % rows},{_TEXT}{i % 97}" for i in range(rows))


def _skewed(rows: int) -> Iterator[str]:
    """Nine of ten records have one key."""
    return (f"{i},{'most' if i % 10 else f'k{i}'},{_TEXT}{i % 97}" for i in range(rows))


def _wide_lines(rows: int) -> Iterator[str]:
    return (",".join([str(i), *(f"v{i}-{number}" for number in range(200))]) for i in range(rows // 100))


def _huge_cell(rows: int) -> Iterator[str]:
    """One cell of 25 bytes per row that other workloads have."""
    return (f"{i},k{i},{'x' * (25 * rows) if i == 50 else 'y'}" for i in range(100))


def _objects(rows: int, end: str = "]") -> Iterator[str]:
    """The lines of an array of objects, and the text after them."""
    yield from (f'{{"id":{i},"key":"k{i}","text":"{_TEXT}"}},' for i in range(rows))
    yield f'{{"id":{rows},"key":"last","text":""}}{end}'


def _orders(rows: int) -> Iterator[str]:
    """Objects with twenty elements each."""
    for i in range(0, rows, 20):
        inner = ",".join(f'{{"key":"k{j}","text":"{_TEXT}"}}' for j in range(i, i + 20))
        yield f'{{"id":{i},"lines":[{inner}]}}'


def _json(more: str) -> str:
    return f"  - {{type: source, name: s, config: {{type: json, path: in.csv, schema: {_SCHEMA}{more}}}}}\n"


def _combine(match: str, body: str, where: str = "s.key == b.key") -> str:
    build = "  - {type: source, name: b, config: {type: csv, path: build.csv, schema: {key: string, more: string}}}\n"
    config = f"{{where: {where}, match: {match}, on_miss: null_fields{body}}}"
    return build + f"  - {{type: combine, name: c, input: {{s: s, b: b}}, config: {config}}}\n"


_BODY = ", cxl: 'emit id = s.id\n\n      emit text = s.text\n\n      emit more = b.more'"
_SUMS = "emit n = count(*)\n\n      emit total = sum(id)\n\n      emit last = last(text)"

WORKLOADS = {
    "unique keys": Workload(_aggregate("emit n = count(*)") + _output("a"), _unique),
    "five functions": Workload(
        _aggregate(f"{_SUMS}\n\n      emit mean = avg(id * 0.5)\n\n      emit least = min(key)") + _output("a"), _unique
    ),
    "lists": Workload(_aggregate('emit all = collect(text).join("-")') + _output("a"), _unique),
    "long keys": Workload(_aggregate("emit n = count(*)", "key, text") + _output("a"), _unique),
    "three aggregates": Workload(
        "".join(
            _aggregate(f"emit n{i} = sum(id)", name=f"a{i}") + _output(f"a{i}", name=f"o{i}")
            for i in range(3)
        ),
        _unique,
    ),
    "distinct": Workload(
        '  - {type: transform, name: d, input: s, config: {cxl: "distinct by key"}}\n' + _output("d"), _unique
    ),
    "distinct by wide keys": Workload(
        '  - {type: transform, name: d, input: s, config: {cxl: "emit a = key + text\\ndistinct"}}\n' + _output("d"),
        _unique,
    ),
    "skewed combine": Workload(_combine("first", _BODY) + _output("c"), _skewed),
    "combine of all": Workload(_combine("all", _BODY) + _output("c"), _unique),
    "combine of lists": Workload(_combine("collect", "") + _output("c", form="json"), _unique),
    "sort": Workload(_output("s", ", sort_order: [key]"), _unique),
    "sort beside an aggregate": Workload(
        _output("s", ", sort_order: [key]") + _aggregate("emit n = count(*)") + _output("a", name="p"), _unique
    ),
    "windows": Workload(
        "  - {type: transform, name: w, input: s, config: {"
        "analytic_window: {group_by: [key], sort_by: [{field: text}]}, cxl: 'emit nth = $window.row_number()'}}\n"
        + _output("w"),
        _skewed,
    ),
    "rows through": Workload(_output("s"), _unique),
    "wide rows": Workload(
        _output("s", ", sort_order: [c5]"), _wide_lines,
        f"  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{id: int, {_WIDE}}}}}}}\n",
        ",".join(["id", *(f"c{number}" for number in range(200))]),
    ),
    "array": Workload(_output("s"), _objects, _json(""), "["),
    "document": Workload(
        _output("s"),
        lambda rows: _objects(rows, "]}}"),
        _json(", options: {record_path: d.e}"),
        '{"n": 1, "d": {"e": [',
    ),
    "exploded lines": Workload(
        _output("s"), _orders, _json(", array_paths: [{path: lines, mode: explode}]"), '{"id":0,"lines":[]}'
    ),
    "huge cell": Workload(_output("s"), _huge_cell),
}  # fmt: skip
#: Build records for each hundred records that drive, of the combines.
_BUILD_PERCENT = 20


@dataclass(frozen=True)
class Result:
    """Memory and spilled bytes of a workload, or its error."""

    name: str
    peak: int
    share: int
    spilled: int
    error: str | None

    @property
    def ratio(self) -> float:
        """The peak as a part of the share."""
        return self.peak / self.share


def write(folder: Path, name: str, rows: int) -> None:
    """A workload's pipeline and files."""
    workload = WORKLOADS[name]
    (folder / "pipeline.yaml").write_text(_HEAD + workload.source + workload.nodes)
    with (folder / "in.csv").open("w") as file:
        file.write(workload.header + "\n")
        file.writelines(line + "\n" for line in workload.lines(rows))
    with (folder / "build.csv").open("w") as file:
        file.write("key,more\nmost,of them\n")
        file.writelines(f"k{i * 10},{_TEXT}\n" for i in range(rows * _BUILD_PERCENT // 100))


def run(folder: Path, name: str, limit: int) -> Result:
    """Run a workload whose files exist, and measure the peak memory of this process."""
    options = RunOptions(force=True, memory_limit_bytes=limit, threads=THREADS)
    with task.without_spark(), redirect_stdout(io.StringIO()):
        loaded = plan.load(folder / "pipeline.yaml", options)
        outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    spilled = outcome.result.metrics.get("spilled_bytes", 0)
    assert isinstance(spilled, int)
    error = outcome.result.error
    return Result(
        name, pa.default_memory_pool().max_memory() or 0, limit // THREADS, spilled,
        f"{error.code} {error.message}" if error else None,
    )  # fmt: skip


def measured(names: Sequence[str], rows: int, limit: int) -> Iterator[Result]:
    """Each workload in a process of its own."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), name, rows)
            command = [sys.executable, __file__, "--in", folder, "--limit", str(limit), name]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        yield Result(**json.loads(told.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what tasks hold under a memory limit.")
    parser.add_argument("workload", nargs="*", help="all unless some are named")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--limit", default="64M", help="bytes, or megabytes with an M after the number")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    limit = int(arguments.limit.removesuffix("M")) << (20 if arguments.limit.endswith("M") else 0)
    if arguments.folder:
        print(json.dumps(vars(run(arguments.folder, arguments.workload[0], limit))))
        return
    for result in measured(arguments.workload or list(WORKLOADS), arguments.rows, limit):
        share = f"{result.peak / 2**20:.0f} MB of {result.share / 2**20:.0f}"
        spilled = f"{result.spilled >> 20} MB spilled"
        print(f"{result.name:26} {result.ratio:5.2f} {share:>16}, {spilled} {result.error or ''}")


if __name__ == "__main__":
    main()
