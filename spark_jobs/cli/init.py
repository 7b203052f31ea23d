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
    sys.stdout.write(f"made {pipeline} and {folder / 'data' / 'orders.csv'}\nnext: clinker run {pipeline}\n")
    return ExitCode.SUCCESS


def write(folder: Path, name: str) -> None:
    """Write the pipeline, under this name, and its data; the folder is made.

    Raises:
        OSError: a file or folder cannot be written.
    """
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(_PIPELINE.format(name=name), encoding="utf-8")
    (folder / "data" / "orders.csv").write_text(_ORDERS, encoding="utf-8")
