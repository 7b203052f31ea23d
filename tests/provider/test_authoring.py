"""Other ways to write tasks: functions that give pipelines, folders of pipelines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.lazily import LazyModule

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")


def decorated(spark: Any, function: Any, **arguments: Any) -> Any:
    """The operator of a function, with the fake `spark-submit`."""
    from airflow.providers.common.compat.sdk import DAG

    from clinker_provider.decorators.clinker import clinker_task

    job = {"exit": 0, "record": {}, "notes": str(spark.folder / "notes.json")}
    with DAG("etl", schedule=None):
        return clinker_task(
            function,
            task_id="run",
            master="local[1]",
            spark_binary=str(spark.binary),
            work_dir=str(spark.work),
            env_vars={"FAKE_JOB": json.dumps(job)},
            **{"validate": "off", "base_dir": str(spark.folder), **arguments},
        )().operator


def pipeline_given(spark: Any) -> str:
    """The pipeline on the command line of `spark-submit`."""
    argv: list[str] = spark.notes["argv"]
    (found,) = [each for each in argv if each.endswith(".yaml")]
    return found


@pytest.mark.parametrize("kind", [str, Path])
def test_a_function_gives_a_path(kind: Any, spark: Any, context: Any) -> None:
    returned = decorated(spark, lambda: kind(spark.pipeline)).execute(context)
    assert returned["status"] == "success"
    assert pipeline_given(spark) == str(spark.pipeline)


PIPELINE = {
    "pipeline": {"name": "made"},
    "nodes": [
        {"type": "source", "name": "s", "config": {"type": "csv", "path": "in.csv", "schema": {"a": "int"}}},
        {"type": "output", "name": "o", "input": "s", "config": {"type": "csv", "path": "out.csv"}},
    ],
}


@pytest.mark.parametrize("given", [PIPELINE, json.dumps(PIPELINE, indent=1)], ids=["dictionary", "text"])
def test_a_function_gives_a_pipeline(given: Any, spark: Any, context: Any) -> None:
    decorated(spark, lambda: given, validate="execute").execute(context)
    argv = spark.notes["argv"]
    assert argv[argv.index("--base-dir") + 1] == str(spark.folder), "where its paths start"
    assert Path(pipeline_given(spark)).name == "run.yaml"
    assert list(spark.work.iterdir()) == [], "the file is gone"


def test_a_pipeline_that_a_function_gives_is_checked(spark: Any, context: Any) -> None:
    broken = {**PIPELINE, "nodes": [*PIPELINE["nodes"], {"type": "nothing", "name": "x"}]}  # type: ignore[misc]
    with pytest.raises(exceptions.ClinkerConfigError, match=r"run\.yaml:\d+:\d+ E\d+"):
        decorated(spark, lambda: broken, validate="execute").execute(context)
    assert not (spark.folder / "notes.json").exists()


def test_a_function_gives_variables(spark: Any, context: Any) -> None:
    def variables(ti: Any) -> dict[str, Any]:
        return {"DAY": ti.dag_id}

    decorated(spark, variables, pipeline=str(spark.pipeline)).execute(context)
    assert spark.notes["environ"]["DAY"] == "d", "and takes the task's context"
    assert pipeline_given(spark) == str(spark.pipeline)


@pytest.mark.parametrize("given", [None, 7, "", {"DAY": "x"}, ["a"]])
def test_what_is_no_pipeline_ends_before_the_run(given: Any, spark: Any, context: Any) -> None:
    with pytest.raises(exceptions.ClinkerConfigError, match=r"neither a path, nor a pipeline .* names no `pipeline`"):
        decorated(spark, lambda: given).execute(context)


def test_the_decorator_is_found_under_task() -> None:
    from airflow.providers.common.compat.sdk import task

    assert task.clinker.__name__ == "clinker_task"


def pipeline_file(path: Path, source: str, output: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "pipeline: {name: p}\nnodes:\n"
        f"  - {{type: source, name: s, config: {{type: csv, {source}, schema: {{a: int}}}}}}\n"
        f"  - {{type: output, name: o, input: s, config: {{type: csv, path: '{output}'}}}}\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pipeline_file(tmp_path / "etl/raw.yaml", "path: in.csv", "data/a b.csv")
    pipeline_file(tmp_path / "etl/clean.yaml", "path: 'data/a b.csv'", "data/deep/clean.csv")
    pipeline_file(tmp_path / "etl/sub/all.yml", "glob: '../**/*.csv'", "all.csv")
    pipeline_file(tmp_path / "etl/alone.yaml", "path: x.csv", "y_{batch_id}.csv")
    (tmp_path / "etl/channel.yaml").write_text("vars: {a: 1}\n")
    (tmp_path / "etl/raw.test.yaml").write_text("pipeline: raw.yaml\n")
    return tmp_path / "etl"


def group(folder: Path, **arguments: Any) -> Any:
    from airflow.providers.common.compat.sdk import DAG

    from clinker_provider.task_groups.pipelines import ClinkerTaskGroup

    with DAG("etl", schedule=None):
        return ClinkerTaskGroup(folder=folder, **arguments)


def edges(found: Any) -> set[tuple[str, str]]:
    return {
        (above.removeprefix("etl."), name)
        for name, task in found.tasks_by_name.items()
        for above in task.upstream_task_ids
    }


def test_a_folder_is_a_group_in_the_order_of_its_files(folder: Path) -> None:
    found = group(folder, pattern="*.yaml")
    assert found.group_id == "etl"
    assert sorted(found.children) == ["etl.alone", "etl.clean", "etl.raw"]
    assert edges(found) == {("raw", "clean")}


def test_patterns_of_sources_make_an_order_too(folder: Path, tmp_path: Path) -> None:
    pipeline_file(folder / "sub/all.yml", f"glob: '{folder}/data/**/*.csv'", "all.csv")
    found = group(folder, operator_args={"allow_absolute_paths": True, "retries": 2})
    assert edges(found) == {("raw", "clean"), ("raw", "sub_all"), ("clean", "sub_all")}
    assert {task.retries for task in found.tasks_by_name.values()} == {2}


def test_single_pipelines_take_arguments_of_their_own(folder: Path) -> None:
    (folder / "sub/all.yml").unlink()
    found = group(folder, group_id="g", operator_args={"retries": 2}, overrides={"raw": {"retries": 5}})
    assert {name: task.retries for name, task in found.tasks_by_name.items()} == {"raw": 5, "clean": 2, "alone": 2}
    with pytest.raises(exceptions.ClinkerPipelineInvalid, match="no pipeline 'row'; it has"):
        group(folder, overrides={"row": {}})


def test_a_circle_is_told(folder: Path) -> None:
    (folder / "sub/all.yml").unlink()
    pipeline_file(folder / "raw.yaml", "path: data/deep/clean.csv", "data/a b.csv")
    with pytest.raises(exceptions.ClinkerPipelineInvalid, match=r"in a circle: (raw|clean) -> (raw|clean) -> "):
        group(folder)


def test_a_folder_without_pipelines_is_told(tmp_path: Path) -> None:
    with pytest.raises(exceptions.ClinkerPipelineInvalid, match="has no pipeline"):
        group(tmp_path)


def test_a_mistake_names_its_pipeline(folder: Path) -> None:
    (folder / "sub/all.yml").unlink()
    (folder / "raw.yaml").write_text("pipeline: {name: p}\nnodes: [{type: nothing, name: x}]\n")
    with pytest.raises(exceptions.ClinkerPipelineInvalid, match=r"task 'etl\.raw'.*\n.*raw\.yaml:2"):
        group(folder)
