"""`clinker run`: executes a plan, and accounts for every record on the terminal."""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import contract, reasons, result
from spark_jobs.cli import report, standard_streams
from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.printable import printable
from spark_jobs.disk import durable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.execute.run.metrics import Outcome
    from spark_jobs.plan.options import RunOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath

#: The figures of each node in the summary, by heading.
_FIGURES = {
    "read": "records_in", "written": "records_out", "filtered": "filtered", "duplicates": "deduplicated",
    "dead": "dead",
}  # fmt: skip
#: So many columns that no file has are named for each source.
_MOST_COLUMNS = 8


def execute(plan: Plan, options: RunOptions, reporter: report.Reporter) -> int:
    """Run a plan; returns the exit code of `contract.ExitCode`."""
    from spark_jobs.execute import identity, interrupts, logs
    from spark_jobs.execute.run import executor
    from spark_jobs.execute.spark import masking

    names = identity.Identity.new(options.execution_id, options.batch_id)
    reporter.batch_id = names.batch_id
    previews: list[tuple[str, str]] = []
    names_batch, masked = options.batch_id is not None, masking.Secrets.of_run(options, plan).masked
    with logs.show_logs(
        sys.stderr, options.log_level, options.log_format, names.batch_id, masked, names_batch=names_batch
    ):
        outcome = executor.execute(plan, options, names, lambda name, text: previews.append((name, text)))
        problems = [report.of_run(outcome.result.error, plan)] if outcome.result.error else []
        if options.preview is not None:
            problems += _show(previews, options)
        with interrupts.ignore_signals():
            _record(outcome.result, options, plan)
            _write_page(outcome, plan, options, masked)
            reporter.add(problems)
            with standard_streams.given_up("clinker run", sys.stdout):
                _report(outcome, options, names.batch_id, masked)
    return outcome.result.exit_code if outcome.result.error or not problems else contract.ExitCode.IO


def _show(previews: list[tuple[str, str]], options: RunOptions) -> list[Diagnostic]:
    """Write each output as its file would be, under a heading if there are several; returns errors of writing."""
    texts = [f"--- {printable(name)}\n{text}" if len(previews) > 1 else text for name, text in previews]
    try:
        if options.dry_run_output is not None:
            durable.replace_text(options.dry_run_output, "".join(texts))
            return []
        sys.stdout.write(_ended("".join(texts)) if options.work_dir else "".join(texts))
        sys.stdout.flush()
    except BrokenPipeError:
        standard_streams.discard(sys.stdout)  # the reader has seen enough
    except OSError as error:
        if options.dry_run_output is None:
            standard_streams.discard(sys.stdout)
        return [codes.E900.at(None, durable.describe(error, "standard output"))]
    return []


def _ended(text: str) -> str:
    """The text with its last line at an end: the record comes on a line of its own."""
    return text if not text or text.endswith("\n") else text + "\n"


def leave(
    path: FilePath, options: RunOptions, code: contract.ExitCode, error: result.RunError, plan: Plan | None
) -> None:
    """The metrics of a run that ended before it began, where they are wanted, and its record as a file and a line."""
    from spark_jobs.execute import identity
    from spark_jobs.execute.run import metrics

    names = identity.Identity.new(options.execution_id, options.batch_id)
    record = result.RunResult(names.execution_id, code, path.stem, error=error)
    record = replace(record, metrics_path=metrics.refused(names, plan, path, options, record))
    if options.work_dir:
        _record(record, options, plan)
        with standard_streams.given_up("clinker run", sys.stdout):
            sys.stdout.write(result.sentinel_line(record) + "\n")


def _record(record: result.RunResult, options: RunOptions, plan: Plan | None) -> None:
    """The record for programs, before anything that a reader who went away could stop."""
    folder = options.work_dir
    if folder is None:
        return
    from spark_jobs.stores import results
    from spark_jobs.stores.refusals import StoreError
    from spark_jobs.stores.settings import StoreSettings

    try:
        if isinstance(folder, Path):
            result.write(folder, record)
        else:
            results.write(folder, record, plan.stores if plan else StoreSettings())
    except (OSError, StoreError) as error:
        # The line on standard output tells the scheduler as well.
        reason = durable.describe(error, str(folder)) if isinstance(error, OSError) else error
        logging.getLogger("clinker").warning("the result record is not written: %s", reason)


def unreachable(plan: Plan, options: RunOptions) -> Diagnostic | None:
    """The reason why the result record cannot be written to its store; None if it can."""
    if options.work_dir is None or isinstance(options.work_dir, Path):
        return None
    from spark_jobs.stores import results
    from spark_jobs.stores.refusals import StoreError

    try:
        results.try_writing(options.work_dir, options.execution_id or "run", plan.stores)
    except StoreError as error:
        return codes.E910.at(None, f"no result record can be left in `--work-dir`: {error}")
    return None


def _write_page(outcome: Outcome, plan: Plan, options: RunOptions, masked: Callable[[str], str]) -> None:
    """The page for people, where one is wanted and something was done."""
    if options.report is None or not outcome.document:
        return
    from spark_jobs.cli import run_page

    try:
        durable.replace_text(options.report, run_page.page(outcome.document, plan, masked))
    except OSError as error:
        # The results of the run exist, so this is only a warning.
        logging.getLogger("clinker").warning("the report is not written: %s", durable.describe(error))


def _report(outcome: Outcome, options: RunOptions, batch_id: str, masked: Callable[[str], str]) -> None:
    """The summary for people or log collectors, and the record as a line."""
    if not options.quiet and options.preview is None:
        lines = _as_text(_summary(outcome)) if options.log_format != "json" else _as_json(_summary(outcome), batch_id)
        sys.stdout.write(masked(lines))
    if options.work_dir:
        sys.stdout.write(result.sentinel_line(outcome.result) + "\n")


def _as_text(summary: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    return "".join(f"{text}\n" for text, _ in summary)


def _as_json(summary: Iterable[tuple[str, Mapping[str, Any]]], batch_id: str) -> str:
    """The summary as log lines. `event` names the subject of a line; further fields are its figures."""
    from spark_jobs.execute import logs

    lines = (logs.object_line("info", text.strip(), batch_id, facts) for text, facts in summary if facts)
    return "".join(f"{line}\n" for line in lines)


def _summary(ended: Outcome) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The line of totals, what each node did with its records, where they are, why some died; with the figures.

    Of a run that has failed it says why records died, as far as that is known.
    """
    outcome, nodes = ended.result, ended.nodes
    if outcome.exit_code not in (contract.ExitCode.SUCCESS, contract.ExitCode.DEAD_LETTERS):
        yield from _rules(outcome)
        yield from reasons.lines_with_figures(outcome)
        return
    counts = outcome.records
    text = (
        f"Pipeline complete: {counts['total']} total, {counts['ok']} ok, "
        f"{counts['written']} written, {counts['dlq']} dlq"
    )
    yield text, {"event": "complete", "exit_code": outcome.exit_code, "status": outcome.status.value, **counts}
    if nodes:
        width = max(len(name) for name in nodes)
        yield "  ".join([f"  {'node':<{width}}", *(f"{heading:>10}" for heading in _FIGURES)]), {}
        for name, node in nodes.items():
            figures = (f"{node[key]:>10}" for key in _FIGURES.values())
            yield (
                "  ".join([f"  {printable(name):<{width}}", *figures]),
                {"event": "node", "node": printable(name), **node},
            )
    for path in outcome.output_files:
        yield f"  wrote {printable(path)}", {"event": "output", "path": printable(path)}
    for path in outcome.dlq_paths:
        yield f"  dead letters in {printable(path)}", {"event": "dead_letters", "path": printable(path)}
    yield from _columns_nowhere(ended.document)
    yield from _rules(outcome)
    yield from reasons.lines_with_figures(outcome)
    if (outcome.dlq_reasons or outcome.dlq_reasons_more) and outcome.exit_code == contract.ExitCode.DEAD_LETTERS:
        yield f"  exit code {outcome.exit_code}: complete, with dead letters", {}
    if outcome.dlq_paths:
        command = f"clinker dlq show {shlex.quote(outcome.dlq_paths[0])}"
        yield f"  more: {printable(command)}", {"event": "more", "command": printable(command)}
    if spilled := {name: node["spilled_bytes"] for name, node in nodes.items() if node.get("spilled_bytes")}:
        yield "=== Spill Volume (actual, per stage) ===", {}
        for name, size in spilled.items():
            yield f"  {name} → {size} bytes", {}
        text = f"  Total: {sum(spilled.values())} bytes (compare against the --explain estimate)"
        yield text, {"event": "spilled", "bytes": sum(spilled.values())}


def _columns_nowhere(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The declared columns that are null because no file has them."""
    for source, scan in document.get("scans", {}).items():
        names = [printable(name) for name in scan["columns_nowhere"]]
        if names:
            shown = ", ".join([*names[:_MOST_COLUMNS], *(["…"] if len(names) > _MOST_COLUMNS else [])])
            text = f"  no file of {printable(source)} has {shown}: null in every record (W210)"
            yield text, {"event": "columns_nowhere", "source": printable(source), "columns": names}


def _rules(outcome: result.RunResult) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The results of rules on all records of sources and outputs."""
    found = [each for each in outcome.rules if each["kind"] != "check"]
    if found:
        yield "  rules on data:", {}
    width = max((len(each["node"]) for each in found), default=0)
    for each in found:
        facts = {
            "event": "rule",
            **{key: printable(value) if isinstance(value, str) else value for key, value in each.items()},
        }
        end = f"BROKEN ({each['severity']})" if each["broken"] else "holds"
        yield f"    {printable(each['node']):<{width}}  {printable(each['name'])}: {_found(each)}{end}", facts


def _found(rule: Mapping[str, Any]) -> str:
    """The findings of a rule, in words."""
    if "value" in rule:
        value = rule["value"]
        return f"{printable(value) if isinstance(value, str) else format(value, ',')}, "
    if not rule["broken"] or rule["kind"] not in ("unique", "references"):  # no record breaks any other
        return ""
    return "1 record, " if rule["broken"] == 1 else f"{rule['broken']:,} records, "
