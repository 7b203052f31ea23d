"""`clinker init`: creates a folder with a small pipeline and its data, or with a pipeline that reads given files."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.cli.guess.together import Answer

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


#: Larger files are not copied.
_MOST_COPIED_BYTES = 1 << 30
_FROM = """\
# Reads {files} as `clinker guess` understood {them}. Look at the types, then try:
#   clinker run pipeline.yaml -n 5
#   clinker run pipeline.yaml
pipeline:
  name: {name}

nodes:
{nodes}
error_handling:
  strategy: continue
  dlq:
    path: output/rejected.csv
"""
_OUTPUT = """\
  - type: output
    name: {output}
    input: {source}
    config:
      type: csv
      path: output/{source}.csv

"""


def main(folder: Path, files: Sequence[Path], *, force: bool) -> int:
    """Make the folder; refuses one that has a pipeline already, unless `force` says so.

    Args:
        folder: the folder to make.
        files: the inputs of the pipeline; if empty, the pipeline gets an example input.
        force: whether a pipeline that is there is replaced.
    """
    pipeline = folder / "pipeline.yaml"
    if folder.exists() and not folder.is_dir():
        sys.stderr.write(f"clinker init error: {folder} is a file; name a folder\n")
        return ExitCode.IO
    if pipeline.exists() and not force:
        sys.stderr.write(f"clinker init error: {pipeline} exists already; use --force to replace it\n")
        return ExitCode.CONFIG
    name = "".join(c if c.isalnum() else "_" for c in folder.resolve().name) or "pipeline"
    if files:
        return _from_files(folder, name, files)
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


def _from_files(folder: Path, name: str, paths: Sequence[Path]) -> int:
    from spark_jobs.cli.guess import command, together
    from spark_jobs.scan.files import FormatError

    for path in paths:
        if not path.is_file():
            sys.stderr.write(f"clinker init error: {path}: {'is no file' if path.exists() else 'no such file'}\n")
            return ExitCode.IO
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        places = [_placed(folder, path) for path in paths]
        found = command.guessed(places, [os.path.relpath(place, folder) for place in places])
        groups = list(together.groups(list(zip(paths, found, strict=True))))
        answers = [group.answer for group in groups]
        (folder / "pipeline.yaml").write_text(_pipeline(name, answers), encoding="utf-8")
    except (FormatError, command.NotGuessed, _TooLarge) as error:
        sys.stderr.write(f"clinker init error: {error}\n")
        return ExitCode.IO
    except OSError as error:
        sys.stderr.write(f"clinker init error: {error.filename}: {error.strerror}\n")
        return ExitCode.IO
    for group in groups:
        sys.stderr.write("".join(f"{line}\n" for line in group.notes()))
    refused = any(answer.read is not None and answer.read.refusal for answer in answers)
    pipeline = folder / "pipeline.yaml"
    sys.stdout.write(f"made {pipeline}\nnext: clinker run {pipeline} -n 5; clinker run {pipeline}\n")
    return ExitCode.IO if refused else ExitCode.SUCCESS


class _TooLarge(Exception):
    """A file is too large to be copied; the message says what to do."""


def _placed(folder: Path, path: Path) -> Path:
    """A file as it is in the pipeline's folder, where it is copied unless it is there."""
    inside = folder.resolve()
    real = path.resolve()
    if real.is_relative_to(inside):
        return folder / real.relative_to(inside)
    size = real.stat().st_size
    if size > _MOST_COPIED_BYTES:
        text = f"{path}: it has {size:,} bytes, which are not copied: move it into {folder / 'data'}, and name it there"
        raise _TooLarge(text)
    place = folder / "data" / path.name
    if not place.exists() or place.resolve() != real:
        shutil.copyfile(real, place)
    return place


def _pipeline(name: str, answers: Sequence[Answer]) -> str:
    from spark_jobs.cli.guess import source

    nodes = "".join(
        source.node(answer.guess, "  ")
        + "\n"
        + _OUTPUT.format(output=f"{answer.guess.name}_out", source=answer.guess.name)
        for answer in answers
    )
    files = ", ".join(path for answer in answers for path in answer.guess.paths)
    them = "them" if len(answers) > 1 else "it"
    return _FROM.format(name=source.scalar(name), nodes=nodes, files=files.replace("\n", " "), them=them)


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
