"""The plugin: a page of each task, in Airflow 3.1 and later, and a listener that counts lost attempts.

The page is part of Airflow's API server: users who may read a DAG's task instances and XComs may read it. It reads
only Airflow's database. Web frameworks are imported at the first request, because every process of Airflow loads
plugins.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowPlugin
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_0_PLUS

from clinker_provider.plugins import listener

if TYPE_CHECKING:
    from clinker_provider.plugins.page import Run

PREFIX = "/clinker"
#: The page runs, loads and sends nothing, whatever it contains.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox"
)
#: The placeholder in addresses of Airflow's pages for a task that is not mapped.
_NOT_MAPPED = "{MAP_INDEX}"
_KEYS = (
    "status", "exit_code", "reason", "dlq_count", "dlq_paths", "dlq_reasons", "pipeline_path", "execution_id", "master",
    "application_id", "taken_from", "return_value", "on_call",
)  # fmt: skip


class Pages:
    """The web application, made when it is first asked."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, as ASGI has it."""
        if self._app is None:
            self._app = application()
        await self._app(scope, receive, send)


def application() -> Any:
    """The web application behind Airflow's login."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse

    from clinker_provider.plugins import page

    app = FastAPI(title="Clinker", docs_url=None, redoc_url=None, openapi_url=None)

    def task(dag_id: str, run_id: str, task_id: str, map_index: str) -> HTMLResponse:
        number = _number_of(map_index)
        run, earlier = (None, []) if number is None else runs(dag_id, run_id, task_id, number)
        if run is None:
            return HTMLResponse("<p>There is no such task.</p>", status_code=404)
        return HTMLResponse(
            page.page(dag_id, task_id, run, earlier),
            headers={"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"},
        )

    app.get(
        "/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/{map_index}",
        # The list of runs comes from task instances, and their results from XComs.
        dependencies=[
            Depends(requires_access_dag("GET", entity))
            for entity in (DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
        ],
        response_class=HTMLResponse,
        response_model=None,
    )(_with_plain_annotations(task))
    return app


def _with_plain_annotations(function: Any) -> Any:
    """FastAPI reads annotations; the names of this module's are only known where the function was made."""
    function.__annotations__ = dict.fromkeys(("dag_id", "run_id", "task_id", "map_index"), str)
    return function


def _number_of(map_index: str) -> int | None:
    """The index of a mapped task, -1 for one that is not mapped, None where it is neither."""
    if map_index == _NOT_MAPPED:
        return -1
    return int(map_index) if re.fullmatch("-?[0-9]{1,9}", map_index) else None


def runs(dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[Run | None, list[Run]]:
    """A run of a task and the runs before it, the latest first, with their XComs."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    from clinker_provider.plugins.page import EARLIER, Run

    with create_session() as session:
        of_task = (
            TaskInstance.dag_id == dag_id, TaskInstance.task_id == task_id, TaskInstance.map_index == map_index
        )  # fmt: skip
        columns = (TaskInstance.run_id, TaskInstance.state, TaskInstance.start_date, TaskInstance.duration)
        own = session.execute(select(*columns).where(*of_task, TaskInstance.run_id == run_id)).first()
        if own is None:
            return None, []
        query = select(*columns).where(*of_task, TaskInstance.run_id != run_id, TaskInstance.start_date.is_not(None))
        if own.start_date is not None:
            query = query.where(TaskInstance.start_date < own.start_date)
        before = session.execute(query.order_by(TaskInstance.start_date.desc()).limit(EARLIER)).all()
        wanted = select(XComModel.run_id, XComModel.key, XComModel.value).where(
            XComModel.dag_id == dag_id,
            XComModel.task_id == task_id,
            XComModel.map_index == map_index,
            XComModel.run_id.in_([each.run_id for each in (own, *before)]),
            XComModel.key.in_(_KEYS),
        )
        pushed: dict[str, dict[str, Any]] = {}
        for row in session.execute(wanted):
            pushed.setdefault(row.run_id, {})[row.key] = _plain(row.value)
    found = [
        Run(
            each.run_id,
            str(each.state) if each.state else None,
            each.start_date.strftime("%Y-%m-%d %H:%M:%S") if each.start_date else "",
            each.duration,
            pushed.get(each.run_id, {}),
        )
        for each in (own, *before)
    ]
    return found[0], found[1:]


def _plain(value: Any) -> Any:
    """An XCom as the database has it, as plain JSON values.

    Airflow's own way to read an XCom builds objects of the classes that it names, which a server that others share does
    not do for a task.
    """
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


class ClinkerPlugin(AirflowPlugin):
    """The plugin, which Airflow finds through the provider's metadata."""

    name = "clinker"
    #: Airflow 2 calls listeners in workers as well, where the operator has sent the figures.
    listeners: list[Any] = [listener] if AIRFLOW_V_3_0_PLUS else []
    fastapi_apps: list[Any] = [{"app": Pages(), "url_prefix": PREFIX, "name": "Clinker"}]  # noqa: RUF012
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Clinker",
            # Relative to the base of Airflow's pages, so that it is right behind a proxy that adds a prefix, too.
            "href": f"{PREFIX[1:]}/dags/{{DAG_ID}}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}/{_NOT_MAPPED}",
            "destination": "task_instance",
            "url_route": "clinker",
        }
    ]
