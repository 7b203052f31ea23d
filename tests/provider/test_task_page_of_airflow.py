"""The page of a task as Airflow's API server has it: its database, its rights, its plugins."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import clinker_provider
from clinker_provider.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from collections.abc import Iterator

security = pytest.importorskip("airflow.api_fastapi.core_api.security", reason="Airflow 3 has the web application")
if not hasattr(security, "COOKIE_NAME_JWT_TOKEN"):
    pytest.skip("pages of tasks are for Airflow 3.1", allow_module_level=True)
pytestmark = pytest.mark.airflow

PROVIDER = Path(clinker_provider.__file__).parent
ADDRESS = "/clinker/dags/etl/runs/r+{run}/tasks/{task}/{index}"


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Airflow's tables in a file of their own."""
    from airflow import settings
    from airflow.models import import_all_models
    from airflow.models.base import Base
    from sqlalchemy import create_engine
    from sqlalchemy.orm import scoped_session, sessionmaker

    import_all_models()
    engine = create_engine(f"sqlite:///{tmp_path / 'airflow.db'}")
    Base.metadata.create_all(engine)
    made = scoped_session(sessionmaker(bind=engine, expire_on_commit=False))
    monkeypatch.setattr(settings, "Session", made)
    session = made()
    yield session
    made.remove()
    engine.dispose()


def ran(session: Any, run: int, task: str, index: int = -1, **xcoms: Any) -> None:
    """A task instance of a DAG run with what it has pushed, as a worker of Airflow 3 stores it."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import insert

    when = datetime(2026, 1, run, 3, 4, 5, tzinfo=UTC)
    required = {
        each.name: 0 if each.type.python_type is int else ""
        for each in TaskInstance.__table__.columns
        if not each.nullable and each.default is None and each.server_default is None and not each.foreign_keys
    }
    where = {"dag_id": "etl", "run_id": f"r+{run}", "task_id": task, "map_index": index}
    # Before Airflow 3.2 the database has the id as a text.
    name = uuid.uuid4() if hasattr(TaskInstance.id.type, "as_uuid") else str(uuid.uuid4())
    row = {**required, **where, "id": name, "state": "success", "start_date": when, "duration": 3.5}
    session.execute(insert(TaskInstance.__table__).values(**row))
    for key, value in xcoms.items():
        session.execute(insert(XComModel.__table__).values(dag_run_id=run, key=key, value=value, **where))
    session.commit()


class Manager:
    """Knows users by what they may read: a list of entities, of one DAG."""

    async def get_user_from_token(self, token: str) -> str:
        return token

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: str) -> bool:
        dag, *entities = user.split("+")
        return method == "GET" and details.id == dag and access_entity.value in entities


@pytest.fixture
def visit(database: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Asks for a page as a user."""
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from clinker_provider.plugins import clinker

    monkeypatch.setattr(security, "get_auth_manager", Manager)
    app = FastAPI()
    app.mount(clinker.PREFIX, clinker.Pages())

    def visit(run: int, task: str, index: object = -1, *, user: str | None = "etl+XCOM+TASK_INSTANCE") -> Any:
        cookies = {security.COOKIE_NAME_JWT_TOKEN: user} if user else {}
        return TestClient(app, cookies=cookies).get(ADDRESS.format(run=run, task=task, index=index))

    return visit


def test_a_page_has_the_runs_before_it_from_the_database(database: Any, visit: Any) -> None:
    nodes = {"rows": {"kind": "source", "records_in": 5, "records_out": 5}}
    for run in (1, 2, 3):
        kept = {"nodes": nodes, "digests": {"rows": str(run)}}
        told = {"records": {"total": 10 + run, "written": run}}
        ran(database, run, "orders", status="success", exit_code=0, return_value=told, on_call=kept)
    answer = visit(2, "orders")
    assert answer.status_code == 200
    assert "<td>rows</td><td>source</td>" in answer.text
    assert "node rows changed" in answer.text
    assert [f"<td>r+{run}</td>" in answer.text for run in (1, 2, 3)] == [True, True, False]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert answer.headers["Content-Security-Policy"].endswith("; sandbox")


def test_each_mapped_task_has_a_page_of_its_own(database: Any, visit: Any) -> None:
    for index in (0, 1):
        ran(database, 1, "mapped", index, status="success", exit_code=0, pipeline_path=f"/p/{index}.yaml")
    ran(database, 1, "single", status="success", exit_code=0)
    assert "/p/1.yaml" in visit(1, "mapped", 1).text
    assert "/p/0.yaml" not in visit(1, "mapped", 1).text
    assert visit(1, "single", "{MAP_INDEX}").status_code == 200, "as Airflow's pages leave it"
    for index in (2, "{MAP_INDEX}", "²", "--1", "1.0", "9" * 30, "x"):
        assert visit(1, "mapped", index).status_code == 404


def test_rights_to_the_dag_and_to_what_is_shown_are_asked_for(database: Any, visit: Any) -> None:
    ran(database, 1, "t", status="success", exit_code=0)
    assert visit(1, "t").status_code == 200
    assert visit(1, "t", user=None).status_code == 401
    for user in ("other+XCOM+TASK_INSTANCE", "etl+XCOM", "etl+TASK_INSTANCE", "etl"):
        assert visit(1, "t", user=user).status_code == 403


def test_nothing_of_an_xcom_is_built_or_read(database: Any, visit: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("SECRET")
    named = {"__classname__": "pathlib.PurePath", "__version__": 1, "__data__": str(tmp_path / "secret")}
    path = str(tmp_path / "secret")
    ran(
        database, 1, "t", status="success", exit_code=json.dumps(named), pipeline_path=named, dlq_paths=[path],
        dlq_count=1, return_value="s3://bucket/elsewhere", on_call=path,
    )  # fmt: skip
    answer = visit(1, "t")
    assert answer.status_code == 200
    assert "__classname__" in answer.text
    assert "SECRET" not in answer.text


def test_tasks_of_other_operators_have_a_page(database: Any, visit: Any) -> None:
    ran(database, 1, "bash", return_value="hello")
    ran(database, 2, "bash", return_value=["hello"])
    assert "it is no Clinker task" in visit(2, "bash").text


def test_the_tab_is_found_once_and_below_the_base_of_airflow() -> None:
    from clinker_provider.plugins.clinker import ClinkerPlugin

    project = tomllib.loads((PROVIDER / "pyproject.toml").read_text())["project"]
    (found,) = project["entry-points"]["airflow.plugins"].items()
    assert EntryPoint(*found, group="airflow.plugins").load() is ClinkerPlugin
    assert "plugins" not in get_provider_info(), "the second one would be an error on the page of plugins"
    (view,) = ClinkerPlugin.external_views
    assert view["href"].startswith("clinker/"), "a path from the root is wrong where Airflow has a prefix"


def test_a_process_that_loads_plugins_loads_no_web() -> None:
    program = (
        "import sys; from airflow.providers.common.compat.sdk import AirflowPlugin; before = set(sys.modules); "
        "import clinker_provider.plugins.clinker; print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.splitlines()[-1].split()) <= {
        "clinker_provider", "clinker_provider.plugins", "clinker_provider.plugins.clinker",
        "clinker_provider.plugins.listener",
    }  # fmt: skip
