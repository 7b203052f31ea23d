"""What is static, where a pipeline is, what a check is asked: without Airflow."""

from __future__ import annotations

from pathlib import Path

import pytest

from clinker_provider import validation
from spark_jobs.stores import location


@pytest.mark.parametrize(
    ("value", "is_static"),
    [
        (None, True),
        ("a/b.yaml", True),
        ("{ not a template }", True),
        (Path("p.yaml"), True),
        ({"A": "1", "B": ["x", 2]}, True),
        ("{{ ds }}/p.yaml", False),
        ("{% if x %}p{% endif %}", False),
        ("{# note #}p", False),
        ({"A": "{{ ds }}"}, False),
        (["x", {"y": "{{ z }}"}], False),
        (object(), False),  # an XComArg is known when the task runs
    ],
)
def test_what_is_known_when_the_file_is_parsed(value: object, is_static: bool) -> None:
    assert validation.is_static(value) is is_static
    assert validation.is_static("plain", value) is is_static


@pytest.mark.parametrize(
    ("pipeline", "root", "folder", "found"),
    [
        ("/a/p.yaml", "/r", "/d", "/a/p.yaml"),
        ("p.yaml", "/r", "/d", "/r/p.yaml"),
        ("p.yaml", None, "/d", "/d/p.yaml"),
        ("../examples/p.yaml", None, "/d/dags", "/d/examples/p.yaml"),
        ("p.yaml", None, None, None),
    ],
)
def test_where_a_pipeline_is(pipeline: str, root: str | None, folder: str | None, found: str | None) -> None:
    assert validation.resolve(pipeline, root=root, dag_folder=folder) == (Path(found) if found else None)


def test_a_pipeline_in_a_store_is_where_its_uri_says() -> None:
    found = validation.resolve("s3://acme/folder//p.yaml", root="/r", dag_folder="/d")
    assert found == location.Location("s3", "acme", "folder//p.yaml")
    with pytest.raises(location.BadLocation, match="no client is known for ftp"):
        validation.resolve("ftp://b/p.yaml", root="/r", dag_folder="/d")


@pytest.mark.parametrize(("path", "is_remote"), [("s3://b/p.yaml", True), ("/a/p.yaml", False), ("a:b.yaml", False)])
def test_remote_pipelines_are_known(path: str, is_remote: bool) -> None:
    assert validation.is_remote(path) is is_remote


def test_variables_of_the_task_come_before_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "north")
    monkeypatch.setenv("OTHER", "kept")
    subject = validation.Subject(Path("p.yaml"), environment="prod", variables={"REGION": "south"})
    options = subject.options()
    assert (options.variables["REGION"], options.variables["OTHER"]) == ("south", "kept")
    assert options.environment == "prod"


def test_long_plans_are_cut_at_a_line_and_say_so() -> None:
    text = "\n".join(f"node {number}" for number in range(100))
    cut = validation.shortened(text, 200)
    assert len(cut) <= 200
    *lines, note = cut.splitlines()
    assert lines == text.splitlines()[: len(lines)]
    assert "--explain" in note
    assert validation.shortened(text, len(text)) == text
    assert validation.shortened("x" * 300, 200).strip().startswith("…")
