"""`clinker diff`: what differs between two versions of a pipeline."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from spark_jobs.cli import report, standard_streams
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.plan.explain.differences import Differences, NodeChange, OutputEffect, Setting, Version
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.stores.location import FilePath

_VERSION = 1


def main(old: FilePath, new: FilePath, planning: PlanOptions, *, diagnostics: str, as_json: bool, fails: bool) -> int:
    """Compare two pipelines without running them.

    Args:
        old: the file of the old version.
        new: the file of the new one.
        planning: how both are planned.
        diagnostics: how problems are shown.
        as_json: whether the result is for programs.
        fails: whether a difference ends with exit code 1.
    """
    from spark_jobs.plan.explain import differences

    versions = []
    with report.opened(diagnostics) as reporter:
        for path in (old, new):
            version = _version(path, planning, reporter)
            if version is None:
                return ExitCode.CONFIG
            versions.append(version)
    found = differences.between(*versions)
    with standard_streams.given_up("clinker diff", sys.stdout):
        if as_json:
            document = {"schema_version": _VERSION, "differs": bool(found), **asdict(found)}
            sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
        else:
            sys.stdout.write("".join(f"{printable(line)}\n" for line in _lines(found)))
    return ExitCode.CONFIG if found and fails else ExitCode.SUCCESS


def _version(path: FilePath, planning: PlanOptions, reporter: report.Reporter) -> Version | None:
    from spark_jobs.plan import planner
    from spark_jobs.plan.explain.differences import Version
    from spark_jobs.plan.reading import document

    found = Diagnostics()
    with planner.reaching(path, planning):
        file = document.open_text(path, found)
        read = document.read(file, planning.lookup, found) if file is not None else None
        plan = planner.plan_document(read, path, planning, found) if read is not None else None
        reporter.add([each for each in found.sorted() if each.is_error])
        if read is None or plan is None:
            return None
        bindings, _ = planner.prepare(read, path, planning, Diagnostics())
    return Version(plan, read.tree, tuple(bindings.expansion.nodes))


def _lines(found: Differences) -> Iterator[str]:
    if not found:
        yield "the pipelines do not differ"
        return
    for setting in found.settings:
        yield f"~ {_setting(setting)}"
    for name, kind in found.removed.items():
        yield f"- {kind} {name}"
    for name, kind in found.added.items():
        yield f"+ {kind} {name}"
    for node in found.changed:
        yield from _node(node)
    if found.outputs:
        yield "what this may change in outputs that both have:"
        for output in found.outputs:
            yield f"  {output.name}: {_effect(output)}"
    elif found.changed or found.added or found.removed:
        yield "no output that both have gets other records or values"


def _node(node: NodeChange) -> Iterator[str]:
    yield f"~ {node.kind} {node.name}"
    for setting in node.settings:
        yield f"    {_setting(setting)}"
    for line in node.statements:
        yield f"    {line}"
    for column in node.columns:
        if column.old is None:
            yield f"    + column {f'{column.name} {column.new}'.rstrip()}"
        elif column.new is None:
            yield f"    - column {f'{column.name} {column.old}'.rstrip()}"
        else:
            yield f"    ~ column {column.name}: {column.old} -> {column.new}"


def _setting(setting: Setting) -> str:
    if setting.old is None:
        return f"{setting.key}: {_one_line(setting.new)} is new"
    if setting.new is None:
        return f"{setting.key}: {_one_line(setting.old)} is gone"
    return f"{setting.key}: {_one_line(setting.old)} -> {_one_line(setting.new)}"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split()) or '""'


def _effect(output: OutputEffect) -> str:
    values = f"the values of {', '.join(output.columns)}" if output.columns else ""
    records = "which records it gets" if output.records else ""
    return " and ".join(filter(None, (values, records)))
