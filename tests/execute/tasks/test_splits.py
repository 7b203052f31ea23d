"""Bytes do not depend on how the input is cut, on cores, or on partitions."""

from __future__ import annotations

import csv
import io
import random
from typing import TYPE_CHECKING

import pytest

from spark_jobs.tuning import Tuning
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PIPELINE = """
pipeline:
  name: everything
error_handling:
  strategy: continue
  dlq: {path: out/dead.csv}
nodes:
  - type: source
    name: orders
    config:
      name: orders
      type: csv
      path: orders.csv
      schema:
        - {name: id, type: int}
        - {name: customer, type: string}
        - {name: amount, type: float}
        - {name: note, type: string}
  - type: source
    name: customers
    config:
      name: customers
      type: csv
      path: customers.csv
      schema:
        - {name: code, type: string}
        - {name: city, type: string}
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        emit gross = amount * 1.19
        emit parts = 1000 / (id % 97)
        filter amount > 1.0
  - type: route
    name: size
    input: priced
    config:
      conditions: {large: "amount > 500.0", middle: "amount > 100.0"}
      default: small
  - type: merge
    name: again
    inputs: [size.small, size.large]
    config: {}
  - type: aggregate
    name: by_customer
    input: again
    config:
      group_by: [customer]
      cxl: |
        emit orders = count(*)
        emit total = sum(amount)
        emit mean = avg(amount)
        emit least = min(id)
        emit last_note = last(note)
        emit notes = collect(note)
  - type: aggregate
    name: all
    input: by_customer
    config:
      group_by: []
      cxl: |
        emit customers = count(*)
        emit total = sum(total)
  - type: combine
    name: named
    input: {o: priced, c: customers}
    config:
      where: o.customer == c.code
      cxl: |
        emit id = o.id
        emit city = c.city
        emit amount = o.amount
      propagate_ck: driver
  - {type: output, name: o1, input: again, config: {name: o1, type: csv, path: out/again.csv}}
  - type: output
    name: o2
    input: size.middle
    config: {name: o2, type: json, path: out/middle.json, options: {format: ndjson}}
  - {type: output, name: o3, input: by_customer, config: {name: o3, type: csv, path: out/by_customer.csv}}
  - {type: output, name: o4, input: all, config: {name: o4, type: json, path: out/all.json}}
  - {type: output, name: o5, input: named, config: {name: o5, type: csv, path: out/named.csv}}
"""


def orders(rows: int, line_end: str, *, final: bool, bom: bool) -> bytes:
    """Rows with quoted delimiters, quotes and line ends, some of them bad."""
    random.seed(rows)
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator=line_end)
    writer.writerow(["id", "customer", "amount", "note"])
    notes = [
        "",
        "plain",
        'with "quotes"',
        "a, comma",
        f"two{line_end}lines",
        f'"{line_end}',
        f"{line_end}{line_end}x,y",
    ]
    for number in range(1, rows + 1):
        amount = "oops" if number % 53 == 0 else f"{random.random() * 1000:.2f}"
        writer.writerow([number, f"c{random.randrange(rows // 4)}", amount, random.choice(notes)])
    text = sink.getvalue()
    if not final:
        text = text.removesuffix(line_end)
    return (b"\xef\xbb\xbf" if bom else b"") + text.encode()


def customers(count: int) -> str:
    return "code,city\n" + "".join(f"c{number},city {number % 7}\n" for number in range(0, count, 2))


def without_ids(published: dict[str, bytes]) -> dict[str, object]:
    """Dead letters without what differs from run to run."""
    found: dict[str, object] = dict(published)
    for name, content in published.items():
        if name.startswith("dead"):
            found[name] = [row[2:] for row in csv.reader(io.StringIO(content.decode()))]
    return found


@pytest.mark.parametrize(
    ("line_end", "final", "bom"),
    [("\n", True, False), ("\r\n", False, False), ("\n", False, True), ("\r\n", True, True)],
)
def test_bytes_do_not_depend_on_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line_end: str, final: bool, bom: bool
) -> None:
    pipelines.write(
        tmp_path,
        {
            "pipeline.yaml": PIPELINE,
            "orders.csv": orders(1200, line_end, final=final, bom=bom),
            "customers.csv": customers(300),
        },
    )
    published = []
    for splits in (1, 2, 3, 8):
        pipelines.with_splits(monkeypatch, tmp_path, "orders.csv", splits)
        outcome = pipelines.run(tmp_path, force=True)
        assert outcome.result.exit_code == 2, outcome.result.error
        published.append(without_ids(pipelines.outputs(tmp_path)))
    assert published[1:] == published[:1] * 3
    assert set(published[0]) == {"again.csv", "middle.json", "by_customer.csv", "all.json", "named.csv", "dead.csv"}


def test_results_are_those_of_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expectations are worked out row by row with the standard library."""
    data = orders(600, "\n", final=True, bom=False)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "orders.csv": data, "customers.csv": customers(150)})
    pipelines.with_splits(monkeypatch, tmp_path, "orders.csv", 3)
    outcome = pipelines.run(tmp_path)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    good = [r for r in rows if r["amount"] != "oops" and int(r["id"]) % 97 and float(r["amount"]) > 1.0]
    cities = {f"c{n}": f"city {n % 7}" for n in range(0, 150, 2)}

    named = list(csv.DictReader(io.StringIO((tmp_path / "out/named.csv").read_bytes().decode(), newline="")))
    assert [(r["id"], r["city"]) for r in named] == [(r["id"], cities.get(r["customer"], "")) for r in good]
    merged = [r for r in good if float(r["amount"]) <= 100.0] + [r for r in good if float(r["amount"]) > 500.0]
    again = list(csv.DictReader(io.StringIO((tmp_path / "out/again.csv").read_bytes().decode(), newline="")))
    assert [(r["id"], r["note"]) for r in again] == [(r["id"], r["note"]) for r in merged]
    grouped: dict[str, list[dict[str, str]]] = {}
    for row in merged:
        grouped.setdefault(row["customer"], []).append(row)
    found = list(csv.DictReader(io.StringIO((tmp_path / "out/by_customer.csv").read_bytes().decode(), newline="")))
    assert [(r["customer"], r["orders"], r["last_note"]) for r in found] == [
        (customer, str(len(members)), members[-1]["note"]) for customer, members in grouped.items()
    ]
    dead = len([r for r in rows if r["amount"] == "oops"]) + len(
        [r for r in rows if r["amount"] != "oops" and not int(r["id"]) % 97]
    )
    assert outcome.result.records_dlq == dead
    assert outcome.nodes["orders"]["records_in"] == len(rows)


def test_many_dead_letters_are_written_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver writes few, tasks write many: the same bytes, whatever the splits."""
    pipelines.write(
        tmp_path,
        {
            "pipeline.yaml": PIPELINE,
            "orders.csv": orders(800, "\n", final=True, bom=False),
            "customers.csv": customers(200),
        },
    )
    published = []
    for most, splits in ((10_000, 1), (0, 1), (0, 5)):
        pipelines.with_splits(monkeypatch, tmp_path, "orders.csv", splits)
        assert pipelines.run(tmp_path, force=True, tuning=Tuning(driver_dlq_rows=most)).result.exit_code == 2
        published.append(without_ids(pipelines.outputs(tmp_path)))
    assert published[1:] == published[:1] * 2
