"""Mutated pipeline files and all that they name: planning ends in a plan or in diagnostics, and soon."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from spark_jobs import plan
from spark_jobs.diagnostics import render
from spark_jobs.plan import pending
from spark_jobs.plan.explain import explain
from tests.attack import rounds
from tests.plan import test_fuzz as mutations
from tests.plan.pipelines import options

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

#: Seconds of the processor for a file of some kilobytes; the slowest need a tenth of it.
_LIMIT_S = 5.0
#: A pipeline with a composition, a module and a workspace file, any of which may be mutated.
_FILES = {
    "pipeline.yaml": b"""\
pipeline: {name: p, vars: {limit: {type: int, default: 5}}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, pad: string}}}
  - {type: composition, name: c, input: s, use: body.comp.yaml, config: {word: x}}
  - type: transform
    name: t
    input: c
    config:
      cxl: |
        use words as w
        emit long = w::doubled(id) > $vars.limit
  - {type: aggregate, name: g, input: t, config: {group_by: [long], cxl: "emit n = count(*)"}}
  - {type: output, name: o, input: g, config: {type: csv, path: out/o.csv}}
""",
    "body.comp.yaml": b"""\
_compose:
  name: body
  inputs: {rec: {schema: [{name: id, type: int}, {name: pad, type: string}]}}
  outputs: {out: marked}
  config_schema: {word: {type: string, default: a}}
nodes:
  - {type: transform, name: marked, input: rec, config: {cxl: "emit mark = '{{ word }}' + pad"}}
""",
    "rules/words.cxl": b"let two = 2\nfn doubled(n) = n * two\n",
    "clinker.toml": b"[storage.spill]\ndisk_cap_bytes = 1000000\n",
    "in.csv": b"id,pad\n1,a\n",
}


def one(chance: random.Random, folder: Path) -> str:
    """Mutate a file and plan; gives what became of it."""
    if chance.random() < 0.5:
        seed = mutations.yaml_of(chance.choice(mutations.SEEDS))
        (folder / "pipeline.yaml").write_bytes(mutations.mutate(chance, seed))
    else:
        spoilt = chance.choice(sorted(_FILES))
        for name, content in _FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(mutations.mutate(chance, content) if name == spoilt else content)
    began = time.process_time()
    items = plan.validate(folder / "pipeline.yaml", options=options())
    for item in items:
        assert str(item)
    assert not items or render.full(items)
    is_refused = any(item.is_error for item in items)
    if not is_refused:
        read = plan.load(folder / "pipeline.yaml", options())
        assert explain.text(read)
        assert explain.as_json(read)
        assert explain.dot(read)
        pending.pending(read)
    took = time.process_time() - began
    assert took < _LIMIT_S, f"{took:.1f} s"
    return "refused" if is_refused else "planned"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("pipelines", "mutated pipelines, compositions, modules and workspaces", 2000, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
