"""Links appear where a template says how, and only for what is there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.airflow

VALUES = {"application_id": "app-1", "dlq_path": "/data/a b/dead#1.csv", "metrics_path": None, "exit_code": 2}


def link(name: str, templates: dict[str, str] | None, values: dict[str, Any] = VALUES) -> str:
    from clinker_provider.links import clinker

    operator: Any = SimpleNamespace(link_templates=templates, link_values=values)
    return str(getattr(clinker, name)().url(operator))


def test_placeholders_are_filled_and_quoted() -> None:
    assert link("SparkHistoryLink", {"history_url": "http://h/history/{application_id}/"}) == "http://h/history/app-1/"
    assert link("DeadLettersLink", {"dlq_url": "https://f{dlq_path}"}) == "https://f/data/a%20b/dead%231.csv"


def test_nothing_to_link_to_is_no_link() -> None:
    assert link("MetricsLink", {"metrics_url": "https://f{metrics_path}"}) == ""
    assert link("DeadLettersLink", None) == ""
    assert link("DeadLettersLink", {"dlq_url": "https://f{dlq_path}"}, {}) == ""


def test_configuration_gives_the_template_that_the_operator_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CLINKER__DLQ_URL", "https://files{dlq_path}")
    assert link("DeadLettersLink", None, {"dlq_path": "/x.csv"}) == "https://files/x.csv"


@pytest.mark.parametrize(("leaves_event_log", "url"), [(True, "http://h/app-1"), (False, "")])
def test_without_an_event_log_there_is_no_history(leaves_event_log: bool, url: str) -> None:
    from clinker_provider.links import clinker

    operator: Any = SimpleNamespace(
        link_templates={"history_url": "http://h/{application_id}"},
        link_values=VALUES,
        leaves_event_log=leaves_event_log,
    )
    assert clinker.SparkHistoryLink().url(operator) == url


def test_links_of_airflow_2_are_stored_by_the_task_and_read_by_its_web_server(
    spark: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clinker_provider import compat
    from clinker_provider.links import clinker
    from clinker_provider.operators import spark as operators

    monkeypatch.setattr(compat, "MAKES_LINKS_IN_TASKS", False)
    monkeypatch.setattr(operators, "MAKES_LINKS_IN_TASKS", False)
    monkeypatch.setattr(compat.XCom, "get_value", lambda ti_key, key: context["ti"].pushed.get(key))
    job = {"exit": 2, "record": {"dlq_count": 1, "dlq_path": "/data/dead.csv"}}
    operator = spark.operator(job, link_templates={"dlq_url": "https://f{dlq_path}"})
    operator.execute(context)
    unknowing, ti_key = SimpleNamespace(), SimpleNamespace()
    assert clinker.DeadLettersLink().get_link(unknowing, ti_key=ti_key) == "https://f/data/dead.csv"
    assert clinker.MetricsLink().get_link(unknowing, ti_key=ti_key) == ""


def test_unknown_placeholders_are_named() -> None:
    with pytest.raises(ValueError, match="names 'run'"):
        link("DeadLettersLink", {"dlq_url": "https://f/{run}"})
