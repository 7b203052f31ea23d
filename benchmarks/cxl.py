"""Rows per second of a realistic transform in both engines, and nanoseconds per row of each of its fields.

python benchmarks/cxl.py [rows]
"""

from __future__ import annotations

import random
import sys
import time
from datetime import date, timedelta

import pyarrow as pa

from spark_jobs.cxl import compile as front
from spark_jobs.cxl import engine, typed, types
from spark_jobs.cxl.checking.scope import Scope
from spark_jobs.cxl.interpreter import interpreter
from spark_jobs.cxl.kernels import kernels
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.diagnostics.source import Text

COLUMNS = {
    "order_id": types.STRING,
    "customer": types.STRING,
    "country": types.STRING,
    "status": types.STRING,
    "quantity": types.INT,
    "price": types.FLOAT,
    "discount": types.FLOAT,
    "ordered": types.DATE,
    "note": types.STRING,
}
PROGRAM = """
let gross = quantity * price
emit order_id = order_id
emit customer = customer.trim()
emit country = country.upper()
emit gross = gross.round(2)
emit net = (gross * (1.0 - (discount ?? 0.0))).round(2)
emit size = if gross > 1000 then "large" else if gross > 100 then "medium" else "small"
emit state = match status { "A" => "active", "I" => "inactive", "P" => "pending", _ => "unknown" }
emit year = ordered.year()
emit quarter = (ordered.month() + 2) / 3
emit is_priority = status == "A" and gross > 500 and not note.is_null()
emit code = country + "-" + order_id.left(4)
emit noted = note ?? "none"
"""


def batch(rows: int) -> pa.RecordBatch:
    """Orders of a shop: mostly plain, some nulls, some accents."""
    dice = random.Random(7)
    names = [" Ada Lovelace", "Grace Hopper ", "Zoë Müller", "Linus Torvalds", "Barbara Liskov"]
    columns = {
        "order_id": [f"{dice.randrange(10**8):08d}" for _ in range(rows)],
        "customer": [dice.choice(names) for _ in range(rows)],
        "country": [dice.choice(["de", "fr", "us", "jp"]) for _ in range(rows)],
        "status": [dice.choice("AIPX") for _ in range(rows)],
        "quantity": [dice.randrange(1, 50) for _ in range(rows)],
        "price": [dice.randrange(100, 10_000) / 100 for _ in range(rows)],
        "discount": [None if dice.random() < 0.5 else 0.05 for _ in range(rows)],
        "ordered": [date(2020, 1, 1) + timedelta(days=dice.randrange(1500)) for _ in range(rows)],
        "note": [None if dice.random() < 0.7 else "call first" for _ in range(rows)],
    }
    return pa.RecordBatch.from_pydict(columns)


def _program(text: str) -> typed.Program:
    row = Schema(tuple(Column(name, static.or_null()) for name, static in COLUMNS.items()))
    compiled = front.compile_program(Text.whole(text), Scope(row=row), "benchmark")
    assert isinstance(compiled.program, typed.Program), compiled.diagnostics
    return compiled.program


def _best(run: engine.BatchProgram, rows: pa.RecordBatch, tries: int = 7) -> float:
    """Seconds of the quickest of several runs."""
    context = engine.EvaluationContext()
    times = []
    for _ in range(tries):
        start = time.process_time()
        run(rows, context)
        times.append(time.process_time() - start)
    return min(times)


def main(rows: int) -> None:
    """Print the figures."""
    orders = batch(rows)
    pa.set_cpu_count(1)
    program = _program(PROGRAM)
    run = kernels.compile(program)
    print(f"kernels:     {rows / _best(run, orders) / 1e6:8.2f} M rows/s, interpreted: {run.interpreted or 'nothing'}")
    records = orders.slice(0, 20_000).to_pylist()
    one, context = interpreter.compile(program), engine.EvaluationContext()
    start = time.process_time()
    for record in records:
        one(record, context)
    print(f"interpreter: {len(records) / (time.process_time() - start) / 1e6:8.2f} M rows/s")
    let, *emits = PROGRAM.strip().splitlines()
    for line in [let, *emits]:
        cost = _best(kernels.compile(_program(f"{let}\n{line}" if line is not let else let + "\nemit x = 1")), orders)
        print(f"{cost / rows * 1e9:8.1f} ns/row  {line}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 65_536)
