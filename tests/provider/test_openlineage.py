"""Lineage of runs, with the package for it and without."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from clinker_provider import datasets, openlineage, validation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.airflow

PIPELINE = """
pipeline: {name: sales}
nodes:
  - {type: source, name: rows, config: {type: csv, path: in.csv, schema: {id: int, qty: int}}}
  - {type: transform, name: t, input: rows, config: {cxl: 'emit twice = qty * 2'}}
  - {type: output, name: o, input: t, config: {type: csv, path: 'out/a b.csv'}}
  - {type: output, name: dated, input: t, config: {type: csv, path: 'out/{batch_id}.csv'}}
"""


@pytest.fixture
def pipeline(spark: Any) -> Path:
    path: Path = spark.folder / "sales.yaml"
    path.write_text(PIPELINE)
    return path


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///a%20b/c.csv", ("file", "/a b/c.csv")),
        ("s3://bucket/k/x.csv", ("s3://bucket", "k/x.csv")),
        ("https://h.example/v1", ("https://h.example", "v1")),
        ("s3://bucket/", ("s3://bucket", "/")),
    ],
)
def test_names_are_those_that_openlineage_has(uri: str, expected: tuple[str, str]) -> None:
    assert openlineage.name_of(uri) == expected


def test_columns_of_outputs_come_from_columns_of_sources(pipeline: Path) -> None:
    found = datasets.with_columns(validation.Subject(pipeline))
    assert found is not None
    assert found[1]["o"] == {
        "id": [("rows", "id")], "qty": [("rows", "qty")], "twice": [("rows", "qty")]
    }  # fmt: skip
    pipeline.write_text("pipeline: {}\n")
    assert datasets.with_columns(validation.Subject(pipeline)) is None


def test_the_package_may_be_missing() -> None:
    code = (
        "import sys; sys.modules['openlineage'] = None; import clinker_provider.operators.spark as o;"
        "print(o.ClinkerSparkOperator(task_id='t', pipeline='{{ p }}').task_id)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "t"


def test_facets_of_a_run(spark: Any, context: Any, pipeline: Path) -> None:
    pytest.importorskip("airflow.providers.openlineage.extractors", reason="the lineage package is optional")
    folder = str(spark.folder)
    job = {
        "exit": 2,
        "record": {
            "records_total": 5, "dlq_count": 1, "dlq_path": f"{folder}/d.csv", "metrics": {"duration_ms": 7},
            "dlq_reasons": [{"stage": "transform:t", "count": 1, "example": {"value": "LEAK"}}],
            "output_files": [f"{folder}/out/a b.csv", f"{folder}/out/7.csv"],
            "outputs": [{"name": "o", "records": 4, "files": 1}, {"name": "dated", "records": 4, "files": 1}],
            "inputs": [{"name": "rows", "records": 5, "files": 1}],
        },
    }  # fmt: skip
    operator = spark.operator(job, pipeline=str(pipeline))
    started = operator.get_openlineage_facets_on_start()
    assert [each.name for each in started.inputs] == [f"{folder}/in.csv"]
    assert [each.name for each in started.outputs] == [f"{folder}/out/a b.csv"], "the other is not known yet"
    (twice,) = started.outputs[0].facets["columnLineage"].fields["twice"].inputFields
    assert (twice.name, twice.field) == (f"{folder}/in.csv", "qty")
    operator.execute(context)
    ended = operator.get_openlineage_facets_on_complete(context["ti"])
    assert [each.name for each in ended.outputs] == [
        f"{folder}/out/a b.csv", f"{folder}/out/7.csv", f"{folder}/d.csv"
    ]  # fmt: skip
    assert ended.outputs[1].outputFacets["outputStatistics"].rowCount == 4
    assert ended.inputs[0].inputFacets["dataQualityMetrics"].rowCount == 5
    assert [field.name for field in ended.outputs[0].facets["schema"].fields] == ["id", "qty", "twice"]
    facet = ended.run_facets["clinker"]
    assert (facet.status, facet.dlq_count, facet.duration_ms) == ("partial_success", 1, 7)
    assert "LEAK" not in str(ended)


def test_a_run_that_failed_wrote_nothing(spark: Any, context: Any, pipeline: Path) -> None:
    pytest.importorskip("airflow.providers.openlineage.extractors", reason="the lineage package is optional")
    from airflow.providers.common.compat.sdk import AirflowException

    job = {"exit": 3, "record": {"error": {"code": "E1", "message": "broke"}}}
    operator = spark.operator(job, pipeline=str(pipeline))
    with pytest.raises(AirflowException):
        operator.execute(context)
    ended = operator.get_openlineage_facets_on_failure(context["ti"])
    assert ended.outputs == []
    assert "broke" in ended.run_facets["errorMessage"].message


class Collector(BaseHTTPRequestHandler):
    """An endpoint that keeps the events it is sent."""

    events: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.events.append(json.loads(body))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    Collector.events.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_endpoint_gets_each_dataset_once_and_no_secret(
    spark: Any, context: Any, pipeline: Path, endpoint: str
) -> None:
    """Through the extractor that Airflow chooses, with assets on the same task."""
    pytest.importorskip("airflow.providers.openlineage.extractors", reason="the lineage package is optional")
    from airflow.providers.common.compat.sdk import DAG, TaskInstanceState
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    from tests.provider.airflow_of import OutletEventAccessors

    folder = str(spark.folder)
    job = {
        "exit": 2,
        "record": {
            "records_total": 5, "dlq_count": 1, "dlq_path": f"{folder}/d.csv",
            "dlq_reasons": [{"stage": "transform:t", "count": 1, "example": {"value": "LEAK-value"}}],
            "output_files": [f"{folder}/out/a b.csv", f"{folder}/out/7.csv"],
            "outputs": [{"name": "o", "records": 4, "files": 1}, {"name": "dated", "records": 4, "files": 1}],
            "inputs": [{"name": "rows", "records": 5, "files": 1}],
        },
    }  # fmt: skip
    with DAG("etl", schedule=None):
        operator = spark.operator(
            job, pipeline=str(pipeline), emit_assets=True, env_vars={"API_TOKEN": "LEAK-variable"}
        )
    context["outlet_events"] = OutletEventAccessors()
    run, name = SimpleNamespace(run_id="r"), "etl.run"
    identifier = "0190b8a0-0000-7000-8000-000000000000"
    adapter = OpenLineageAdapter(client=OpenLineageClient(transport=HttpTransport(HttpConfig(url=endpoint))))

    def extracted(state: Any) -> Any:
        return ExtractorManager().extract_metadata(run, operator, state, context["ti"])

    ways: dict[str, Any] = dict.fromkeys(["nominal_start_time", "nominal_end_time", "job_description"])
    ways |= {"owners": [], "tags": []}
    at = "2026-01-01T00:00:00+00:00"
    adapter.start_task(
        run_id=identifier, job_name=name, event_time=at, task=extracted(TaskInstanceState.RUNNING), **ways
    )
    operator.execute(context)
    adapter.complete_task(
        run_id=identifier, job_name=name, end_time=at, task=extracted(TaskInstanceState.SUCCESS), **ways
    )
    started, ended = Collector.events
    assert (started["eventType"], ended["eventType"]) == ("START", "COMPLETE")
    assert [each["name"] for each in ended["inputs"]] == [f"{folder}/in.csv"]
    names = [each["name"] for each in ended["outputs"]]
    assert names == [f"{folder}/out/a b.csv", f"{folder}/out/7.csv", f"{folder}/d.csv"]
    assert ended["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 4
    assert ended["run"]["facets"]["clinker"]["dlq_count"] == 1
    assert "LEAK" not in json.dumps(Collector.events)
