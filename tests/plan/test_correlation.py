"""Correlation in plans: keys of every node, strict and retractable aggregates, nodes downstream of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from spark_jobs import plan as planning
from spark_jobs.plan import correlation
from spark_jobs.plan.correlation import DeferredRegion, Grouping

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan


def source(name: str, key: Any = None, **more: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"type": "csv", "path": f"{name}.csv", **more}
    config["schema"] = [{"name": "id", "type": "string"}, {"name": "reg", "type": "string"}]
    config["schema"] += [{"name": "v", "type": "int"}, {"name": "at", "type": "date_time"}]
    if key is not None:
        config["correlation_key"] = key
    return {"type": "source", "name": name, "config": config}


def node(kind: str, name: str, given: Any, **config: Any) -> dict[str, Any]:
    where = "inputs" if isinstance(given, list) else "input"
    return {"type": kind, "name": name, where: given, "config": config}


def total(name: str, given: str, group_by: list[str], **config: Any) -> dict[str, Any]:
    return node("aggregate", name, given, group_by=group_by, cxl="emit total = sum(v)", **config)


def combine(name: str, given: dict[str, str], **config: Any) -> dict[str, Any]:
    driver, build = given
    body = f"emit id = {driver}.id\nemit reg = {driver}.reg\nemit v = {driver}.v"
    return node("combine", name, given, where=f"{driver}.reg == {build}.reg", cxl=body, **config)


def output(given: str, name: str = "out", **config: Any) -> dict[str, Any]:
    return node("output", name, given, type="csv", path=f"{name}.csv", **config)


def planned(folder: Path, *nodes: dict[str, Any], **errors: Any) -> Plan:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"pipeline": {"name": "p"}, "nodes": list(nodes), "error_handling": errors}))
    return planning.load(path)


def keys(folder: Path, *nodes: dict[str, Any], **errors: Any) -> correlation.Correlation:
    return correlation.of(planned(folder, *nodes, **errors))


def test_without_keys_nothing_is_correlated(tmp_path: Path) -> None:
    found = keys(tmp_path, source("a"), total("sums", "a", ["reg"]), output("sums"))
    assert not found.is_active
    assert (found.fields, found.regions) == ((), ())
    assert not any(each.is_correlated or each.grouping for each in found.nodes.values())


def test_keys_travel_to_the_outputs_beside_what_transforms_make_of_the_fields(tmp_path: Path) -> None:
    masked = node("transform", "masked", "a", cxl='emit id = "-"')
    found = keys(tmp_path, source("a", ["id", "reg"]), masked, output("masked"))
    assert found.sources == {"a": ("id", "reg")}
    assert {name: each.fields for name, each in found.nodes.items()} == dict.fromkeys(
        ("a", "masked", "out"), ("id", "reg")
    )


def test_an_aggregate_by_all_key_fields_is_strict(tmp_path: Path) -> None:
    found = keys(tmp_path, source("a", "id"), total("sums", "a", ["reg", "id"]), output("sums"))
    sums = found.nodes["sums"]
    assert (sums.grouping, sums.fields, sums.aggregates, sums.left_out) == (Grouping.STRICT, ("id",), (), ())
    assert found.regions == ()


def test_an_aggregate_that_leaves_a_key_field_out_takes_records_back(tmp_path: Path) -> None:
    check = node("transform", "check", "sums", cxl="emit ok = 1 / total")
    found = keys(
        tmp_path, source("a", ["id", "reg"]), total("sums", "a", ["reg"]), check, output("check"), output("a", "rows")
    )
    sums = found.nodes["sums"]
    assert (sums.grouping, sums.fields, sums.aggregates, sums.left_out) == (
        Grouping.RELAXED,
        ("reg",),
        ("sums",),
        ("id",),
    )
    assert found.nodes["check"].columns == ("$ck.reg", "$ck.aggregate.sums")
    assert {name: each.retractable_upstream for name, each in found.nodes.items() if each.retractable_upstream} == {
        "check": ("sums",),
        "out": ("sums",),
    }
    columns = ("reg", "total", "$ck.reg", "$ck.aggregate.sums", "$widened")
    assert found.regions == (DeferredRegion("sums", ("check",), ("out",), columns),)


def test_only_columns_that_anything_reads_are_kept_for_what_is_computed_again(tmp_path: Path) -> None:
    check = node("transform", "check", "sums", cxl="emit ok = 1 / total")
    nodes = (source("a", "id", on_unmapped="drop"), total("sums", "a", ["reg"]), check)
    found = keys(tmp_path, *nodes, output("check", include_unmapped=False))
    assert found.regions[0].columns == ("total", "$ck.aggregate.sums")


def test_an_aggregate_of_a_retractable_one_is_retractable(tmp_path: Path) -> None:
    again = node("aggregate", "again", "sums", group_by=["id"], cxl="emit n = sum(total)")
    found = keys(tmp_path, source("a", ["id", "reg"]), total("sums", "a", ["id"]), again, output("again"))
    assert found.retractable == ("sums", "again")
    again_keys = found.nodes["again"]
    assert (again_keys.fields, again_keys.aggregates, again_keys.left_out) == (("id",), ("again",), ("aggregate.sums",))
    assert found.nodes["out"].retractable_upstream == ("sums", "again")


def test_an_aggregate_that_only_strict_ones_feed_stays_strict(tmp_path: Path) -> None:
    again = node("aggregate", "again", "sums", group_by=["id"], cxl="emit n = sum(total)")
    found = keys(tmp_path, source("a", "id"), total("sums", "a", ["id", "reg"]), again, output("again"))
    assert [found.nodes[name].grouping for name in ("sums", "again")] == [Grouping.STRICT, Grouping.STRICT]


def test_time_windows_are_not_computed_again(tmp_path: Path) -> None:
    watched = source("a", "id", watermark={"column": "at"})
    hourly = {"tumbling": {"size": "1h"}}
    sums = total("sums", "a", ["reg"], time_window=hourly)
    by_id = total("by_id", "a", ["id"], time_window=hourly)
    found = keys(tmp_path, watched, sums, by_id, output("sums"), output("by_id", "other"))
    assert (found.nodes["sums"].grouping, found.nodes["sums"].columns) == (Grouping.OPEN, ())
    assert (found.nodes["by_id"].grouping, found.nodes["by_id"].columns) == (Grouping.STRICT, ("$ck.id",))
    assert found.regions == ()


def test_a_merge_carries_the_keys_that_all_inputs_have(tmp_path: Path) -> None:
    merge = node("merge", "m", ["a", "b"])
    found = keys(
        tmp_path, source("a", ["id", "reg"]), source("b", ["reg"]), merge, total("sums", "m", ["reg"]), output("sums")
    )
    m = found.nodes["m"]
    assert (m.fields, m.left_out, m.sources) == (("reg",), ("id",), ("a", "b"))
    assert found.nodes["sums"].grouping is Grouping.STRICT
    assert found.fields == ("id", "reg")


def test_what_a_combine_carries_is_chosen(tmp_path: Path) -> None:
    def fields(propagate: Any) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        joined = combine("c", {"x": "a", "y": "b"}, propagate_ck=propagate)
        found = keys(tmp_path, source("a", "id"), source("b", "reg"), joined, output("c")).nodes["c"]
        return found.fields, found.left_out, found.sources

    assert fields("driver") == (("id",), ("reg",), ("a",))
    assert fields("all") == (("id", "reg"), (), ("a",))
    assert fields({"named": ["reg", "nowhere"]}) == (("reg",), ("id",), ("a",))


def test_the_groups_of_a_build_side_end_in_a_match_by_the_driver_alone(tmp_path: Path) -> None:
    def aggregates(propagate: Any, **drive: str) -> tuple[str, ...]:
        joined = node(
            "combine", "c", {"x": "a", "y": "sums"}, where="x.reg == y.reg", cxl="emit t = y.total",
            propagate_ck=propagate, **drive,
        )  # fmt: skip
        found = keys(tmp_path, source("a", "id"), total("sums", "a", ["reg"]), joined, output("c"))
        assert found.nodes["c"].retractable_upstream == ("sums",)
        return found.nodes["c"].aggregates

    assert aggregates("driver") == ()
    assert aggregates("all") == ("sums",)
    assert aggregates("driver", drive="y") == ("sums",)


def test_policies_of_outputs_come_before_the_pipelines(tmp_path: Path) -> None:
    outputs = (output("a"), output("a", "other", correlation_fanout_policy="primary"))
    found = keys(tmp_path, source("a", "id"), *outputs, correlation_fanout_policy="all", max_group_buffer=7)
    assert found.policies == {"out": "all", "other": "primary"}
    assert found.limit == 7


def test_the_default_key_is_of_sources_that_have_all_its_columns(tmp_path: Path) -> None:
    plan = planned(
        tmp_path, source("a"), source("b", "reg"), output("a"), output("b", "other"), correlation_key=["id", "x"]
    )
    assert correlation.of(plan).sources == {"b": ("reg",)}
    (warning,) = (each for each in plan.warnings if each.code.id == "W005")
    assert "uncorrelated, for lack of the column: a" in warning.message


def test_a_rewritten_key_splits_groups_by_what_was_read(tmp_path: Path) -> None:
    masked = node("transform", "masked", "a", cxl="emit id = 1")
    step: Any = (
        planned(tmp_path, source("a", "id"), masked, total("sums", "masked", ["id"]), output("sums"))
        .by_name["sums"]
        .step
    )
    assert step.keys == ("id", "$ck.id")
    assert {"id", "$ck.id", "v"} == set(step.input.names)
    assert {str(column.type) for column in step.output if column.name == "$ck.id"} == {"Nullable(String)"}


def warned(folder: Path, *nodes: dict[str, Any], **errors: Any) -> list[tuple[str, str]]:
    """The node that each W007 is about, and its words."""
    found = [item for item in planned(folder, *nodes, **errors).warnings if item.code.id == "W007"]
    return [(item.message.split("'")[1], f"{item.message}; {item.help}") for item in found]


def test_a_key_that_ends_in_a_merge_is_a_warning(tmp_path: Path) -> None:
    merge = node("merge", "m", ["a", "b"])
    ((name, said),) = warned(tmp_path, source("a", "id"), source("b"), merge, output("m"))
    assert name == "m"
    assert "`id` of 'a', for 'b' lacks it: downstream of it, each row fails by itself" in said
    assert "give the sources of 'b' the same `correlation_key`" in said
    found = warned(tmp_path, source("a", "id"), source("b", "reg"), merge, output("m"))
    assert [said.partition(" of ")[2][:3] for _, said in found] == ["'a'", "'b'"]
    ((_, said),) = warned(tmp_path, source("a", ["id", "reg"]), source("b", "id"), merge, output("m"))
    assert "`reg` of 'a'" in said
    assert "downstream of it, rows belong to groups by `id` alone" in said
    assert not warned(tmp_path, source("a", "id"), source("b", "id"), merge, output("m"))
    assert not warned(tmp_path, source("a"), source("b"), merge, output("m"))
    assert not warned(tmp_path, source("a"), source("b"), merge, output("m"), correlation_key="id")


def test_a_key_of_a_build_side_that_ends_in_a_combine_is_a_warning_unless_it_is_said(tmp_path: Path) -> None:
    nodes = [source("a", "id"), source("b", "reg")]
    ((_, said),) = warned(tmp_path, *nodes, combine("c", {"x": "a", "y": "b"}), output("c"))
    assert "`reg` of 'b'" in said
    assert "propagate_ck: all" in said
    for propagated in ("driver", "all", {"named": ["id"]}):
        joined = combine("c", {"x": "a", "y": "b"}, propagate_ck=propagated)
        assert not warned(tmp_path, *nodes, joined, output("c"))
    assert not warned(tmp_path, source("a", "id"), source("b", "id"), combine("c", {"x": "a", "y": "b"}), output("c"))
    assert warned(tmp_path, source("a"), source("b", "id"), combine("c", {"x": "a", "y": "b"}), output("c"))


def test_a_key_that_ends_in_a_time_window_is_a_warning(tmp_path: Path) -> None:
    """Other aggregates compute their rows again, so that the key goes on."""
    window = {"tumbling": {"size": "1h"}}
    timed = {**source("a", "id")["config"], "watermark": {"column": "at", "delay": "0s"}}
    given = {"type": "source", "name": "a", "config": timed}
    ((name, said),) = warned(tmp_path, given, total("w", "a", ["reg"], time_window=window), output("w"))
    assert name == "w"
    assert "add `id` to `group_by` to keep it" in said
    assert not warned(tmp_path, given, total("w", "a", ["reg", "id"], time_window=window), output("w"))
    assert not warned(tmp_path, given, total("w", "a", ["reg"]), output("w"))
