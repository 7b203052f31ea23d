"""Lineage of runs, with the package for it and without."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from clinker_provider import datasets, openlineage, validation

if TYPE_CHECKING:
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


def test_nothing_is_imported_without_the_package() -> None:
    code = (
        "import sys; import clinker_provider.operators.spark as o;"
        "o.ClinkerSparkOperator(task_id='t', pipeline='{{ p }}');"
        "print([name for name in sys.modules if name.startswith('openlineage')"
        " or name.startswith('airflow.providers.openlineage')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1].replace("'", '"')) == []


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
    from airflow.sdk.exceptions import AirflowException

    job = {"exit": 3, "record": {"error": {"code": "E1", "message": "broke"}}}
    operator = spark.operator(job, pipeline=str(pipeline))
    with pytest.raises(AirflowException):
        operator.execute(context)
    ended = operator.get_openlineage_facets_on_failure(context["ti"])
    assert ended.outputs == []
    assert "broke" in ended.run_facets["errorMessage"].message
