"""How the engine gets to executors, and what their Python workers are started with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.spark import shipping

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = str(Path(__file__).resolve().parents[3])
OWN_DAEMON = {"spark.python.daemon.module": "spark_jobs.execute.spark.worker_daemon"}


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package comes from a zip, as `spark-submit --py-files` brings it."""
    (tmp_path / "engine-1.zip").touch()
    monkeypatch.setattr(shipping, "root", lambda: str(tmp_path / "engine-1.zip"))


def settings(master: str, known: Mapping[str, str] | None = None) -> dict[str, str]:
    return shipping.settings(master, known or {})


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]"])
def test_workers_of_an_embedded_spark_have_this_very_package(master: str) -> None:
    assert settings(master) == {"spark.executorEnv.PYTHONPATH": ROOT, **OWN_DAEMON}


def test_workers_of_a_submitted_embedded_spark_have_the_zip(shipped: None) -> None:
    assert settings("local[2]")["spark.executorEnv.PYTHONPATH"] == shipping.root()


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h"])
def test_executors_have_the_zip_of_their_working_folder(master: str) -> None:
    found = settings(master)
    assert found["spark.executorEnv.PYTHONPATH"] == "spark_jobs.zip"
    assert OWN_DAEMON.items() <= found.items()
    assert "TieredStopAtLevel=1" in found["spark.executor.defaultJavaOptions"]


def test_executors_have_the_zip_by_its_own_name(shipped: None) -> None:
    assert settings("yarn")["spark.executorEnv.PYTHONPATH"] == "engine-1.zip"


def test_what_users_set_stays() -> None:
    given = {
        "spark.executorEnv.PYTHONPATH": "theirs",
        "spark.python.daemon.module": "their.daemon",
        "spark.executor.defaultJavaOptions": "-Dtheirs",
    }
    assert settings("yarn", given) == {"spark.executorEnv.PYTHONPATH": "spark_jobs.zip:theirs"}
    assert "spark.python.daemon.module" not in settings("yarn", {"spark.python.use.daemon": "false"})


@pytest.mark.parametrize(
    ("master", "is_shipped", "adds"),
    [("spark://h:7077", False, True), ("yarn", True, False), ("local[2]", False, False), ("local[2]", True, False)],
)
def test_executors_get_the_engine_once(
    master: str, is_shipped: bool, adds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[Any] = []
    monkeypatch.setattr(shipping, "is_shipped", lambda: is_shipped)
    shipping.ship(SimpleNamespace(sparkContext=SimpleNamespace(master=master, addPyFile=added.append)))  # type: ignore[arg-type]
    assert [Path(path).name for path in added] == (["spark_jobs.zip"] if adds else [])
