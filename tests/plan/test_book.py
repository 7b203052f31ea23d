"""The book's complete pipelines load, bind and explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs import plan
from spark_jobs.plan.explain import explain
from tests.plan.pipelines import options

BOOK = Path(__file__).resolve().parents[2] / "examples" / "book"


@pytest.mark.parametrize("path", sorted(BOOK.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_pipeline_of_the_book_loads_binds_and_explains(path: Path) -> None:
    read = plan.load(path, options())
    text = explain.text(read)
    for node in read.nodes:
        assert node.name in text
    assert explain.as_json(read)
    assert explain.dot(read)


def test_the_books_channel_replaces_defaults_in_all_registries() -> None:
    channel = str(BOOK / "channels" / "acme-prod.channel.yaml")
    read = plan.load(BOOK / "orders.yaml", options(channel=channel))
    assert read.variables["vars.fuzzy_threshold"] == 0.95
    assert read.variables["record.tier"] == "platinum"
    assert read.variables["source.ingest_label@orders_src"] == "acme-prod"
    assert not read.warnings
