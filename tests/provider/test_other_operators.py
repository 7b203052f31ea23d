"""The operators that check pipelines and collect metrics, with the real planner and real files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lazily import LazyModule

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")
metrics = LazyModule("clinker_provider.operators.metrics")
validate = LazyModule("clinker_provider.operators.validate")

ORDERS = Path(__file__).resolve().parent.parent.parent / "examples" / "orders" / "pipeline.yaml"


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    return Path(shutil.copy(ORDERS, tmp_path / "p.yaml"))


@pytest.fixture
def with_data(tmp_path: Path) -> Path:
    """The pipeline with its inputs."""
    shutil.copytree(ORDERS.parent, tmp_path / "orders", ignore=shutil.ignore_patterns("output"))
    return tmp_path / "orders" / "pipeline.yaml"


def check(pipeline: object, **arguments: Any) -> Any:
    return validate.ClinkerValidateOperator(task_id="check", pipeline=str(pipeline), validate="execute", **arguments)


def test_valid_pipeline_gives_its_counts_and_plan(pipeline: Path, context: Any) -> None:
    operator = check(pipeline)
    assert operator.execute(context) == {"pipeline": str(pipeline), "errors": 0, "warnings": 0}
    assert context["ti"].pushed == {"diagnostics": []}
    assert operator.plan_text is not None
    assert "orders" in operator.plan_text


def test_broken_pipeline_fails_without_retry_and_lists_its_problems(pipeline: Path, context: Any) -> None:
    pipeline.write_text(pipeline.read_text().replace("weight_kg / quantity", "weight_kg / quantiti"))
    with pytest.raises(exceptions.ClinkerConfigError, match=r"p\.yaml:\d+:\d+ E\d+ .*quantiti") as raised:
        check(pipeline).execute(context)
    assert isinstance(raised.value, exceptions.AirflowFailException)
    assert raised.value.exit_code == 1
    (line,) = context["ti"].pushed["diagnostics"]
    assert str(raised.value).startswith(line)


def test_warnings_fail_only_when_asked_to(context: Any, diagnosed: Any) -> None:
    diagnosed.report("p.yaml:1:1 W101 odd", is_error=False)
    assert check("/p.yaml").execute(context)["warnings"] == 1
    with pytest.raises(exceptions.ClinkerConfigError, match="W101 odd"):
        check("/p.yaml", warnings_are_errors=True).execute(context)


def test_variables_of_the_task_reach_the_check(pipeline: Path, context: Any) -> None:
    pipeline.write_text(pipeline.read_text().replace("output/sales_by_region.csv", "output/${REGION_FILE}.csv"))
    with pytest.raises(exceptions.ClinkerConfigError, match="REGION_FILE"):
        check(pipeline).execute(context)
    assert check(pipeline, env_vars={"REGION_FILE": "sales"}).execute(context)["errors"] == 0


def test_check_that_is_switched_off_is_refused() -> None:
    with pytest.raises(ValueError, match="would do nothing"):
        validate.ClinkerValidateOperator(task_id="check", pipeline="p.yaml", validate="off")


def test_relative_pipeline_without_a_dag_is_refused(context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match="is relative"):
        check("p.yaml").execute(context)


def test_a_preview_shows_records_in_the_log_and_the_xcom(
    with_data: Path, context: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(with_data.parent.rglob("*"))
    operator = check(with_data, preview=["by_size.large", "customers"], preview_records=2)
    operator.execute(context)
    shown = context["ti"].pushed["preview"]
    assert {node: len(records) for node, records in shown.items()} == {"by_size.large": 2, "customers": 2}
    assert shown["by_size.large"][0]["order_id"] == 1002
    assert shown["by_size.large"][0]["amount"] == 862.92
    told = "".join(capfd.readouterr())
    assert re.search(r"^order_id +ordered_on +customer", told, re.MULTILINE)
    assert re.search(r"^ +1002 +2026-03-02", told, re.MULTILINE)
    assert "2 records are dead letters" in told
    assert sorted(with_data.parent.rglob("*")) == before, "a preview writes nothing"


def test_a_preview_is_of_all_outputs_where_no_node_is_named(with_data: Path, context: Any) -> None:
    check(with_data, preview=True, preview_records=1).execute(context)
    assert set(context["ti"].pushed["preview"]) == {"large_orders", "regular_orders", "sales_by_region"}


@pytest.mark.parametrize(("template", "nodes"), [("", 0), ("None", 0), ("False", 0), ("True", 3)])
def test_a_preview_may_be_left_to_a_template(with_data: Path, context: Any, template: str, nodes: int) -> None:
    operator = check(with_data, preview="{{ params.nodes }}")
    operator.preview = template  # as it is rendered
    operator.execute(context)
    assert len(context["ti"].pushed.get("preview", ())) == nodes


def test_a_preview_of_no_node_of_the_pipeline_fails_without_retry(pipeline: Path, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match="no node 'nobody'"):
        check(pipeline, preview="nobody").execute(context)


def test_a_preview_without_a_source_tells_its_place(with_data: Path, context: Any) -> None:
    (with_data.parent / "input" / "orders.csv").unlink()
    with pytest.raises(exceptions.ClinkerConfigError, match=r"E216\]: input/orders.csv"):
        check(with_data, preview=True).execute(context)


ONE = """
pipeline: {name: one}
nodes:
  - {type: source, name: rows, config: {type: json, path: rows.json, schema: {n: "decimal(25,20)", text: string}}}
  - {type: output, name: out, input: rows, config: {type: json, path: "${PLACE}.json"}}
"""


def test_a_preview_is_bounded_and_says_what_it_leaves_out(
    tmp_path: Path, context: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(ONE)
    texts = [json.dumps({"n": "1.5", "text": "x" * 20_000}) for _ in range(5)]
    (tmp_path / "rows.json").write_text("\n".join(texts))
    check(tmp_path / "p.yaml", preview="rows", env_vars={"PLACE": "out"}).execute(context)
    assert [len(each["text"]) for each in context["ti"].pushed["preview"]["rows"]] == [20_000, 20_000]
    told = "".join(capfd.readouterr())
    assert "3 of 5 records of rows are not in the XCom" in told
    assert "x" * 100 not in told


def test_a_preview_keeps_digits_and_shows_no_secret(
    tmp_path: Path, context: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(ONE)
    (tmp_path / "rows.json").write_text('{"n": "1.50000000000000000001", "text": "key LEAK-token-01"}')
    check(tmp_path / "p.yaml", preview=True, env_vars={"PLACE": "out", "API_TOKEN": "LEAK-token-01"}).execute(context)
    assert context["ti"].pushed["preview"] == {"out": [{"n": "1.50000000000000000001", "text": "key ***"}]}
    assert "LEAK" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("arguments", [{"preview_records": 0}, {"preview_records": 101}, {"preview_read": 0}])
def test_a_preview_of_no_size_or_too_large_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        check("p.yaml", preview=True, **arguments)


def test_root_of_pipelines_is_used(pipeline: Path, context: Any) -> None:
    assert check("p.yaml", pipeline_root=str(pipeline.parent)).execute(context)["pipeline"] == str(pipeline)


def collect(folder: Path, **arguments: Any) -> Any:
    return metrics.ClinkerMetricsCollectOperator(
        task_id="collect", spool_dir=str(folder / "spool"), output_file=str(folder / "all.ndjson"), **arguments
    )


def test_metrics_are_collected_and_counted(tmp_path: Path, context: Any) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "a.json").write_text(json.dumps({"execution_id": "a", "schema_version": 1}))
    (spool / "b.json").write_text("no metrics")
    archive = str(tmp_path / "all.ndjson")
    wanted = {"collected": 1, "skipped": 1, "output_file": archive}
    assert collect(tmp_path, dry_run=True).execute(context) == wanted
    assert not Path(archive).exists()
    assert collect(tmp_path, delete_after_collect=True).execute(context) == wanted
    assert Path(archive).read_text() == '{"execution_id":"a","schema_version":1}\n'
    assert [path.name for path in spool.iterdir()] == ["b.json"]


def test_missing_spool_may_be_retried(tmp_path: Path, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerIOError, match="spool") as raised:
        collect(tmp_path).execute(context)
    assert raised.value.exit_code == 4
    assert not isinstance(raised.value, exceptions.AirflowFailException)
