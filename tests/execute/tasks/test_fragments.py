"""The physical plan: which operators run together, at which stage, in which job, and what runs twice in silence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.execute.run import partitions
from spark_jobs.formats import splits
from spark_jobs.nodes.terms.shape import Role
from spark_jobs.plan.options import PlanOptions
from spark_jobs.plan.physical import fragments, physical
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.physical.fragments import Job
    from spark_jobs.plan.plan import Plan

SOURCE = (
    "{{type: source, name: {0}, config: {{name: {0}, type: csv, path: {0}.csv, schema: {{id: int, key: string}}}}}}"
)
OUTPUT = "{{type: output, name: {0}, input: {1}, config: {{name: {0}, type: csv, path: out/{0}.csv}}}}"
GROUPS = "{{type: aggregate, name: {0}, input: {1}, config: {{group_by: [{2}], cxl: emit n = count(*)}}}}"
LATEST = "{{type: aggregate, name: {0}, input: {1}, config: {{group_by: [id], cxl: emit key = last(key)}}}}"
ROUTE = "{{type: route, name: {0}, input: {1}, config: {{conditions: {{low: id < 3}}, default: high}}}}"
MERGE = "{{type: merge, name: {0}, inputs: [{1}, {2}], config: {{}}}}"
IN_TURN = "{{type: merge, name: {0}, inputs: [{1}, {2}], config: {{mode: interleave}}}}"
COMBINE = (
    "{{type: combine, name: {0}, input: {{d: {1}, b: {2}}}, "
    'config: {{where: d.key == b.key, cxl: "emit id = d.id\\nemit key = d.key", propagate_ck: driver}}}}'
)

SHAPES = {
    "narrow": [SOURCE.format("a"), ROUTE.format("r", "a"), OUTPUT.format("x", "r.low"), OUTPUT.format("y", "r.high")],
    "groups": [SOURCE.format("a"), GROUPS.format("g", "a", "key"), OUTPUT.format("x", "g"), OUTPUT.format("y", "a")],
    "groups of groups": [
        SOURCE.format("a"),
        GROUPS.format("g", "a", "key"),
        GROUPS.format("h", "g", "n"),
        OUTPUT.format("x", "h"),
    ],
    "groups beside records": [
        SOURCE.format("a"),
        SOURCE.format("b"),
        LATEST.format("g", "a"),
        MERGE.format("m", "b", "g"),
        GROUPS.format("h", "m", "key"),
        OUTPUT.format("x", "h"),
    ],
    "a lookup": [SOURCE.format("a"), SOURCE.format("b"), COMBINE.format("c", "a", "b"), OUTPUT.format("x", "c")],
    "a lookup in itself": [SOURCE.format("a"), COMBINE.format("c", "a", "a"), OUTPUT.format("x", "c")],
    "a lookup in its groups": [
        SOURCE.format("a"),
        GROUPS.format("g", "a", "key"),
        COMBINE.format("c", "a", "g"),
        OUTPUT.format("x", "c"),
        OUTPUT.format("y", "g"),
    ],
    "in turn": [
        SOURCE.format("a"),
        SOURCE.format("b"),
        IN_TURN.format("m", "a", "b"),
        MERGE.format("n", "b", "m"),
        OUTPUT.format("x", "n"),
        OUTPUT.format("y", "a"),
    ],
    "groups in turn, looked up": [
        SOURCE.format("a"),
        SOURCE.format("b"),
        LATEST.format("g", "a"),
        IN_TURN.format("m", "g", "a"),
        IN_TURN.format("n", "m", "m"),
        COMBINE.format("c", "n", "m"),
        GROUPS.format("h", "c", "key"),
        OUTPUT.format("x", "h"),
        OUTPUT.format("y", "m"),
    ],
    "lookups in lookups": [
        SOURCE.format("a"),
        SOURCE.format("b"),
        COMBINE.format("c", "a", "b"),
        COMBINE.format("e", "b", "c"),
        OUTPUT.format("x", "e"),
        OUTPUT.format("y", "c"),
    ],
}


def planned(folder: Path, nodes: list[str]) -> Plan:
    text = "pipeline: {name: shape}\nnodes:\n" + "".join(f"  - {line}\n" for line in nodes)
    (folder / "pipeline.yaml").write_text(text)
    return planning.load(folder / "pipeline.yaml", PlanOptions(variables={}))


def jobs(folder: Path, shape: str, partitions: int = 3, of_combines: int = 1) -> tuple[Job, ...]:
    plan = planned(folder, SHAPES[shape])
    return fragments.jobs(plan, lambda name: of_combines if plan.by_name[name].kind == "combine" else partitions)


def reached(job: Job, roots: tuple[str, ...] | list[str]) -> set[str]:
    """The operators of a fragment."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [target.op for target in job.ops[name].targets]
    return found


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_record_finds_its_way(shape: str, partitions: int, tmp_path: Path) -> None:
    plan = planned(tmp_path, SHAPES[shape])
    counted: list[str] = []
    written: set[str] = set()
    for job in fragments.jobs(plan, lambda name: partitions):
        rooted = {0: reached(job, [*job.sources, *(op.id for op in job.readers)])}
        assert {str(rows) for op in job.readers for rows in op.reads} <= written, "what is read is not there"
        for stage in range(1, job.stages):
            rooted[stage] = reached(job, [exchange.consumer for exchange in job.at(stage)])
        assert set().union(*rooted.values()) == set(job.ops), "operators that no root reaches"
        for stage, ops in rooted.items():
            for name in ops:
                op = job.ops[name]
                if op.exchange is not None:
                    assert job.exchanges[op.exchange].stage > stage, f"{name} sends to a stage that has begun"
                assert all(target.op in job.ops for target in op.targets)
        assert [exchange.id for exchange in job.exchanges] == list(range(len(job.exchanges)))
        assert {job.ops[exchange.consumer].role for exchange in job.exchanges} <= {
            Role.FINAL,
            Role.ORDERED,
        }
        for op in job.ops.values():
            if op.role is Role.BUILD:
                written.add(op.id)
            elif not op.silent and op.first:
                counted.append(op.step.name)
            if op.step.kind == "combine" and op.role is Role.WHOLE:
                assert {f"{op.id}#build:b"} <= written, "a build side is read before it is written"
    assert sorted(counted) == sorted(node.name for node in plan.nodes), "each node is counted once"


def test_a_large_build_side_meets_its_driver_in_partitions(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "a lookup", of_combines=3)
    assert {op.id: op.partitions for op in first.ops.values()} == {"b": 1, "c#build:b": 3}
    roles = {op.id: str(op.role) for op in second.ops.values()}
    assert roles == {"a": "", "c": "partial", "c#final": "final", "c#ordered": "ordered", "x": ""}
    assert [(str(e.kind), e.stage, e.consumer) for e in second.exchanges] == [
        ("hash", 1, "c#final"), ("range", 2, "c#ordered")
    ]  # fmt: skip


def test_a_narrow_pipeline_is_one_fragment(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "narrow")
    assert (job.stages, job.exchanges, job.sources) == (1, (), ("a",))
    assert [(t.port, t.op) for t in job.ops["r"].targets] == [("low", "x"), ("high", "y")]


def test_groups_are_hashed_and_then_ordered(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "groups")
    assert [(e.kind.value, e.stage, e.partitions, e.consumer) for e in job.exchanges] == [
        ("hash", 1, 3, "g#final"),
        ("range", 2, 3, "g#ordered"),
    ]
    assert (job.stages, job.slots(1), job.slots(2)) == (3, 3, 3)
    assert [target.op for target in job.ops["g#ordered"].targets] == ["x"]
    assert [target.op for target in job.ops["a"].targets] == ["g", "y"]


def test_groups_in_a_single_partition_are_in_order_already(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "groups", partitions=1)
    assert [(e.kind.value, e.consumer) for e in job.exchanges] == [("hash", "g#final")]
    assert [target.op for target in job.ops["g#final"].targets] == ["x"]


def test_groups_of_groups_are_stages_of_one_job(tmp_path: Path) -> None:
    (job,) = jobs(tmp_path, "groups of groups")
    assert [exchange.stage for exchange in job.exchanges] == [1, 2, 3, 4]


def test_what_meets_groups_waits_for_their_stage(tmp_path: Path) -> None:
    """Records of `b` are read at stage 0 and `g` is put in order at stage 2: `h` groups both, at stage 3."""
    (job,) = jobs(tmp_path, "groups beside records")
    stages = {exchange.consumer: exchange.stage for exchange in job.exchanges}
    assert stages == {"g#final": 1, "g#ordered": 2, "h#final": 3, "h#ordered": 4}
    assert job.ops["m"].merge_paths == ((0,), (1,))
    assert job.ops["h"].merge_paths == ((0,), (1,))
    assert job.ops["h#final"].incoming_paths == ((0,), (1,))
    assert job.ops["h#final"].merge_paths == ((),), "an exchange joins merge paths into one"


def test_a_build_side_is_an_earlier_job(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "a lookup")
    assert (first.sources, set(first.ops)) == (("b",), {"b", "c#build:b"})
    assert (second.sources, set(second.ops)) == (("a",), {"a", "c", "x"})


def test_a_source_that_is_read_again_is_silent(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "a lookup in itself")
    assert not first.ops["a"].silent
    assert second.ops["a"].silent
    assert not second.ops["c"].silent


def test_outputs_of_one_source_are_written_in_one_pass(tmp_path: Path) -> None:
    """`y` could be written with the build side; then the source would be read once more for it."""
    first, second = jobs(tmp_path, "a lookup in its groups")
    assert "y" not in first.ops
    assert {"x", "y", "c"} < set(second.ops)
    assert second.ops["g"].silent


def test_what_is_taken_in_turn_is_a_root_of_the_next_job(tmp_path: Path) -> None:
    first, second = jobs(tmp_path, "in turn")
    assert set(first.ops) == {"a", "b", "m#build:0", "m#build:1", "y"}
    assert {op.id: [str(rows) for rows in op.reads] for op in second.readers} == {"m": ["m#build:0", "m#build:1"]}
    assert (second.sources, second.ops["b"].silent) == (("b",), True)
    assert second.ops["x"].merge_paths == ((0,), (1,))


def test_what_goes_on_in_a_later_job_is_shown(tmp_path: Path) -> None:
    lines = physical.lines(planned(tmp_path, SHAPES["in turn"]))
    assert "  Fragment a (a task per split): a → m.0 [input, kept for the next job] → y" in lines
    assert "  Fragment m (a task per range): m → n → x" in lines


def test_lookups_in_lookups_are_jobs_in_a_row(tmp_path: Path) -> None:
    found = jobs(tmp_path, "lookups in lookups")
    assert [job.number for job in found] == [0, 1, 2]
    assert [sorted(name for name in job.ops if "#build" in name) for job in found] == [
        ["c#build:b"],
        ["e#build:b"],
        [],
    ]


@pytest.mark.parametrize(
    "split_bytes",
    [pytest.param(10**9, id="one split"), pytest.param(40, id="many splits", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_runs_and_counts_once(
    shape: str, split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are read twice are counted once, and the files do not depend on the splits."""
    without_spark.install(monkeypatch)
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, str(split_bytes))
    planned(tmp_path, SHAPES[shape])
    data = "id,key\n" + "".join(f"{i},k{i % 4}\n" for i in range(40))
    pipelines.write(tmp_path, {"a.csv": data, "b.csv": data})
    published = []
    for size in (split_bytes, 10**9):
        monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(size))
        outcome = pipelines.run(tmp_path, force=True)
        assert outcome.result.exit_code == 0, outcome.result.error
        published.append(pipelines.outputs(tmp_path))
        read = {name: node["records_in"] for name, node in outcome.nodes.items() if node["kind"] == "source"}
        assert set(read.values()) == {40}, json.dumps(read)
    assert published[0] == published[1]
    assert all(len(text.splitlines()) > 1 for text in published[0].values())
