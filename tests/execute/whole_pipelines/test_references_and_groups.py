"""Records refer to those that are left when failing records are taken back, and wait for all of them."""

from __future__ import annotations

import csv
import io
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

#: Both sources have groups. Customers fail downstream of their source, and orders where they are read.
PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: orders.csv
      schema: {n: int, g: string, customer: int}
      correlation_key: g
      validations:
        - {references: {columns: customer, source: %s, to: id}}
  - type: source
    name: customers
    config: {type: csv, path: customers.csv, schema: {id: int, h: string, rate: int}, correlation_key: h}
  - {type: transform, name: rated, input: customers, config: {cxl: emit share = 100 / rate}}
  - {type: aggregate, name: known, input: rated, config: {group_by: [id], cxl: emit times = count(*)}}
  - {type: output, name: o, input: orders, config: {type: csv, path: out/o.csv}}
  - {type: output, name: c, input: known, config: {type: csv, path: out/c.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


@pytest.mark.parametrize("giver", ["rated", "known"])
@pytest.mark.parametrize("seed", range(6))
def test_records_that_fail_are_not_referred_to(
    seed: int, giver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    random_ = random.Random(seed)
    customers = [(random_.randrange(9), random_.choice("abcdef"), random_.randrange(5)) for _ in range(12)]
    orders = [(n, random_.choice("uvwxyz"), random_.randrange(9)) for n in range(40)]
    texts = {
        "customers.csv": "id,h,rate\n" + "".join(f"{id_},{h},{rate}\n" for id_, h, rate in customers),
        "orders.csv": "n,g,customer\n" + "".join(f"{n},{g},{customer}\n" for n, g, customer in orders),
        "pipeline.yaml": PIPELINE % giver,
    }
    pipelines.write(tmp_path, texts)
    # A customer without a rate counts as never read; nothing is wrong with the others of its group.
    counts = Counter(id_ for id_, _, rate in customers if rate)
    known = set(counts)
    lost = {n for n, _, customer in orders if customer not in known}
    rejected = {g for n, g, _ in orders if n in lost}
    for split_bytes in (10**9, 60):
        pipelines.cut_by(monkeypatch, split_bytes)
        assert pipelines.run(tmp_path).result.error is None
        files = {name: text.decode() for name, text in pipelines.outputs(tmp_path).items()}
        written = [int(row["n"]) for row in csv.DictReader(io.StringIO(files["o.csv"]))]
        assert written == [n for n, g, _ in orders if g not in rejected]
        found = {int(row["id"]): int(row["times"]) for row in csv.DictReader(io.StringIO(files["c.csv"]))}
        assert found == counts
        dead = [
            row for row in csv.DictReader(io.StringIO(files["dead.csv"])) if row["_cxl_dlq_source_name"] == "orders"
        ]
        failing = {int(row["n"]) for row in dead if row["_cxl_dlq_error_category"] == "validation_failure"}
        assert failing == lost
        assert {int(row["n"]) for row in dead} == {n for n, g, _ in orders if g in rejected}
        for path in (tmp_path / "out").iterdir():
            path.unlink()


INIT = """
pipeline: {name: p, vars: {pipeline: {top: {type: int}}}}
nodes:
  - type: source
    name: limits
    config:
      type: csv
      path: limits.csv
      schema: {top: int}
      validations: [{references: {columns: top, source: good, to: id}, severity: warn}]
  - {type: source, name: ids, config: {type: csv, path: ids.csv, schema: {id: int}}}
  - {type: transform, name: good, input: ids, config: {cxl: filter id > 1}}
  - {type: state, name: s, input: limits, config: {scope: pipeline, phase: init, set: [{var: top, cxl: top}]}}
  - {type: source, name: rows, config: {type: csv, path: ids.csv, schema: {id: int}}}
  - {type: transform, name: t, input: rows, config: {cxl: emit top = $pipeline.top}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
  - {type: output, name: others, input: good, config: {type: csv, path: out/others.csv}}
"""


def test_sources_of_the_init_phase_may_refer_to_nodes_that_are_read_later_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    files = {"limits.csv": "top\n1\n3\n", "ids.csv": "id\n1\n2\n3\n", "pipeline.yaml": INIT}
    pipelines.write(tmp_path, files)
    result = pipelines.run(tmp_path).result
    assert result.error is None, result.error
    assert [each["broken"] for each in result.rules] == [1]
    assert pipelines.outputs(tmp_path) == {"o.csv": b"id,top\n1,3\n2,3\n3,3\n", "others.csv": b"id\n2\n3\n"}
