"""`clinker init`: a folder with a small pipeline that runs, and its data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

_PIPELINE = """\
# Sorts orders into large and small ones. Try:
#   clinker validate pipeline.yaml
#   clinker run pipeline.yaml --explain
#   clinker run pipeline.yaml
#   clinker test
pipeline:
  name: {name}
  vars:
    limit: 100.0

nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: data/orders.csv
      schema:
        - {{ name: order_id, type: int }}
        - {{ name: customer, type: string }}
        - {{ name: quantity, type: int }}
        - {{ name: price, type: float }}

  - type: transform
    name: totals
    input: orders
    config:
      cxl: |
        filter quantity > 0
        emit total = (quantity * price).round(2)

  - type: route
    name: by_size
    input: totals
    config:
      conditions:
        large: total >= $vars.limit
      default: small

  - type: output
    name: large_orders
    input: by_size.large
    config:
      type: csv
      path: output/large.csv

  - type: output
    name: small_orders
    input: by_size.small
    config:
      type: json
      path: output/small.ndjson
      options: {{ format: ndjson }}

error_handling:
  strategy: continue
  dlq:
    path: output/rejected.csv
"""

_CASES = """\
# What the pipeline does, as cases. Try:
#   clinker test
pipeline: ../pipeline.yaml

cases:
  - name: an order of a hundred or more is large
    given:
      orders:
        - {order_id: 1, customer: Ada, quantity: 10, price: 10.0}
        - {order_id: 2, customer: Eve, quantity: 10, price: 9.99}
    expect:
      large_orders:
        - {order_id: 1, customer: Ada, quantity: 10, price: 10.0, total: 100.0}
      small_orders:
        - {order_id: 2, customer: Eve, quantity: 10, price: 9.99, total: 99.9}

  - name: an order without a quantity is left out, and one that is no number is a dead letter
    given:
      orders:
        - {order_id: 3, customer: Ida, quantity: 0, price: 5.0}
        - {order_id: 4, customer: Uwe, quantity: three, price: 12.0}
    expect:
      totals: []
    dead_letters:
      - {row: 2, field: quantity, value: three}
"""

_ORDERS = """\
order_id,customer,quantity,price
1,Ada,2,19.90
2,Grace,10,24.50
3,Edsger,0,5.00
4,Barbara,three,12.00
5,Donald,1,149.00
"""


def main(arguments: argparse.Namespace) -> int:
    """Make the folder; refuses one that has a pipeline already."""
    folder = arguments.folder
    pipeline = folder / "pipeline.yaml"
    if pipeline.exists() and not arguments.force:
        sys.stderr.write(f"clinker init error: {pipeline} exists already; use --force to replace it\n")
        return ExitCode.CONFIG
    name = "".join(c if c.isalnum() else "_" for c in folder.resolve().name) or "pipeline"
    try:
        write(folder, name)
    except OSError as error:
        sys.stderr.write(f"clinker init error: {error.filename}: {error.strerror}\n")
        return ExitCode.IO
    sys.stdout.write(
        f"made {pipeline}, {folder / 'data' / 'orders.csv'} and {folder / 'tests' / 'pipeline.test.yaml'}\n"
        f"next: clinker run {pipeline}; clinker test {folder}\n"
    )
    return ExitCode.SUCCESS


def write(folder: Path, name: str) -> None:
    """Write the pipeline, under this name, and its data; the folder is made.

    Raises:
        OSError: a file or folder cannot be written.
    """
    for name_of in ("data", "tests"):
        (folder / name_of).mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(_PIPELINE.format(name=name), encoding="utf-8")
    (folder / "data" / "orders.csv").write_text(_ORDERS, encoding="utf-8")
    (folder / "tests" / "pipeline.test.yaml").write_text(_CASES, encoding="utf-8")
