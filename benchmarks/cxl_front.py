"""Milliseconds of parsing, checking and formatting CXL programs of growing length, and of hostile ones.

python benchmarks/cxl_front.py

Twice the text should take twice the time; a program of a pipeline takes a few milliseconds.
"""

from __future__ import annotations

import pickle
import time

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import tree_walk, types
from spark_jobs.cxl.checking.scope import Scope
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.cxl.syntax import formatter, parser

COLUMNS = {"n": types.INT, "s": types.STRING, "xs": types.ARRAY}
LINE = 'emit f{i} = if n > {i} and s.trim() == "abc" then s.upper() + " text" else s.left(3)'
HOSTILE = {
    "200 parentheses": "emit a = " + "(" * 200 + "1" + ")" * 200,
    "20,000 parentheses": "emit a = " + "(" * 20_000 + "1" + ")" * 20_000,
    "3,000 additions": "emit a = n" + " + n" * 2_900,
    "100,000 open parentheses": "emit a = " + "(" * 100_000,
    "5,000 mistakes": "emit = )\n" * 5_000,
    "5,000 unknown names": "\n".join(f"emit a{i} = unknown{i}" for i in range(5_000)),
    "5,000 unused lets": "\n".join(f"let k{i} = n" for i in range(5_000)),
    "a text of a million characters": f'emit a = "{"x" * 1_000_000}"',
}


def seconds(work: object) -> tuple[float, object]:
    assert callable(work)
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(name: str, text: str, scope: Scope) -> None:
    checked, analysis = seconds(lambda: front.analyse(text, scope))
    assert isinstance(analysis, front.Analysis)
    row = f"{name:<32} {len(text):>10,} {checked * 1000:>10.1f}"
    if analysis.program is None:
        print(f"{row}   {len(analysis.findings)} mistakes")
        return
    with tree_walk.room():
        formatted, _ = seconds(lambda: formatter.format_program(text, analysis.tree))
    pickled, data = seconds(lambda: pickle.dumps(analysis.program))
    assert isinstance(data, bytes)
    print(f"{row} {formatted * 1000:>10.1f} {pickled * 1000:>10.1f} {len(data):>12,}")


def main() -> None:
    scope = Scope(row=Schema(tuple(Column(name, static) for name, static in COLUMNS.items())))
    parser.parse("emit a = 1")
    print(
        f"{'program':<32} {'characters':>10} {'check ms':>10} {'format ms':>10} {'pickle ms':>10} {'pickle bytes':>12}"
    )
    for count in (12, 120, 1_200, 5_000, 12_000):
        measure(f"{count:,} emits", "\n".join(LINE.format(i=i) for i in range(count)), scope)
    for name, text in HOSTILE.items():
        measure(name, text, scope)


if __name__ == "__main__":
    main()
