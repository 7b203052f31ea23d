"""OpenLineage events of a run: from the plan at its start, with counts at its end.

Its classes are imported only if the package `apache-airflow-providers-openlineage` is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from clinker_provider import datasets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage

    from clinker_provider.validation import Subject
    from spark_jobs.plan.explain.datasets import Dataset, Datasets
    from spark_jobs.result import RunResult


def name_of(uri: str) -> tuple[str, str]:
    """The namespace and the name that OpenLineage has for a URI."""
    place = urlsplit(uri)
    if place.scheme == "file":
        return "file", unquote(place.path)
    return f"{place.scheme}://{place.netloc}", place.path.removeprefix("/") or "/"


def lineage(subject: Subject, record: RunResult | None = None, reason: str | None = None) -> OperatorLineage:
    """The inputs, outputs and facets of a run; empty where the pipeline has errors.

    Args:
        subject: the pipeline.
        record: the run's, when it has ended.
        reason: why it failed.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset as Named
    from airflow.providers.common.compat.openlineage.facet import ErrorMessageRunFacet
    from airflow.providers.openlineage.extractors import OperatorLineage

    run_facets: dict[str, Any] = {"clinker": _run_facet(record)} if record else {}
    if reason:
        run_facets["errorMessage"] = ErrorMessageRunFacet(message=reason, programmingLanguage="CXL")
    found = datasets.with_columns(subject)
    if found is None:
        return OperatorLineage(run_facets=run_facets)
    known, columns = found
    places = {each.node: name_of(each.uri) for each in known.sources if each.uri}
    outputs = _outputs(known, columns, places, record)
    if record and record.dlq_count:
        outputs += [Named(*name_of(f"file://{path}")) for path in record.dlq_paths]
    return OperatorLineage(inputs=_inputs(known, record), outputs=outputs, run_facets=run_facets)


def _inputs(known: Datasets, record: RunResult | None) -> list[Any]:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.generated.data_quality_metrics_input_dataset import DataQualityMetricsInputDatasetFacet

    counted = {each["name"]: each for each in record.inputs} if record else {}
    inputs = []
    for each in known.sources:
        if each.uri is None:
            continue
        facets = {}
        if counts := counted.get(each.node):
            facets["dataQualityMetrics"] = DataQualityMetricsInputDatasetFacet(
                columnMetrics={}, rowCount=counts["records"], fileCount=counts["files"]
            )
        inputs.append(InputDataset(*name_of(each.uri), facets=_schema(each), inputFacets=facets))
    return inputs


def _outputs(
    known: Datasets,
    columns: Mapping[str, Mapping[str, list[tuple[str, str]]]],
    places: Mapping[str, tuple[str, str]],
    record: RunResult | None,
) -> list[Any]:
    from airflow.providers.common.compat.openlineage.facet import OutputStatisticsOutputDatasetFacet
    from openlineage.client.event_v2 import OutputDataset

    from spark_jobs.plan.explain import datasets as published

    # Outputs that only the run knows are named when it has ended.
    written = (
        {each.node: (counts, files) for each, counts, files in published.published_datasets(known, record)}
        if record
        else {}
    )
    outputs = []
    for each in known.outputs:
        counts, files = written.get(each.node, (None, []))
        uri = each.uri or published.shared_uri(files)
        if uri is None or (record and counts is None):
            continue  # nothing was published
        facets = {**_schema(each), **_column_lineage(columns.get(each.node, {}), places)}
        statistics = {}
        if counts is not None:
            statistics["outputStatistics"] = OutputStatisticsOutputDatasetFacet(
                rowCount=counts["records"], fileCount=counts["files"]
            )
        outputs.append(OutputDataset(*name_of(uri), facets=facets, outputFacets=statistics))
    return outputs


def _schema(each: Dataset) -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import SchemaDatasetFacet, SchemaDatasetFacetFields

    fields = [SchemaDatasetFacetFields(name=column.name, type=column.type) for column in each.columns]
    return {"schema": SchemaDatasetFacet(fields=fields)}


def _column_lineage(
    columns: Mapping[str, list[tuple[str, str]]], places: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import ColumnLineageDatasetFacet, Fields, InputField

    fields = {
        name: Fields(
            inputFields=[
                InputField(namespace=places[source][0], name=places[source][1], field=column)
                for source, column in sources
                if source in places
            ],
            transformationType="",
            transformationDescription="",
        )
        for name, sources in columns.items()
    }
    return {"columnLineage": ColumnLineageDatasetFacet(fields=fields)} if fields else {}


def _run_facet(record: RunResult) -> Any:
    import attr
    from openlineage.client.generated.base import RunFacet

    @attr.define
    class ClinkerRunFacet(RunFacet):  # type: ignore[misc]  # the package is read without its types
        """The facts about a run from its result record."""

        execution_id: str
        status: str
        exit_code: int
        records: dict[str, int]
        dlq_count: int
        dlq_paths: list[str]
        dlq_reasons: list[dict[str, Any]]
        duration_ms: int | None

    # The stage, field and category of a reason; its example is data.
    reasons = [{key: value for key, value in each.items() if key != "example"} for each in record.dlq_reasons]
    duration = record.metrics.get("duration_ms")
    return ClinkerRunFacet(
        execution_id=record.execution_id,
        status=record.status.value,
        exit_code=record.exit_code,
        records=record.records,
        dlq_count=record.dlq_count,
        dlq_paths=list(record.dlq_paths),
        dlq_reasons=reasons,
        duration_ms=duration if isinstance(duration, int) else None,
    )
