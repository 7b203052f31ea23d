"""The model of correlation, on pipelines whose outcomes were worked out by hand from the rules."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs import plan as planning
from tests.attack import generated_correlation
from tests.execute import pipelines
from tests.models import verdicts
from tests.models.correlated import Model

if TYPE_CHECKING:
    from pathlib import Path

LINES = "ord,dept,v\n1,a,5\n2,a,7\n1,b,x\n3,b,2\n2,c,9\n,c,x\n,c,1\n"


def source(name: str = "s", key: Any = "ord") -> dict[str, Any]:
    schema = {"ord": "string", "dept": "string", "v": "string"}
    config = {"type": "csv", "path": f"{name}.csv", "schema": schema, "on_unmapped": "drop"}
    return {"type": "source", "name": name, "config": config | ({"correlation_key": key} if key else {})}


def node(kind: str, name: str, given: Any, **config: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "inputs" if isinstance(given, list) else "input": given, "config": config}


def to_int(given: str = "s", name: str = "n") -> dict[str, Any]:
    return node("transform", name, given, cxl="emit n = v.to_int()")


def output(given: str, name: str = "out", **config: Any) -> dict[str, Any]:
    return node("output", name, given, type="csv", path=f"{name}.csv", **config)


def judged(folder: Path, files: dict[str, str], *nodes: dict[str, Any], **errors: Any) -> verdicts.Verdict:
    handling = {"strategy": "continue", **errors}
    text = yaml.safe_dump(
        {"pipeline": {"name": "p"}, "nodes": list(nodes), "error_handling": handling}, sort_keys=False
    )
    pipelines.write(folder, {**files, "pipeline.yaml": text})
    return verdicts.of(Model(planning.load(folder / "pipeline.yaml")))


def brief(found: verdicts.Verdict) -> list[tuple[str, str, str]]:
    return [(letter.source, letter.row, letter.category) for letter in found.letters]


def test_a_failing_line_takes_its_order_along_and_no_other(tmp_path: Path) -> None:
    found = judged(tmp_path, {"s.csv": LINES}, source(), to_int(), output("n"))
    assert [line[0] + line[2] for line in found.written["out"][1:]] == ["27", "32", "29", "1"]
    assert brief(found) == [
        ("s", "1", "correlated"), ("s", "3", "type_coercion_failure"), ("s", "6", "type_coercion_failure"),
    ]  # fmt: skip


def test_policies_look_at_all_or_at_the_first_record(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,x\n1,a,1\n2,a,1\n2,a,x\n3,a,x\n"}
    outputs = [output("n", policy, correlation_fanout_policy=policy) for policy in ("any", "all", "primary")]
    found = judged(tmp_path, files, source(), to_int(), *outputs)
    assert {name: [line[0] for line in lines[1:]] for name, lines in found.written.items()} == {
        "any": [],
        "all": ["1", "2"],
        "primary": ["2"],
    }
    assert len(found.letters) == 5


def test_a_failure_is_its_sources_and_too_many_are_everybodys(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,1\n2,a,2\n", "t.csv": "ord,dept,v\n1,a,x\n1,a,3\n2,a,4\n2,a,5\n"}
    nodes = (source(), source("t"), node("merge", "m", ["s", "t"]), to_int("m"), output("n"))
    found = judged(tmp_path, files, *nodes)
    assert [line[2] for line in found.written["out"][1:]] == ["1", "2", "4", "5"]
    limited = judged(tmp_path, files, *nodes, max_group_buffer=2)
    assert [line[2] for line in limited.written["out"][1:]] == []
    assert brief(limited) == [
        ("s", "1", "group_size_exceeded"), ("s", "2", "group_size_exceeded"), ("t", "1", "type_coercion_failure"),
        ("t", "2", "correlated"), ("t", "3", "correlated"), ("t", "4", "correlated"),
    ]  # fmt: skip


def test_a_strict_row_is_rejected_and_a_mixed_one_computed_without_the_failing_record(tmp_path: Path) -> None:
    by_order = node("aggregate", "orders", "n", group_by=["ord"], cxl="emit total = sum(n)")
    by_dept = node("aggregate", "depts", "n", group_by=["dept"], cxl="emit total = sum(n)")
    found = judged(
        tmp_path, {"s.csv": LINES}, source(), to_int(), by_order, by_dept, output("orders"), output("depts", "other")
    )
    assert found.written["out"][1:] == [["2", "16"], ["3", "2"], ["", "1"]]
    assert found.written["other"][1:] == [["a", "12"], ["b", "2"], ["c", "10"]]
    assert ("<merged>", "1", "correlated") in brief(found)


def test_a_failure_behind_a_mixed_row_takes_its_records_out_of_everything(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,5\n2,a,7\n1,b,4\n3,b,2\n"}
    depts = node("aggregate", "depts", "n", group_by=["dept"], cxl="emit total = sum(n)")
    every = node("aggregate", "all", "n", group_by=[], cxl="emit total = sum(n)")
    check = node("transform", "check", "depts", cxl="emit ok = 1 / (total - 12)")
    found = judged(
        tmp_path,
        files,
        source(),
        to_int(),
        depts,
        every,
        check,
        output("check"),
        output("all", "sum"),
        output("n", "rows"),
    )
    assert found.written["out"][1:] == [["b", "6", "0"]]
    assert found.written["sum"][1:] == [["6"]]
    assert [line[2] for line in found.written["rows"][1:]] == ["4", "2"]
    assert brief(found) == [("<merged>", "1", "type_coercion_failure")]


def test_what_is_computed_again_may_fail_in_its_turn(tmp_path: Path) -> None:
    """Department a fails; without its records order 2 has too little; without order 2's department b has."""
    files = {"s.csv": "ord,dept,v\n1,a,30\n2,a,9\n2,b,3\n3,b,9\n4,c,50\n"}
    depts = node("aggregate", "depts", "n", group_by=["dept"], cxl="emit total = sum(n)")
    orders = node("aggregate", "by_v", "n", group_by=["ord", "dept"], cxl="emit total = sum(n)")
    regroup = node("aggregate", "orders", "by_v", group_by=[], cxl="emit total = sum(total)")
    check = node("transform", "check", "depts", cxl="emit ok = if total == 39 or total == 12 then 1 / 0 else 1")
    second = node("transform", "second", "orders", cxl="emit ok = if total < 60 then 1 / 0 else 1")
    found = judged(
        tmp_path,
        files,
        source(),
        to_int(),
        depts,
        orders,
        regroup,
        check,
        second,
        output("check"),
        output("second", "all"),
    )
    assert found.written["out"][1:] == []
    # All records are taken back from the aggregate without `group_by`; its row of no records is good.
    assert found.written["all"][1:] == [["", "1"]]
    assert {letter.stage for letter in found.letters} == {"transform:check", "transform:second"}


def test_combined_rows_are_of_the_groups_that_are_carried(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,5\n2,b,7\n", "t.csv": "ord,dept,v\n8,a,1\n8,c,x\n9,b,2\n"}

    def written(propagate: Any) -> list[str]:
        joined = node(
            "combine", "c", {"d": "s", "b": "n"}, where="d.dept == b.dept", on_miss="skip", propagate_ck=propagate,
            cxl="emit v = d.v\nemit n = b.n",
        )  # fmt: skip
        found = judged(tmp_path, files, source(), source("t"), to_int("t"), joined, output("c"))
        return [line[0] for line in found.written["out"][1:]]

    assert written("driver") == ["5", "7"]
    assert written("all") == ["7"]


def test_all_records_of_all_sources_of_a_row_have_to_fail(tmp_path: Path) -> None:
    """The group of t has failed wholly; the rows of the combine are of that of s too, which has not."""
    files = {"s.csv": "ord,dept,v\n1,a,1\n", "t.csv": "ord,dept,v\n1,a,x\n"}
    joined = node("combine", "c", {"d": "n", "b": "n"}, where="d.dept == b.dept", cxl="emit v = d.v")
    both = (source(), source("t"), node("merge", "m", ["s", "t"]), to_int("m"), joined)
    outputs = [output("c", policy, correlation_fanout_policy=policy) for policy in ("any", "all", "primary")]
    found = judged(tmp_path, files, *both, *outputs)
    assert {name: lines[1:] for name, lines in found.written.items()} == {"any": [], "all": [["1"]], "primary": []}


def test_a_row_whose_key_is_empty_is_of_no_other_group(tmp_path: Path) -> None:
    """Order 1 is joined to the line without an order, whose total shows no key; another such line fails."""
    files = {"s.csv": "ord,dept,v\n,a,5\n,b,x\n1,c,3\n", "t.csv": "ord,dept,v\n1,a,1\n"}
    joined = node("combine", "c", {"d": "n", "b": "t"}, where="d.dept == b.dept", propagate_ck="all",
                  cxl="emit ord = d.ord\nemit n = d.n")  # fmt: skip
    by_order = node("aggregate", "totals", "c", group_by=["ord"], cxl="emit total = sum(n)")
    found = judged(tmp_path, files, source(), source("t"), to_int(), joined, by_order, output("totals"))
    assert found.written["out"][1:] == [["", "5"], ["1", "3"]]


def test_a_failing_row_rejects_no_group_of_what_was_joined_to_it(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,5\n", "t.csv": "ord,dept,v\n8,a,1\n8,b,2\n"}
    depts = node("aggregate", "depts", "n", group_by=["dept"], cxl="emit total = sum(n)")
    joined = node("combine", "c", {"d": "depts", "b": "t"}, where="d.dept == b.dept", propagate_ck="all",
                  cxl="emit total = d.total")  # fmt: skip
    check = node("transform", "check", "c", cxl="emit ok = 1 / (total - 5)")
    found = judged(tmp_path, files, source(), source("t"), to_int(), depts, joined, check, output("check"),
                   output("t", "kept"))  # fmt: skip
    assert [line[2] for line in found.written["kept"][1:]] == ["1", "2"]
    assert brief(found) == [("<merged>", "1", "type_coercion_failure")]


def test_a_group_that_is_made_again_of_other_records_fails_anew(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,q,1\n2,p,1\n3,p,2\n4,r,9\n"}
    once = node("transform", "once", "n", cxl="distinct by n")
    depts = node("aggregate", "depts", "once", group_by=["dept"], cxl="emit total = sum(n)")
    check = node("transform", "check", "depts", cxl="emit ok = if total < 5 then 1 / 0 else 1")
    found = judged(tmp_path, files, source(), to_int(), once, depts, check, output("check"))
    assert [line[0] for line in found.written["out"][1:]] == ["r"]
    assert [letter.row for letter in found.letters] == ["1", "2", "3"]


def test_a_strict_row_of_records_that_were_taken_back_is_none(tmp_path: Path) -> None:
    files = {"s.csv": "ord,dept,v\n1,a,1\n1,b,50\n"}
    orders = node("aggregate", "orders", "n", group_by=["ord", "dept"], cxl="emit total = sum(n)")
    depts = node("aggregate", "depts", "n", group_by=["dept"], cxl="emit total = sum(n)")
    checks = [
        node("transform", name, given, cxl="emit ok = if total < 5 then 1 / 0 else 1")
        for name, given in (("first", "orders"), ("second", "depts"))
    ]
    found = judged(tmp_path, files, source(), to_int(), orders, depts, *checks, output("first"), output("second", "o"))
    assert [line[-2] for line in found.written["out"][1:]] == ["50"]
    assert [letter.stage for letter in found.letters] == ["transform:second"]


def test_a_build_row_is_refused_with_each_row_that_is_made_of_a_group(tmp_path: Path) -> None:
    """The count of all lines takes them back; that of none is another row."""
    files = {"s.csv": "ord,dept,v\n1,a,5\n2,a,5\n", "t.csv": "ord,dept,v\n9,a,0\n"}
    every = node("aggregate", "all", "s", group_by=[], cxl="emit total = count(*)")
    met = node("combine", "c", {"d": "all", "b": "n"}, where="d.total >= b.n", cxl="emit r = 1 / b.n")
    found = judged(tmp_path, files, source(), source("t", None), to_int("t"), every, met, output("c"))
    assert brief(found) == [(given, row, "combine_output_row") for given, row in
                            (("<merged>", ""), ("<merged>", "1"), ("t", "1"), ("t", "1"))]  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_a_record_that_failed_is_written_nowhere(seed: int, tmp_path: Path) -> None:
    nodes, files = generated_correlation.pipeline(random.Random(seed))
    pipelines.write(tmp_path, {**files, "pipeline.yaml": yaml.safe_dump(nodes, sort_keys=False)})
    model = Model(planning.load(tmp_path / "pipeline.yaml"))
    found = verdicts.of(model)
    if model.is_correlated:
        gone = set(model.records) | model.retracted
        assert not [record for record in gone if "written" in found.fates[record]]
