"""The end of a run that publishes nothing: its exit code, the reason, and the place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.disk import shared_paths

if TYPE_CHECKING:
    from spark_jobs.plan import plan as plans


class RunFailed(Exception):
    """The run ends without publishing anything.

    Args:
        exit_code: how.
        code: a diagnostic's code, or a word for the kind of failure.
        message: what, where and why.
        place: `path:line:col`, when it belongs to a place in the pipeline.
    """

    def __init__(self, exit_code: ExitCode, code: str, message: str, place: str | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.code = code
        self.message = message
        self.place = place


class NotCompared(RunFailed):
    """A table refuses a value that it has already, and the records of the run were not compared with one another.

    A run that compares them finds out which of its records the table does not take.
    """


def broken(
    plan: plans.Plan, code: str, message: str, node: str, unseen: shared_paths.NotShared | None = None
) -> RunFailed:
    """The end of a run that lacks a file or room, or is led out of its folder, with the node and that one's place.

    If a task on another machine misses a file that this process finds, the error says so.
    """
    if unseen is not None and (explained := unseen.explained()):
        code, message = shared_paths.UNSHARED, explained
    exit_code = ExitCode.CONFIG if code in ("E310", "E-SEC-001") else ExitCode.IO
    planned = plan.by_name.get(node)
    if planned is None:
        return RunFailed(exit_code, code, message)
    place = plan.places.get(node, planned.span)
    *calls, name = node.split("/")
    where = "".join(f"in composition '{call}': " for call in calls)
    message = message.removeprefix(f"{planned.kind} '{node}': ")  # problems without a file name the node themselves
    return RunFailed(exit_code, code, f"{where}{planned.kind} '{name}': {message}", str(place) if place else None)
