"""Fixtures of the provider's tests: a fake `spark-submit`, a task context, fake diagnostics."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from clinker_provider import validation

FAKE = Path(__file__).with_name("fake_spark_submit.py")


class FakeSpark:
    """Makes operators that call the fake `spark-submit`, and records the arguments of its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.binary = folder / "bin" / "spark-submit"
        self.binary.parent.mkdir()
        self.binary.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        self.binary.chmod(0o755)
        self.pipeline = folder / "p.yaml"
        self.pipeline.write_text("pipeline: {name: p}\n")
        self.work = folder / "work"
        self.work.mkdir()

    def operator(self, job: dict[str, Any], **arguments: Any) -> Any:
        from clinker_provider.operators.spark import ClinkerSparkOperator

        env_vars = {"FAKE_JOB": self.job(job)}
        defaults = {
            "task_id": "run",
            "pipeline": str(self.pipeline),
            "validate": "off",
            "master": "local[1]",
            "spark_binary": str(self.binary),
            "work_dir": str(self.work),
            "env_vars": {**env_vars, **arguments.pop("env_vars", {})},
        }
        return ClinkerSparkOperator(**{**defaults, **arguments})

    def job(self, job: dict[str, Any]) -> str:
        """The instructions for the fake, as JSON."""
        return json.dumps({"notes": str(self.folder / "notes.json"), **job})

    @property
    def notes(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "notes.json").read_text()))


@pytest.fixture
def spark(tmp_path: Path) -> FakeSpark:
    return FakeSpark(tmp_path)


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A task context whose `ti` records pushed XComs in `pushed`, including links.

    Each has a run of its own: a run's processes are ended by its name, wherever on the machine they are.
    """
    from clinker_provider.compat import BaseXCom

    pushed: dict[str, Any] = {}
    ti = Mock(dag_id="d", task_id="run", run_id=f"manual__{uuid.uuid4()}", map_index=-1, try_number=1)
    monkeypatch.setattr(BaseXCom, "set", lambda key, value, **where: pushed.update({key: value}))
    ti.max_tries = 2
    ti.xcom_push.side_effect = lambda key, value: pushed.update({key: value})
    ti.pushed = pushed
    run = SimpleNamespace(start_date="2026-01-01 00:00:01+00:00", clear_number=0)
    return {"ti": ti, "dag_run": run}


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests leave nothing in the cache folder of the person who runs them."""
    monkeypatch.setenv("AIRFLOW__CLINKER__REMEMBER_VALID", "False")


class Diagnosed:
    """Replaces planning: returns the given problems, and records the pipelines that were planned."""

    def __init__(self) -> None:
        self.problems: list[Any] = []
        self.subjects: list[validation.Subject] = []

    def report(self, text: str, *, is_error: bool = True) -> None:
        """Let the next checks find this problem."""

        class Problem(SimpleNamespace):
            def __str__(self) -> str:
                return text

        self.problems.append(Problem(is_error=is_error))

    def problems_of(self, subject: validation.Subject) -> list[Any]:
        self.subjects.append(subject)
        return list(self.problems)

    def verdict_of(self, subject: validation.Subject, *, remembers: bool) -> Any:
        return SimpleNamespace(problems=self.problems_of(subject), datasets=None)


@pytest.fixture
def diagnosed(monkeypatch: pytest.MonkeyPatch) -> Diagnosed:
    """Replaces planning."""
    found = Diagnosed()
    monkeypatch.setattr(validation, "problems_of", found.problems_of)
    monkeypatch.setattr(validation, "verdict_of", found.verdict_of)
    monkeypatch.setattr(validation, "explain", lambda subject, arguments: f"plan of {subject.pipeline.name}")
    monkeypatch.setattr(validation, "message", lambda problems: "\n".join(map(str, problems)))
    return found
