"""State nodes: generated chains of them against the plain model, whatever the splits and partitions."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
import yaml

from spark_jobs import plan as planning
from spark_jobs.plan.physical import physical
from tests.execute import pipelines, without_spark
from tests.nodes import state_model
from tests.nodes.state_model import Formula, Node, Record, Run, Total

SCHEMA = {"id": "int", "v": "int", "d": "int"}


def drawn_records(draw: random.Random) -> list[Record]:
    """Records of some files, in the order that they are read in."""
    records: list[Record] = []
    for file in range(draw.randint(1, 3)):
        for _ in range(draw.choice([0, 1, 2, 5, 9])):
            v = draw.choice([None, -4, 0, 3, 8])
            records.append(Record(f"{file}.csv", len(records) + 1, v, draw.choice([0, 1, 2, 7])))
    return records


def drawn_nodes(draw: random.Random) -> list[Node]:
    """A chain in which nobody reads what is set further down alone."""
    while True:
        nodes = [drawn_node(draw) for _ in range(draw.randint(1, 3))]
        reads = [
            set().union(*(each.reads() for _, each in node.assignments if isinstance(each, Formula))) for node in nodes
        ]
        if all(found.issubset(state_model.known_at(nodes, number)) for number, found in enumerate(reads)):
            return nodes


def drawn_node(draw: random.Random) -> Node:
    scope = draw.choice(state_model.SCOPES)
    choices: list[Formula | Total] = [*state_model.formulas(scope)]
    if scope != "record":
        choices += state_model.TOTALS
    drawn = [draw.choice(choices) for _ in range(draw.randint(1, 3))]
    # Most programs that look back are about the variable that they set.
    return Node(scope, tuple((each.about if draw.random() < 0.7 else draw.choice("xy"), each) for each in drawn))


def pipeline(nodes: list[Node]) -> dict[str, object]:
    """A chain: after each state node all variables are read, and the records go on as they are."""
    kinds = {"x": {"type": "int", "default": 5}, "y": {"type": "int"}}
    chain: list[dict[str, object]] = [
        {"type": "source", "name": "s", "config": {"type": "csv", "glob": "in/*.csv", "schema": SCHEMA}}
    ]
    above = "s"
    for number, node in enumerate(nodes):
        variables = state_model.known_at(nodes, number)
        read = "\n".join(f"emit {scope}_{name} = ${scope}.{name}" for scope, name in variables)
        config = state_model.configuration(node)
        chain.append({"type": "state", "name": f"n{number}", "input": above, "config": config})
        chain.append({"type": "transform", "name": f"t{number}", "input": f"n{number}", "config": {"cxl": read}})
        output = {"type": "csv", "path": f"out/{number}.csv"}
        chain.append({"type": "output", "name": f"o{number}", "input": f"t{number}", "config": output})
        above = f"n{number}"
    declared = dict.fromkeys(state_model.SCOPES, kinds)
    errors = {"strategy": "continue", "dlq": {"path": "out/dead.csv", "include_source_row": False}}
    return {"pipeline": {"name": "p", "vars": declared}, "nodes": chain, "error_handling": errors}


def text(value: object) -> str:
    return "" if value is None else str(value)


def expected(nodes: list[Node], records: list[Record]) -> tuple[dict[str, list[str]], int]:
    """The lines of each output, and how many records are dead."""
    run, found, total = Run(), {}, 0
    for number, node in enumerate(nodes):
        records, dead = run.over(node, records)
        total += len(dead)
        rows = [(each.id, each.v, each.d, *run.read(each, state_model.known_at(nodes, number))) for each in records]
        found[f"{number}.csv"] = [",".join(map(text, row)) for row in rows]
    return found, total


def files(records: list[Record]) -> dict[str, str]:
    found = {f"in/{number}.csv": "id,v,d\n" for number in range(3)}
    for each in records:
        found[f"in/{each.file}"] += f"{each.id},{text(each.v)},{each.d}\n"
    return found


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_state_nodes_give_what_the_model_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    compare(drawn_records(draw), drawn_nodes(draw), monkeypatch)


def named(text: str) -> Formula:
    return next(each for each in state_model.formulas("pipeline") if each.text == text)


@pytest.mark.parametrize(
    "node",
    [
        Node(
            "pipeline",
            (("x", named("if $pipeline.y == 3 then $pipeline.x + 1 else $pipeline.x")), ("y", named("v"))),
        ),
        Node("pipeline", (("x", named("$pipeline.x + (id - 4) * 1500000000000000000")),)),
        Node("pipeline", (("x", named("$pipeline.x + v")), ("y", named("v + ($pipeline.y ?? 3)")))),
    ],
    ids=["a counter asks for what an earlier record has set", "a sum leaves 64 bits", "a null begins a sum anew"],
)
def test_what_folds_cannot_tell_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(f"{n // 9}.csv", n + 1, [3, -4, None, 8, 3][n % 5 if n < 12 else 0], n % 3) for n in range(20)]
    compare(records, [node], monkeypatch)


@pytest.mark.parametrize("cxl", ["$pipeline.n + 1", "if id > 2 then ($pipeline.n ?? 0) + 1 else $pipeline.n"])
def test_a_counter_that_leaves_64_bits_fails_its_record(
    cxl: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "4")
    first = 0 if cxl.startswith("$") else 2
    text = COUNTING.replace("CXL", cxl).replace("DEFAULT", str(2**63 - 1 - 3))
    pipelines.write(tmp_path, {"pipeline.yaml": text, "s.csv": "id\n" + "".join(f"{n + 1}\n" for n in range(8))})
    result = pipelines.run(tmp_path).result
    assert result.exit_code == 2, result.error
    found = pipelines.outputs(tmp_path)
    counted = [f"{n + 1},{2**63 - 1}" for n in range(first + 3)]
    assert found["o.csv"].decode().splitlines()[1:] == counted
    letters = found["dead.csv"].decode().splitlines()[1:]
    assert len(letters) == 8 - len(counted)
    for row, letter in enumerate(letters, start=len(counted) + 1):
        assert f"row {row}: field 'pipeline.n': integer overflow in addition operation,state:n," in letter


COUNTING = """
    pipeline: {name: p, vars: {pipeline: {n: {type: int, default: DEFAULT}}}}
    nodes:
      - {type: source, name: s, config: {type: csv, path: s.csv, schema: {id: int}}}
      - {type: state, name: n, input: s, config: {scope: pipeline, set: [{var: n, cxl: CXL}]}}
      - {type: transform, name: t, input: n, config: {cxl: "emit n = $pipeline.n"}}
      - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv, include_source_row: false}}
"""


def compare(records: list[Record], nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that a pipeline writes are those of the model, and so is the number of dead letters."""
    wanted, dead = expected(nodes, records)
    without_spark.install(monkeypatch)
    for size in (10**9, 24, 7):
        pipelines.cut_by(monkeypatch, size)
        folder = Path(tempfile.mkdtemp(prefix="clinker-state-"))
        try:
            document = yaml.safe_dump(pipeline(nodes), sort_keys=False)
            pipelines.write(folder, {**files(records), "pipeline.yaml": document})
            result = pipelines.run(folder).result
            assert result.exit_code == (2 if dead else 0), (result.error, document)
            for name, lines in wanted.items():
                assert (folder / "out" / name).read_text().splitlines()[1:] == lines, (size, document)
            letters = (folder / "out" / "dead.csv").read_text().splitlines() if dead else [""]
            assert len(letters) - 1 == dead
        finally:
            shutil.rmtree(folder)


OVERRIDDEN = """
    pipeline:
      name: p
      vars:
        pipeline: {n: {type: int, default: 0}}
        source: {tag: {type: string, default: none}}
        record: {m: {type: int, default: 3}}
    nodes:
      - {type: source, name: s, config: {type: csv, path: s.csv, schema: {id: int}}}
      - {type: source, name: r, config: {type: csv, path: r.csv, schema: {id: int}}}
      - {type: state, name: n, input: s, config: {scope: pipeline, set: [{var: n, cxl: $pipeline.n + 1}]}}
      - type: state
        name: a
        input: n
        config: {scope: source, set: [{var: tag, cxl: 'if id > 9 then "x" else $source.tag'}]}
      - type: state
        name: b
        input: r
        config: {scope: source, set: [{var: tag, cxl: 'if id > 9 then "x" else $source.tag'}]}
      - {type: merge, name: m, inputs: [a, b]}
      - type: transform
        name: t
        input: m
        config: {cxl: "emit a = $source.a.tag\\nemit b = $source.b.tag\\nemit n = $pipeline.n\\nemit m = $record.m"}
      - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
CHANNEL = """
    channel: {name: c, target: pipeline.yaml}
    vars:
      pipeline: {n: {type: int, default: 100}}
      source: {s: {tag: {type: string, default: of_s}}}
      record: {m: {type: int, default: 33}}
"""


def test_a_channel_overrides_what_variables_begin_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    inputs = {"s.csv": "id\n1\n2\n", "r.csv": "id\n12\n"}
    pipelines.write(tmp_path, {**inputs, "pipeline.yaml": OVERRIDDEN, "c.channel.yaml": CHANNEL})
    result = pipelines.run(tmp_path, channel=str(tmp_path / "c.channel.yaml")).result
    assert result.exit_code == 0, result.error
    assert pipelines.outputs(tmp_path)["o.csv"].decode().splitlines() == [
        "id,a,b,n,m", "1,of_s,x,102,33", "2,of_s,x,102,33", "12,of_s,x,102,33",
    ]  # fmt: skip


def test_what_is_kept_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later jobs begin with what the state node gave: only the first reads the source."""
    document = {"pipeline.yaml": yaml.safe_dump(pipeline([SETTER, SETTER]), sort_keys=False)}
    pipelines.write(tmp_path, {**document, "in/0.csv": "id,v,d\n"})
    jobs = physical.jobs(planning.load(tmp_path / "pipeline.yaml"))
    assert [job.sources for job in jobs] == [("s",), ()]
    assert [[op.id for op in job.readers] for job in jobs] == [[], ["n0", "n1"]]


SETTER = Node("pipeline", (("x", state_model.TOTALS[0]),))
