"""Names of attempts, and the job's command line."""

from __future__ import annotations

import re

import pytest

from clinker_provider import execution

PARTS = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}


def test_same_attempt_has_the_same_name() -> None:
    assert execution.execution_id(**PARTS) == execution.execution_id(**PARTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"dag_id": "e"}, {"run_id": "s"}, {"task_id": "u"}, {"map_index": 0}, {"try_number": 2}, {"run_id": "r:"}],
)
def test_other_attempts_have_other_names(change: dict[str, object]) -> None:
    assert execution.execution_id(**{**PARTS, **change}) != execution.execution_id(**PARTS)  # type: ignore[arg-type]


def test_map_index_and_try_number_are_not_confused() -> None:
    one = execution.execution_id(**{**PARTS, "map_index": 1, "try_number": 2})  # type: ignore[arg-type]
    other = execution.execution_id(**{**PARTS, "map_index": -1, "task_id": "t", "run_id": "r.1", "try_number": 2})  # type: ignore[arg-type]
    assert one != other


@pytest.mark.parametrize("run_id", ["scheduled__2026-01-01T00:00:00+00:00", "../../etc", "é" * 300, "a b\n$(x)"])
def test_names_are_fit_for_files(run_id: str) -> None:
    name = execution.execution_id(**{**PARTS, "run_id": run_id})  # type: ignore[arg-type]
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name)
    assert len(name) < 140
    assert "/" not in name


def test_only_options_that_are_set_are_passed_on() -> None:
    arguments = execution.RunOptions().arguments("p.yaml", execution_id="x", work_dir="/w")
    assert arguments == ["p.yaml", "--execution-id", "x", "--work-dir", "/w"]


def test_every_option_reaches_the_command_line_as_text() -> None:
    options = execution.RunOptions(
        base_dir="/b",
        rules_path="/r",
        channel="c",
        environment="prod",
        batch_id="7",
        memory_limit="1G",
        threads=4,
        error_threshold=0,
        metrics_spool_dir="/m",
        log_level="warn",
        force=True,
        allow_absolute_paths=True,
        further=["--log-format", "json"],
    )
    assert options.arguments("p.yaml", execution_id="x", work_dir="/w") == [
        "p.yaml",
        *("--base-dir", "/b", "--rules-path", "/r", "--channel", "c", "--env", "prod", "--batch-id", "7"),
        *("--memory-limit", "1G", "--threads", "4", "--error-threshold", "0", "--metrics-spool-dir", "/m"),
        *("--log-level", "warn", "--force", "--allow-absolute-paths", "--log-format", "json"),
        *("--execution-id", "x", "--work-dir", "/w"),
    ]
