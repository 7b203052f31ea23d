"""`clinker run`: a plan is executed, and the terminal told what became of every record."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import contract, result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.execute.metrics import Outcome
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.plan.plan import Plan

#: File names have 255 bytes almost everywhere; the id gets a prefix or a suffix.
_LONGEST_ID = 200
#: What the summary shows of each node, by heading.
_FIGURES = {
    "read": "records_in", "written": "records_out", "filtered": "filtered", "duplicates": "deduplicated",
    "dead": "dead",
}  # fmt: skip


def execute(plan: Plan, options: RunOptions) -> int:
    """Run a plan; gives the exit code of `contract.ExitCode`."""
    from spark_jobs.execute import executor, identity, interrupts

    if options.execution_id is not None and not _names_a_file(options.execution_id):
        sys.stderr.write(f"clinker run error: --execution-id '{options.execution_id}' cannot name a file\n")
        return contract.ExitCode.CONFIG
    names = identity.Identity.new(options.execution_id, options.batch_id)
    previews: list[tuple[str, str]] = []
    with interrupts.raised(), _logging(options):
        outcome = executor.execute(plan, options, names, lambda name, text: previews.append((name, text)))
        is_shown = options.preview is None or _show(previews, options)
        with interrupts.ignored():
            _record(outcome.result, options)
            _tell(outcome, options)
    return outcome.result.exit_code if is_shown else contract.ExitCode.IO


def _names_a_file(execution_id: str) -> bool:
    """The id is part of the names of the staging folder, the result record and the metrics file."""
    is_name = Path(execution_id).name == execution_id and execution_id not in ("", "..")
    return is_name and execution_id.isprintable() and len(execution_id) <= _LONGEST_ID


def _show(previews: list[tuple[str, str]], options: RunOptions) -> bool:
    """Each output as its file would be, under its name when there are several; whether that could be written."""
    texts = [f"--- {name}\n{text}" if len(previews) > 1 else text for name, text in previews]
    if options.dry_run_output is None:
        sys.stdout.write("".join(texts))
        return True
    try:
        options.dry_run_output.write_text("".join(texts), encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"error[E900]: {options.dry_run_output}: {error.strerror or error}\n")
        return False
    return True


@contextmanager
def _logging(options: RunOptions) -> Iterator[None]:
    """Log lines go to standard error, as text or as one JSON object a line."""
    from spark_jobs.execute import logs

    logger = logging.getLogger("clinker")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JsonLines() if options.log_format == "json" else logging.Formatter("%(levelname)s %(message)s")
    )
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logs.LEVELS.get(options.log_level, logging.INFO))
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": self.formatTime(record), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps(line, ensure_ascii=False)


def _record(record: result.RunResult, options: RunOptions) -> None:
    """The record for programs, before anything that a reader who went away could stop."""
    if options.work_dir:
        try:
            result.write(Path(options.work_dir), record)
        except OSError as error:
            # The line on standard output tells the scheduler as well.
            sys.stderr.write(f"warning: the result record is not written: {error}\n")


def _tell(outcome: Outcome, options: RunOptions) -> None:
    """The summary for people, and the record as a line; the exit status stands even when nobody reads them."""
    record = outcome.result
    try:
        if record.error:
            place = f"  --> {record.error.span}\n" if record.error.span else ""
            sys.stderr.write(f"error[{record.error.code}]: {record.error.message}\n{place}")
        if not options.quiet and options.preview is None:
            sys.stdout.write(_summary(record, outcome.nodes))
        if options.work_dir:
            sys.stdout.write(result.sentinel_line(record) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Python writes what is left when it ends, and would complain once more.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())


def _summary(outcome: result.RunResult, nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """The book's line, then what each node did with its records."""
    if outcome.exit_code not in (contract.ExitCode.SUCCESS, contract.ExitCode.DEAD_LETTERS):
        return ""
    counts = outcome.records
    lines = [
        f"Pipeline complete: {counts['total']} total, {counts['ok']} ok, "
        f"{counts['written']} written, {counts['dlq']} dlq"
    ]
    if nodes:
        width = max(len(name) for name in nodes)
        lines.append("  ".join([f"  {'node':<{width}}", *(f"{heading:>10}" for heading in _FIGURES)]))
        for name, node in nodes.items():
            lines.append("  ".join([f"  {name:<{width}}", *(f"{node[key]:>10}" for key in _FIGURES.values())]))
    lines += [f"  wrote {path}" for path in outcome.output_files]
    if outcome.dlq_path:
        lines.append(f"  dead letters in {outcome.dlq_path}")
    if spilled := {name: node["spilled_bytes"] for name, node in nodes.items() if node.get("spilled_bytes")}:
        lines.append("=== Spill Volume (actual, per stage) ===")
        lines += [f"  {name} → {size} bytes" for name, size in spilled.items()]
        lines.append(f"  Total: {sum(spilled.values())} bytes (compare against the --explain estimate)")
    return "\n".join(lines) + "\n"
