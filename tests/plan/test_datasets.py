"""What a pipeline reads and writes."""

from __future__ import annotations

from spark_jobs import result
from spark_jobs.plan.explain import datasets


def test_several_files_are_told_by_their_folder() -> None:
    assert datasets.shared_uri([]) is None
    assert datasets.shared_uri(["/a/b.csv"]) == "file:///a/b.csv"
    assert datasets.shared_uri(["/a/b/1.csv", "/a/b/2.csv"]) == "file:///a/b"
    assert datasets.shared_uri(["/a/b/1.csv", "/a/c/2.csv"]) == "file:///a"
    assert datasets.shared_uri(["/a/1.csv", "/b/2.csv"]) == "file:///"
    assert datasets.shared_uri(["s3://b/k/1.csv", "s3://b/k/2.csv"]) == "s3://b/k"


def test_files_belong_to_outputs_in_the_order_of_the_record() -> None:
    columns = (datasets.Column("a", "Int"),)
    found = datasets.Datasets("p", (), tuple(datasets.Dataset(name, None, columns) for name in ("x", "y", "z")))
    outputs = (
        {"name": "y", "records": 1, "files": 2},
        {"name": "x", "records": 0, "files": 0},
        {"name": "z", "records": 2, "files": 1},
    )
    told = datasets.published_datasets(
        found, result.RunResult("e", 0, output_files=("/1", "/2", "/3"), outputs=outputs)
    )
    assert [(each.node, files) for each, _, files in told] == [("y", ["/1", "/2"]), ("x", []), ("z", ["/3"])]
