"""Links from a task to Spark's history, the dead letters and the metrics of its run.

Browsers refuse `file://` links on pages. So a link needs a URL template for files or applications, in the operator
(`link_templates`) or in section `clinker` of Airflow's configuration. Links to missing files are not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from clinker_provider import compat, xcoms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.common.compat.sdk import BaseOperator
    from airflow.sdk.types import RuntimeTaskInstanceProtocol, TaskInstanceKey

#: The section of Airflow's configuration with this provider's settings.
CONFIG_SECTION = "clinker"


class TemplatedLink(BaseOperatorLink):
    """A link made from a URL template and one XCom value of the run."""

    #: The key of the template, in `link_templates` and in Airflow's configuration.
    template_key: ClassVar[str]
    #: The value without which there is nothing to link to.
    needs: ClassVar[str]

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The link in the form in which Airflow asks for it."""
        return self.url(operator) if compat.MAKES_LINKS_IN_TASKS else compat.stored_link(ti_key, key_of(self))

    def url(self, operator: BaseOperator) -> str:
        """The URL, or an empty text when there is no template or no such thing.

        Raises:
            ValueError: when the template names a placeholder that no run has.
        """
        templates: Mapping[str, str] = getattr(operator, "link_templates", None) or {}
        template = templates.get(self.template_key) or conf.get(CONFIG_SECTION, self.template_key, fallback="")
        return fill(template or "", getattr(operator, "link_values", {}), needs=self.needs)


class SparkHistoryLink(TemplatedLink):
    """The application in Spark's history server; template key `history_url`, placeholder `{application_id}`."""

    name = "Spark history"
    template_key = "history_url"
    needs = xcoms.APPLICATION_ID

    def url(self, operator: BaseOperator) -> str:
        """The URL; an empty text also when Spark leaves no event log, so that there is nothing to show."""
        return super().url(operator) if getattr(operator, "leaves_event_log", True) else ""


class DeadLettersLink(TemplatedLink):
    """The dead-letter file; template key `dlq_url`, placeholder `{dlq_path}`."""

    name = "Dead letters"
    template_key = "dlq_url"
    needs = xcoms.DLQ_PATH


class MetricsLink(TemplatedLink):
    """The run's metrics file; template key `metrics_url`, placeholder `{metrics_path}`."""

    name = "Metrics"
    template_key = "metrics_url"
    needs = xcoms.METRICS_PATH


def key_of(link: BaseOperatorLink) -> str:
    """The key under which Airflow keeps a link's address."""
    return f"_link_{type(link).__name__}"


def show(ti: RuntimeTaskInstanceProtocol, link: BaseOperatorLink, url: str) -> None:
    """Let the page of a task that still runs show a link; Airflow does it at the end of the task only.

    Airflow's pages read links from its own database, whatever keeps the other XComs.
    """
    compat.BaseXCom.set(
        key=key_of(link),
        value=url,
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
    )


def fill(template: str, values: Mapping[str, object], *, needs: str) -> str:
    """The template with its placeholders replaced by quoted values; empty when there is nothing to link to.

    Raises:
        ValueError: when the template names a placeholder that no run has.
    """
    if not template or not values.get(needs):
        return ""
    known = {key: quote(str(value), safe="/:") for key, value in values.items() if isinstance(value, str | int)}
    try:
        return template.format_map(known)
    except KeyError as error:
        raise ValueError(f"link template {template!r} names {error}, known are {sorted(known)}") from error
