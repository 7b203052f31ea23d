"""Cases and replays as tasks: real commands, without Spark."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.lazily import LazyModule
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import Bucket

pytestmark = pytest.mark.airflow

exceptions = LazyModule("clinker_provider.exceptions")

PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, qty: int}}}
  - {type: transform, name: t, input: s, config: {cxl: 'emit twice = qty * 2'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out.csv}}
"""
CASES = """
pipeline: p.yaml
cases:
  - name: doubles
    given: {s: [{id: 1, qty: 2}]}
    expect: {o: [{id: 1, qty: 2, twice: 4}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "p.test.yaml").write_text(CASES)
    return tmp_path


def cases(folder: Path, **arguments: Any) -> Any:
    from clinker_provider.operators.cases import ClinkerTestOperator

    return ClinkerTestOperator(task_id="run", paths=str(folder), **arguments)


def test_cases_pass(folder: Path, context: Any) -> None:
    report = folder / "report.xml"
    assert cases(folder, junit=report).execute(context) == {"cases": 1, "failed": 0, "failures": []}
    assert "doubles" in report.read_text()


def test_a_case_that_fails_is_named_and_not_retried(folder: Path, context: Any) -> None:
    (folder / "p.yaml").write_text(PIPELINE.replace("qty * 2", "qty * 3"))
    with pytest.raises(
        exceptions.ClinkerConfigError, match=r"(?s)FAIL .*doubles.*1 case: 0 passed, 1 failed"
    ) as raised:
        cases(folder).execute(context)
    assert isinstance(raised.value, exceptions.AirflowFailException)
    assert context["ti"].pushed["return_value"] == {"cases": 1, "failed": 1, "failures": ["doubles"]}


def test_a_folder_without_cases_is_a_mistake(folder: Path, context: Any) -> None:
    (folder / "p.test.yaml").unlink()
    with pytest.raises(exceptions.ClinkerConfigError, match="has no cases"):
        cases(folder).execute(context)


def dead(folder: Path, *further: str) -> Path:
    """A dead-letter file that a run left, and its outputs."""
    from spark_jobs.cli import clinker
    from tests.execute import without_spark

    (folder / "in.csv").write_text("id,qty\n1,2\n2,x\n3,y\n")
    with pytest.MonkeyPatch.context() as patched:
        without_spark.install(patched)
        assert clinker.main(["run", str(folder / "p.yaml"), "--quiet", *further]) == 2
    return folder / "dead.csv"


def replay(folder: Path, path: Any, **arguments: Any) -> Any:
    from clinker_provider.operators.replay import ClinkerDlqReplayOperator

    return ClinkerDlqReplayOperator(
        task_id="run", pipeline=str(folder / "p.yaml"), path=path, validate="off", **arguments
    )


def test_mended_dead_letters_are_replayed(folder: Path, context: Any) -> None:
    path = dead(folder)
    path.write_text(path.read_text().replace(",x,", ",20,").replace(",x\n", ",20\n"))
    returned = replay(folder, path).execute(context)
    assert returned == {"exit_code": 2, "replayed": 1, "left": 1, "dlq_path": str(path)}
    assert "2,20,40" in (folder / "out.csv").read_text()
    with pytest.raises(exceptions.ClinkerDeadLettersError, match=r"1 dead letters are left in .*dead\.csv"):
        replay(folder, path, on_partial="fail").execute(context)
    assert context["ti"].pushed["return_value"]["left"] == 1
    path.write_text(path.read_text().replace(",y,", ",30,").replace(",y\n", ",30\n"))
    assert replay(folder, path).execute(context) == {"exit_code": 0, "replayed": 1, "left": 0, "dlq_path": None}


def test_dead_letters_in_a_store_are_replayed_and_counted(folder: Path, context: Any, s3: Bucket) -> None:
    pipeline = folder / "p.yaml"
    pipeline.write_text(pipeline.read_text().replace("dead.csv", s3.uri("dead.csv")))
    dead(folder, "--allow-absolute-paths")
    text = s3.texts()["dead.csv"]
    s3.put("dead.csv", text.replace(",x,", ",20,").replace(",x\n", ",20\n"))
    task = replay(folder, s3.uri("dead.csv"), on_partial="fail", allow_absolute_paths=True)
    with pytest.raises(exceptions.ClinkerDeadLettersError, match=r"1 dead letters are left in s3://.*dead\.csv"):
        task.execute(context)
    found = context["ti"].pushed["return_value"]
    assert found == {"exit_code": 2, "replayed": 1, "left": 1, "dlq_path": s3.uri("dead.csv")}


@pytest.mark.parametrize("path", ["", "None", None])
def test_without_dead_letters_there_is_nothing_to_replay(path: Any, folder: Path, context: Any) -> None:
    from airflow.providers.common.compat.sdk import AirflowSkipException

    with pytest.raises(AirflowSkipException):
        replay(folder, path).execute(context)


def test_a_file_of_something_else_is_refused_without_retry(folder: Path, context: Any) -> None:
    (folder / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(exceptions.ClinkerConfigError, match=r"other\.csv"):
        replay(folder, folder / "other.csv").execute(context)
    assert context["ti"].pushed["return_value"]["exit_code"] == 1


def test_a_killed_command_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from clinker_provider import process_tree
    from clinker_provider.hooks import clinker_command

    real = subprocess.Popen
    monkeypatch.setattr(
        clinker_command.subprocess, "Popen", lambda command, **more: real(["/bin/sleep", "600"], **more)
    )
    hook = clinker_command.ClinkerCommandHook(execution_id="killed-command", kill_grace_s=0.5)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(hook.run(["test"])))
    thread.start()
    assert until(lambda: bool(process_tree.marked("killed-command")))
    hook.on_kill()
    thread.join(20)
    assert codes[0] < 0
    assert not process_tree.marked("killed-command")
