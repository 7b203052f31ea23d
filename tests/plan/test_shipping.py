"""Packing a pipeline for a driver that has none of its files."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.plan import shipping
from spark_jobs.plan.options import PlanOptions

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: orders}
error_handling: {strategy: continue, dlq: {path: "s3://acme/dead.csv"}}
nodes:
  - {type: source, name: orders, config: {type: csv, path: "s3://acme/in.csv", schema: {qty: int}}}
  - {type: transform, name: twice, input: orders, config: {cxl: "use prices\\nemit twice = prices.twice(qty)"}}
  - {type: composition, name: more, use: parts/more.comp.yaml, input: twice}
  - {type: output, name: all, input: more, config: {type: csv, path: "s3://acme/all.csv"}}
"""
COMPOSITION = """
_compose:
  name: more
  inputs: {rows: {schema: {twice: int}}}
  outputs: {out: added}
nodes:
  - {type: transform, name: added, input: rows, config: {cxl: "emit more = twice + 1"}}
"""
CHANNEL = "channel: {name: eu, target: orders.yaml}\n"


@pytest.fixture
def etl(tmp_path: Path) -> Path:
    for name, text in {
        "etl/clinker.toml": '[storage.s3]\nregion = "eu-central-1"\n',
        "etl/a/orders.yaml": PIPELINE,
        "etl/a/parts/more.comp.yaml": COMPOSITION,
        "etl/a/rules/prices.cxl": "fn twice(n) = n * 2\n",
        "etl/a/rules/unused.cxl": "fn half(n) = n / 2\n",
        "etl/a/eu.channel.yaml": CHANNEL,
        "etl/a/data.csv": "qty\n1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "etl"


def test_what_planning_reads_travels_and_nothing_else(etl: Path, tmp_path: Path) -> None:
    options = PlanOptions(allow_absolute_paths=True, channel="eu")
    shipment = shipping.pack(etl / "a/orders.yaml", options, tmp_path / "d.zip")
    with zipfile.ZipFile(tmp_path / "d.zip") as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
    assert files == {
        "clinker.toml", "a/orders.yaml", "a/parts/more.comp.yaml", "a/rules/prices.cxl", "a/eu.channel.yaml",
    }  # fmt: skip
    assert shipment.archive == f"{tmp_path / 'd.zip'}#clinker-definitions"
    assert shipment.stores.s3.region == "eu-central-1"


@pytest.mark.parametrize("channel", [None, "eu", "file"])
def test_the_plan_is_the_same_where_it_arrives(
    etl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channel: str | None
) -> None:
    named = str(etl / "a/eu.channel.yaml") if channel == "file" else channel
    options = PlanOptions(allow_absolute_paths=True, channel=named)
    here = planning.load(etl / "a/orders.yaml", options)
    shipment = shipping.pack(etl / "a/orders.yaml", options, tmp_path / "d.zip")
    container = tmp_path / "container"
    zipfile.ZipFile(tmp_path / "d.zip").extractall(container / "clinker-definitions")
    monkeypatch.chdir(container)
    there = planning.load(shipment.pipeline, shipment.options)
    assert (there.source_hash, there.channel, there.stores) == (here.source_hash, here.channel, here.stores)
    assert [node.outputs for node in there.nodes] == [node.outputs for node in here.nodes]


def test_relative_paths_of_data_are_refused_with_who_names_them(etl: Path, tmp_path: Path) -> None:
    text = PIPELINE.replace("s3://acme/in.csv", "data.csv").replace("s3://acme/dead.csv", "out/dead.csv")
    (etl / "a/orders.yaml").write_text(text)
    with pytest.raises(shipping.NotShippable) as refused:
        shipping.pack(etl / "a/orders.yaml", PlanOptions(allow_absolute_paths=True), tmp_path / "d.zip")
    assert str(refused.value) == (
        "the driver runs on another machine, where relative paths lead nowhere: `data.csv` (source 'orders'), "
        "`out/dead.csv` (error_handling.dlq.path). Write URIs of a store, or absolute paths of a mount that all "
        "machines share"
    )


def test_files_outside_the_base_folder_are_refused(etl: Path, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (etl / "a/rules/prices.cxl").rename(tmp_path / "rules/prices.cxl")
    options = PlanOptions(allow_absolute_paths=True, rules_path=tmp_path / "rules")
    with pytest.raises(
        shipping.NotShippable, match=r"prices\.cxl is outside .*/etl, and only what is below it travels"
    ):
        shipping.pack(etl / "a/orders.yaml", options, tmp_path / "d.zip")


def test_a_pipeline_file_outside_its_base_folder_travels_in_a_folder_of_its_own(
    etl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = tmp_path / "elsewhere/orders.yaml"
    pipeline.parent.mkdir()
    (etl / "a/orders.yaml").rename(pipeline)
    options = PlanOptions(allow_absolute_paths=True, base_dir=etl / "a")
    here = planning.load(pipeline, options)
    shipment = shipping.pack(pipeline, options, tmp_path / "d.zip")
    container = tmp_path / "container"
    zipfile.ZipFile(tmp_path / "d.zip").extractall(container / "clinker-definitions")
    monkeypatch.chdir(container)
    there = planning.load(shipment.pipeline, shipment.options)
    assert (there.source_hash, there.stores) == (here.source_hash, here.stores)
    assert [node.outputs for node in there.nodes] == [node.outputs for node in here.nodes]


def test_the_variables_of_all_files_are_known(etl: Path, tmp_path: Path) -> None:
    (etl / "a/orders.yaml").write_text(PIPELINE.replace("all.csv", "${DAY:-x}.csv"))
    shipment = shipping.pack(etl / "a/orders.yaml", PlanOptions(allow_absolute_paths=True), tmp_path / "d.zip")
    assert shipment.variables == {"DAY"}
