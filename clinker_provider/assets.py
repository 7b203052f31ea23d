"""A task's assets: the datasets that its pipeline reads are inlets, and the datasets that it writes are outlets.

Outputs whose place is known when the DAG file is parsed are assets of their own. Others are added to an alias when they
are published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Asset, AssetAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.providers.common.compat.sdk import BaseOperator
    from airflow.sdk.types import OutletEventAccessorsProtocol

    from spark_jobs.plan.explain import datasets
    from spark_jobs.result import RunResult


def alias_of(operator: BaseOperator) -> str:
    """The alias of outputs whose place only the run knows: `clinker.<DAG>.<task>`."""
    dag = operator.get_dag()
    return ".".join(["clinker", *([dag.dag_id] if dag else []), operator.task_id])


def declare(operator: BaseOperator, found: datasets.Datasets | None) -> None:
    """Add inlets and outlets that are not there yet; without a plan everything is known to the run alone."""
    sources, outputs = (found.sources, found.outputs) if found else ((), ())
    operator.inlets += _new(operator.inlets, [each.uri for each in sources if each.uri])
    operator.outlets += _new(operator.outlets, [each.uri for each in outputs if each.uri])
    if found is None or any(each.uri is None for each in outputs):
        alias = AssetAlias(alias_of(operator))
        operator.outlets += [] if alias in operator.outlets else [alias]


def publish(
    operator: BaseOperator,
    events: OutletEventAccessorsProtocol,
    found: datasets.Datasets,
    record: RunResult,
    common: Mapping[str, Any],
) -> list[str]:
    """Add the facts of a run to its asset events; returns the URIs of outputs that have no outlet.

    Args:
        operator: the task.
        events: the context's `outlet_events`.
        found: the datasets that the pipeline writes.
        record: the result record of the run.
        common: the facts that all events have.
    """
    from spark_jobs.plan.explain import datasets as published

    assets = {each.uri: each for each in operator.outlets if isinstance(each, Asset)}
    aliases = {each.name: each for each in operator.outlets if isinstance(each, AssetAlias)}
    alias = aliases.get(alias_of(operator)) or next(iter(aliases.values()), None)
    lost = []
    for output, counted, files in published.published_datasets(found, record):
        uri = output.uri or published.shared_uri(files)
        if uri is None:
            continue  # an output with a file for each input file, and no input file
        extra = {
            "output": output.node,
            "records": counted["records"],
            "files": counted["files"],
            "schema": output.schema,
            **common,
        }
        asset = Asset(uri=uri)
        if asset.uri in assets:
            events[assets[asset.uri]].extra.update(extra)
        elif alias is not None:
            events[alias].add(asset, extra=extra)
        else:
            lost.append(uri)
    return lost


def _new(there: Sequence[Any], uris: Sequence[str]) -> list[Asset]:
    known = {each.uri for each in there if isinstance(each, Asset)}
    added = {asset.uri: asset for asset in (Asset(uri=uri) for uri in uris) if asset.uri not in known}
    return list(added.values())
