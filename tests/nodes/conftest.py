"""Plans of pipelines that have every type of node, for what must hold of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from spark_jobs import plan as planning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.plan import Plan

PIPELINE = """
pipeline: {name: all, vars: {pipeline: {last: {type: int, default: 3}}}}
nodes:
  - {type: source, name: o, config: {name: o, type: csv, path: o.csv, schema: {k: string, v: int}}}
  - type: source
    name: c
    config:
      name: c
      type: csv
      path: c.csv
      schema: {k: string, v: int}
      validations: [{sum: {column: v, min: 1}}, {references: {columns: k, source: f}}]
  - {type: source, name: f, config: {name: f, type: csv, path: f.csv, schema: {k: string}}}
  - {type: state, name: s, input: o, config: {scope: pipeline, set: [{var: last, cxl: max(v)}]}}
  - type: transform
    name: t
    input: s
    config:
      analytic_window: {group_by: [k], sort_by: [{field: v}]}
      cxl: |
        emit w = v + $window.sum(v + 1)
        distinct by k
      validations: [{name: positive, check: v > 0}]
      log: [{level: info, when: per_record, condition: v > 2, message: large}]
  - type: transform
    name: l
    input: t
    config: {analytic_window: {source: c, on: k, group_by: [k]}, cxl: "emit known = $window.count()"}
  - {type: combine, name: j, input: {d: t, b: c}, config: {where: d.k == b.k and d.v > b.v, cxl: emit k = d.k}}
  - {type: merge, name: m, inputs: [o, c]}
  - {type: aggregate, name: g, input: m, config: {group_by: [k], cxl: "emit n = sum(v + 1) + 1"}}
  - {type: route, name: r, input: g, config: {conditions: {low: n < 3}, default: high}}
  - {type: output, name: x, input: r.low, config: {name: x, type: csv, path: out/x.csv}}
  - {type: output, name: y, input: r.high, config: {name: y, type: csv, path: out/y.csv}}
  - {type: output, name: u, input: l, config: {name: u, type: csv, path: out/u.csv}}
  - type: output
    name: z
    input: j
    config:
      name: z
      type: csv
      path: out/z.csv
      validations:
        - unique: k
        - row_count: {min: 1}
        - distinct_count: {column: k, min: 1}
        - references: {columns: k, source: c}
"""


def pipelines() -> Iterator[str]:
    """The pipeline above, and of types that it does not have their cases."""
    yield PIPELINE
    known = {node["type"] for node in yaml.load(PIPELINE, yaml.CSafeLoader)["nodes"]}
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if not known >= {node["type"] for node in case["nodes"]}:
                yield yaml.dump({"pipeline": {"name": "case"}, "nodes": case["nodes"]}, Dumper=yaml.CSafeDumper)


@pytest.fixture(scope="session")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[Plan]:
    """Plans that have every type of node."""
    folder = tmp_path_factory.mktemp("described")
    found = []
    for number, text in enumerate(pipelines()):
        path = folder / f"pipeline_{number}.yaml"
        path.write_text(text)
        found.append(planning.load(path))
    return found
