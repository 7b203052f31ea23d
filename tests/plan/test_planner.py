"""From files to plans: the graph, rows and their order, liveness, outputs, errors of each stage."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.diagnostics.diagnostic import DiagnosticError
from spark_jobs.plan.options import RunOptions
from tests.plan.pipelines import CUSTOMERS, ORDERS, found, output, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

TRANSFORM = """
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        let rate = 1.2
        emit amount = amount * rate
        emit label = note.upper()
"""


def written(plan: Plan, name: str = "out") -> list[tuple[str, str]]:
    return [(column.source, column.name) for column in plan.by_name[name].step.columns]  # type: ignore[union-attr]


def live(plan: Plan, name: str) -> set[str]:
    return set(plan.by_name[name].step.live)  # type: ignore[union-attr]


# ---- the graph


def test_nodes_may_be_declared_in_any_order(tmp_path: Path) -> None:
    head, source = ORDERS.split("nodes:\n")
    plan = planned(tmp_path, head + "nodes:\n" + output("priced") + TRANSFORM + source)
    assert [node.name for node in plan.nodes] == ["orders", "priced", "out"]


def test_independent_nodes_keep_their_declaration_order(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + CUSTOMERS + output("customers", name="b") + output("orders", name="a"))
    assert [node.name for node in plan.nodes] == ["orders", "customers", "b", "a"]


def test_wiring_errors_come_together_with_their_lines(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p }
    nodes:
      - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
      - { type: transform, name: s, input: s, config: { cxl: emit a = id } }
      - { type: transform, name: b, input: gohst, config: { cxl: emit a = id } }
      - { type: transform, name: c, input: c, config: { cxl: emit a = id } }
      - { type: transform, name: d.e, input: s, config: { cxl: emit a = id } }
      - { type: merge, name: m, inputs: [s, q] }
      - { type: transform, name: q, input: m, config: { cxl: emit a = id } }
      - { type: output, name: o, input: s, config: { type: csv, path: ../o.csv } }
    """
    assert found(tmp_path, text) == [
        ("E001", 4),
        ("E004", 5),
        ("E002", 6),
        ("E010", 7),
        ("E003", 8),
        ("E-SEC-001", 10),
    ]


def test_a_cycle_is_printed_in_the_direction_of_the_records(tmp_path: Path) -> None:
    text = """
    pipeline: { name: p }
    nodes:
      - { type: source, name: s, config: { type: csv, path: a.csv, schema: { id: int } } }
      - { type: transform, name: a, input: c, config: { cxl: emit x = id } }
      - { type: transform, name: b, input: a, config: { cxl: emit x = id } }
      - { type: transform, name: c, input: b, config: { cxl: emit x = id } }
      - { type: output, name: o, input: c, config: { type: csv, path: o.csv } }
      - { type: output, name: p, input: s, config: { type: csv, path: p.csv } }
    """
    (cycle,) = problems(tmp_path, text)
    assert cycle.code.id == "E003"
    assert "a → b → c → a" in cycle.message


def test_an_input_that_names_a_broken_node_is_not_blamed(tmp_path: Path) -> None:
    text = ORDERS + "  - { type: tranform, name: t, input: orders }\n" + output("t")
    assert [code for code, _ in found(tmp_path, text)] == ["E007"]


ROUTE = """
  - type: route
    name: size
    input: orders
    config:
      conditions: { large: amount > 100.0 }
      default: small
"""


@pytest.mark.parametrize(("conditions", "codes"), [(255, []), (256, ["E013"])])
def test_a_route_has_at_most_256_branches_the_default_counted(
    tmp_path: Path, conditions: int, codes: list[str]
) -> None:
    branches = "".join(f'        b{i}: "id == {i}"\n' for i in range(conditions))
    route = "  - type: route\n    name: r\n    input: orders\n    config:\n      default: rest\n      conditions:\n"
    text = ORDERS + route + branches + output("r.rest")
    assert [problem.code.id for problem in problems(tmp_path, text) if problem.is_error] == codes


def test_routes_have_a_port_per_branch(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + ROUTE + output("size.large", name="a") + output("size.small", name="b"))
    assert list(plan.by_name["size"].outputs) == ["large", "small"]
    assert [(edge.node, edge.port) for edge in plan.by_name["b"].inputs] == [("size", "small")]
    assert [consumer.name for consumer, _ in plan.consumers["size"]] == ["a", "b"]


def test_a_bare_reference_means_the_port_that_is_called_like_the_consumer(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + ROUTE + output("size", name="large"))
    assert plan.by_name["large"].inputs[0].port == "large"


@pytest.mark.parametrize("reference", ["size.lrage", "size", "orders.x", "out.x"])
def test_ports_that_do_not_exist_are_errors(reference: str, tmp_path: Path) -> None:
    text = ORDERS + ROUTE + output("size.large") + output(reference, name="second")
    assert "E004" in [code for code, _ in found(tmp_path, text)]


# ---- rows


def test_emits_replace_in_place_and_new_ones_follow(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + TRANSFORM + output("priced"))
    names = plan.by_name["priced"].outputs[""].names
    assert names == ("id", "customer", "amount", "note", "$widened", "label")
    assert plan.by_name["priced"].outputs[""].get("amount").origin == "priced"  # type: ignore[union-attr]


def test_aggregates_give_keys_and_emits(tmp_path: Path) -> None:
    text = (
        ORDERS
        + """
  - type: aggregate
    name: sums
    input: orders
    config: { group_by: [customer, note], cxl: "emit total = sum(amount)" }
"""
        + output("sums")
    )
    plan = planned(tmp_path, text)
    assert next(str(column.type) for column in plan.by_name["sums"].outputs[""].user_columns) == "Nullable(Int)"
    assert written(plan) == [("customer", "customer"), ("note", "note"), ("total", "total")]
    assert live(plan, "orders") == {"customer", "note", "amount"}


COMBINE = """
  - type: combine
    name: joined
    input: { o: orders, c: customers }
    config:
      where: o.customer == c.id and o.amount > 10.0
      cxl: |
        emit id = o.id
        emit name = c.name
"""


def test_combines_take_the_predicate_apart(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + CUSTOMERS + COMBINE + output("joined"))
    step = plan.by_name["joined"].step
    assert step.driver == "o"  # type: ignore[union-attr]
    assert step.builds == ("c",)  # type: ignore[union-attr]
    (equality,) = step.equalities  # type: ignore[union-attr]
    assert equality.driver.columns == {"o.customer"}
    assert (equality.build_qualifier, equality.build.columns) == ("c", {"c.id"})
    assert step.residual.columns == {"o.amount"}  # type: ignore[union-attr]
    assert live(plan, "orders") == {"id", "customer", "amount"}
    assert live(plan, "customers") == {"id", "name"}
    assert plan.by_name["joined"].outputs[""].names == ("id", "name", "$widened")


def test_collect_gives_an_array_per_build_input(tmp_path: Path) -> None:
    text = COMBINE.split("      cxl:")[0] + "      match: collect\n"
    plan = planned(tmp_path, ORDERS + CUSTOMERS + text + output("joined"))
    names = plan.by_name["joined"].outputs[""].names
    assert names == ("id", "customer", "amount", "note", "c", "$widened")


def test_merges_match_columns_by_name_and_unify_their_types(tmp_path: Path) -> None:
    second = ORDERS.split("nodes:\n")[1].replace("orders", "more").replace("amount, type: float", "amount, type: int")
    merge = "  - { type: merge, name: both, inputs: [more, orders] }\n"
    plan = planned(tmp_path, ORDERS + second + merge + output("both"))
    assert str(plan.by_name["both"].outputs[""].get("amount").type) == "Nullable(Float)"  # type: ignore[union-attr]


def test_cxl_errors_of_all_nodes_come_together_with_their_places(tmp_path: Path) -> None:
    text = ORDERS + TRANSFORM.replace("note.upper", "noet.upper") + ROUTE.replace("amount >", "weight >")
    items = problems(tmp_path, text + output("priced") + output("size.large", name="x"))
    errors = [(item.code.id, str(item.span).rpartition("pipeline.yaml:")[2]) for item in items if item.is_error]
    assert errors == [("E200", "21:22"), ("E200", "27:28")]


# ---- liveness


def test_sources_carry_only_what_something_reads(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + TRANSFORM + output("priced", ", include_unmapped: false"))
    assert written(plan) == [("amount", "amount"), ("label", "label")]
    assert live(plan, "orders") == {"amount", "note"}


def test_source_members_that_programs_read_are_noted(tmp_path: Path) -> None:
    text = ORDERS + TRANSFORM.replace("note.upper()", "$source.file") + output("priced")
    assert planned(tmp_path, text).by_name["orders"].step.reads_source == {"file"}  # type: ignore[union-attr]


def test_conversion_errors_belong_to_the_first_consumer(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + TRANSFORM + output("priced"))
    assert plan.by_name["orders"].step.failure_stage == "transform:priced"  # type: ignore[union-attr]


# ---- outputs


def test_mapping_renames_in_place_and_exclude_keeps_the_order(tmp_path: Path) -> None:
    config = ', exclude: [customer], mapping: { "Order No": id, Sum: amount }'
    plan = planned(tmp_path, ORDERS + output("orders", config))
    assert written(plan) == [("id", "Order No"), ("amount", "Sum"), ("note", "note")]


def test_correlation_keys_and_metadata_are_written_when_asked(tmp_path: Path) -> None:
    keyed = ORDERS.replace("      path:", "      correlation_key: customer\n      path:")
    meta = "  - { type: transform, name: t, input: orders, config: { cxl: emit meta grade = note } }\n"
    config = ", include_correlation_keys: true, include_metadata: all"
    plan = planned(tmp_path, keyed + meta + output("t", config))
    names = [name for _, name in written(plan)]
    assert names == ["id", "customer", "amount", "note", "$ck.customer", "meta.grade"]


def test_tokens_of_paths_are_filled_in_as_far_as_they_are_known(tmp_path: Path) -> None:
    text = ORDERS + output("orders").replace("path: out.csv", 'path: "{source_name}_{pipeline_hash}_{batch_id}.csv"')
    plan = planned(tmp_path, text)
    assert plan.by_name["out"].step.path == f"orders_{plan.source_hash[:8]}_{{batch_id}}.csv"  # type: ignore[union-attr]


def test_the_hash_ignores_comments_and_layout_but_no_value(tmp_path: Path) -> None:
    first = planned(tmp_path, ORDERS + output("orders")).source_hash
    assert (
        planned(
            tmp_path, "# note\n" + ORDERS.replace("{ name: shop }", "{ name:   shop }") + output("orders")
        ).source_hash
        == first
    )
    assert planned(tmp_path, ORDERS.replace("shop", "shops") + output("orders")).source_hash != first


def test_writers_on_one_path_are_refused(tmp_path: Path) -> None:
    text = ORDERS + output("orders") + output("orders", name="b").replace("b.csv", "./out.csv")
    handling = "error_handling: { strategy: continue, dlq: { path: out.csv } }\n"
    assert [code for code, _ in found(tmp_path, text + handling)] == ["E322", "E322"]


# ---- the whole


def test_plans_travel_pickled(tmp_path: Path) -> None:
    plan = planned(tmp_path, ORDERS + CUSTOMERS + COMBINE + output("joined"))
    for node in plan.nodes:
        assert pickle.loads(pickle.dumps(node.step)) == node.step


def test_load_raises_with_everything_that_was_found(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned(tmp_path, ORDERS + output("ordesr"))
    assert [item.code.id for item in caught.value.diagnostics] == ["E004"]


def test_the_command_line_wins_over_the_pipeline(tmp_path: Path) -> None:
    text = ORDERS.replace("name: shop", "name: shop, memory: { limit: 256M }, concurrency: { threads: 2 }")
    path = write(tmp_path, text + output("orders"))
    assert planning.load(path, RunOptions()).memory_limit_bytes == 256 << 20
    options = RunOptions(memory_limit_bytes=64 << 20, threads=7)
    plan = planning.load(path, options)
    assert (plan.memory_limit_bytes, plan.threads) == (64 << 20, 7)


def test_relative_paths_resolve_against_the_base_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    path = write(tmp_path / "jobs", ORDERS + output("orders"))
    assert planning.load(path).base_dir == tmp_path / "jobs"
    assert planning.load(path, RunOptions(base_dir=tmp_path)).base_dir == tmp_path


def test_features_that_do_not_run_yet_bind_and_explain(tmp_path: Path) -> None:
    from spark_jobs.plan import pending
    from spark_jobs.plan.explain import explain

    text = ORDERS + output("orders").replace("path: ", "path: viewfs://bucket/")
    plan = planned(tmp_path, text, allow_absolute_paths=True)
    assert [item.code.id for item in pending.pending(plan)] == ["E400"]
    assert "does not run yet" in explain.text(plan)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            ORDERS.replace("path:", "array_paths: [{ path: id }]\n      path:") + output("orders"),
            "E223",
            "source 'orders': CSV records have no arrays for `array_paths`",
        ),
        (
            ORDERS.replace("path:", "format_schema: { fields: [{ name: id, path: a.b }] }\n      path:")
            + output("orders"),
            "E224",
            "`path` leads into nested records",
        ),
        (
            ORDERS.replace("path:", "format_schema: { fields: [{ name: id, coerce: false }] }\n      path:")
            + output("orders"),
            "E224",
            "`coerce` is not known",
        ),
        (
            ORDERS + output("orders", config=", schema: { fields: [{ name: id, type: date, scale: 2 }] }"),
            "E224",
            "`scale` is for numbers",
        ),
        (
            ORDERS + output("orders", config=", schema: { fields: [{ name: id }, { name: x, alias: id }] }"),
            "E007",
            "two fields are written as `id`",
        ),
    ],
)
def test_what_a_format_does_not_have_is_refused(tmp_path: Path, text: str, code: str, says: str) -> None:
    (item,) = problems(tmp_path, text)
    assert item.code.id == code
    assert says in item.message


def test_a_failed_conversion_names_the_first_consumer_in_the_file(tmp_path: Path) -> None:
    """Whatever the order that records make them run in."""
    text = (
        ORDERS
        + """
  - type: combine
    name: early
    input: { o: orders, l: late }
    config: { where: o.id == l.id, cxl: emit id = o.id }
  - { type: transform, name: middle, input: orders, config: { cxl: emit x = id } }
  - { type: transform, name: late, input: middle, config: { cxl: emit y = id } }
  - { type: output, name: out, input: early, config: { type: csv, path: out.csv } }
"""
    )
    step = planned(tmp_path, text).by_name["orders"].step
    assert (step.failure_stage, step.failure_node) == ("combine:early", "early")  # type: ignore[union-attr]


def test_sources_are_asked_for_what_programs_read_of_their_records(tmp_path: Path) -> None:
    """Not for what is read behind an aggregate, nor, behind a combine, of records that are only looked up."""
    text = (
        ORDERS
        + CUSTOMERS
        + """
  - type: combine
    name: c
    input: { o: orders, l: customers }
    config: { where: o.customer == l.id, cxl: emit id = o.id }
  - { type: transform, name: t, input: c, config: { cxl: emit e = $source.event_time } }
  - { type: aggregate, name: g, input: t, config: { group_by: [id], cxl: emit n = $source.count } }
  - { type: transform, name: u, input: g, config: { cxl: "emit r = $source.row\\nemit k = $pipeline.total_count" } }
  - { type: output, name: out, input: u, config: { type: csv, path: out.csv } }
"""
    )
    nodes = planned(tmp_path, text).by_name
    assert nodes["orders"].step.reads_source == {"event_time"}  # type: ignore[union-attr]
    assert nodes["customers"].step.reads_source == set()  # type: ignore[union-attr]
    totals = nodes["g"].step.totals  # type: ignore[union-attr]
    assert totals.members == ("pipeline.total_count", "source.count")
    assert totals.nodes == {"orders", "customers", "c", "t", "g"}
    assert (totals.sources, totals.origins) == ({"orders", "customers"}, {"orders"})
