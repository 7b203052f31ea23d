"""Notifies people of dead letters, with the first reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseNotifier

from clinker_provider import callbacks, xcoms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow.providers.common.compat.sdk import Context

_MOST_REASONS = 3


class ClinkerDeadLettersNotifier(BaseNotifier):
    """Give a message about a run's dead letters to a function; a run without any is passed over.

    For `on_success_callback` and `on_failure_callback` of `ClinkerSparkOperator`. The function may send the message
    itself, or give another notifier, which then sends it:

        ClinkerDeadLettersNotifier(
            send=lambda text: SmtpNotifier(to="team@example.com", subject="Dead letters", html_content=text)
        )

    :param send: takes the message; or the import path of such a function
    :param subject: the first line of the message (templated)
    :param reasons: the most reasons that the message lists
    """

    template_fields: Sequence[str] = ("subject",)

    def __init__(
        self,
        *,
        send: Callable[[str], Any] | str,
        subject: str = "{{ dag.dag_id }}.{{ ti.task_id }}, run {{ run_id }}",
        reasons: int = _MOST_REASONS,
    ) -> None:
        super().__init__()
        if problem := callbacks.problem(send):
            raise ValueError(f"send: {problem}")
        self.send = send
        self.subject = subject
        self.reasons = reasons

    def notify(self, context: Context) -> None:
        """Send the message."""
        task = context["ti"]
        keys = (xcoms.DLQ_COUNT, xcoms.DLQ_PATHS, xcoms.DLQ_REASONS)
        count, paths, found = (
            task.xcom_pull(task_ids=task.task_id, key=key, map_indexes=task.map_index) for key in keys
        )
        if not count:
            return
        send = callbacks.resolve_callback(self.send)
        assert send is not None
        sent = send(message(self.subject, count, paths or [], found or [], most=self.reasons))
        if isinstance(sent, BaseNotifier):
            sent(context)


def message(subject: str, count: int, paths: Sequence[str], reasons: Sequence[Mapping[str, Any]], *, most: int) -> str:
    """The message for people: how many records died, why, and where they are."""
    lines = [f"{subject}: {count} records died"]
    for reason in reasons[:most]:
        words = [
            reason.get("stage"),
            f"field '{reason['field']}'" if reason.get("field") else None,
            reason.get("category"),
        ]
        lines.append(f"  {reason.get('count')}  {', '.join(filter(None, words))}")
        example = reason.get("example") or {}
        if example.get("detail"):
            row = f", row {example['row']}" if example.get("row") else ""
            lines.append(f"     {example.get('file', '')}{row}: {example['detail']}")
    if len(reasons) > most:
        lines.append(f"  and {len(reasons) - most} more reasons")
    return "\n".join([*lines, *(f"see {path}" for path in paths)])
