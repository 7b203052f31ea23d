"""Runs a `clinker` command beside the task, line by line into its log, and ends all of it when the task is killed."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from typing import IO, TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseHook

from clinker_provider import process_tree
from clinker_provider.hooks.clinker_spark import DEFAULT_GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: The number of a command's last lines that its error shows.
_TAIL_LINES = 40


class ClinkerCommandHook(BaseHook):
    """One `clinker` command.

    :param execution_id: every process of the command carries it in its environment
    :param env_vars: environment of the command beside the task's own
    :param masked: hides secrets in a line
    :param kill_grace_s: seconds that processes get to end by themselves when the task is killed
    """

    def __init__(
        self,
        *,
        execution_id: str,
        env_vars: Mapping[str, str] | None = None,
        masked: Callable[[str], str] = str,
        kill_grace_s: float = DEFAULT_GRACE_S,
    ) -> None:
        super().__init__()
        self._execution_id = execution_id
        self._env_vars = env_vars or {}
        self._masked = masked
        self._kill_grace_s = kill_grace_s
        self._process: subprocess.Popen[str] | None = None
        self._tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self.was_killed = False

    @property
    def tail(self) -> str:
        """The last lines, without secrets."""
        return "\n".join(self._tail)

    def run(self, arguments: Sequence[str], *, folder: str | None = None, output: IO[str] | None = None) -> int:
        """Run a command to its end; returns its return code, negative for a signal.

        Args:
            arguments: what stands after `clinker`.
            folder: the working directory.
            output: a file for the standard output, which is not logged then; standard error is.
        """
        environ = {**os.environ, **self._env_vars, process_tree.MARK: self._execution_id, "PYTHONUNBUFFERED": "1"}
        try:
            with subprocess.Popen(
                [sys.executable, "-m", "spark_jobs", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output or subprocess.PIPE,
                stderr=subprocess.PIPE if output else subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                env=environ,
                cwd=folder,
            ) as self._process:
                logged = self._process.stderr if output else self._process.stdout
                assert logged is not None
                for line in logged:
                    text = self._masked(line.rstrip("\n"))
                    self._tail.append(text)
                    self.log.info("%s", text)
        except BaseException:
            # A time-out of the task arrives here; nothing may go on without it.
            self.on_kill()
            raise
        return self._process.returncode

    def on_kill(self) -> None:
        """End all processes of the command."""
        self.was_killed = True
        pid = self._process.pid if self._process and self._process.poll() is None else None
        process_tree.end(pid, self._execution_id, grace_s=self._kill_grace_s)
