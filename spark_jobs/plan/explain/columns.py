"""The columns of sources as explain shows them, with where they come from.

Plans know declared columns alone. The caller opens the files, and passes their columns to explain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.columns import OnUnmapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan

    #: Looks into the files of a source.
    Probe = Callable[[SourceStep, Discovered], "SourceProbe"]


@dataclass(frozen=True)
class SourceProbe:
    """The result of looking into a source's files.

    Args:
        files: how many files the source has; None if that cannot be told.
        looked_at: how many of them were looked into.
        facts: what metrics tell of a scan, of the files looked into; empty if that is not known.
        reason: why there are none, or why not all files were looked into.
    """

    files: int | None = None
    looked_at: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None


def probe_sources(plan: Plan, sources: Mapping[str, Discovered], look: Probe | None) -> dict[str, SourceProbe]:
    """Probe the files of each source; an empty mapping without a probe."""
    if look is None:
        return {}
    names = [planned.name for planned in plan.nodes if planned.name in sources and planned.pending is None]
    return {name: look(_step(plan, name), sources[name]) for name in names}


def _step(plan: Plan, name: str) -> SourceStep:
    step: Any = plan.by_name[name].step
    found: SourceStep = step
    return found


def lines(plan: Plan, found: Mapping[str, SourceProbe]) -> list[str]:
    """The columns of each source."""
    shown: list[str] = []
    for name, one in found.items():
        columns = _columns(_step(plan, name), one)
        shown += [f"source.{name}: {_summary(one)}", *(f"  {line}" for line in columns), ""]
    return shown[:-1]


def _summary(looked: SourceProbe) -> str:
    if not looked.facts:
        return f"only what is declared is known: {looked.reason}"
    some = f"{looked.looked_at} of " if looked.looked_at != looked.files else ""
    words = [f"{some}{looked.files} {'file' if looked.files == 1 else 'files'} looked into"]
    if empty := looked.facts["files_skipped_empty"]:
        words.append(f"{empty} without bytes")
    words.append(f"version {looked.facts['schema_version']}")
    return ", ".join(words) + (f" ({looked.reason})" if looked.reason else "")


def _columns(step: SourceStep, looked: SourceProbe) -> Iterator[str]:
    facts = looked.facts
    with_columns = looked.looked_at - facts.get("files_skipped_empty", 0)
    for column in step.columns:
        lacking = facts.get("columns_missing", {}).get(column.key)
        alias = f", `{column.alias}` in the files" if column.alias else ""
        yield f"{column.name}: declared{alias}" + (f", missing in {lacking} of {with_columns} files" if lacking else "")
    for column, file in facts.get("columns_discovered", {}).items():
        end = ", dropped" if column in facts["columns_dropped"] else ""
        yield f"{column}: discovered in {file}{end}"
    if step.file_format.names_in_records and step.on_unmapped is OnUnmapped.DROP:
        yield "undeclared members are dropped without being looked for"


def record(plan: Plan, name: str, looked: SourceProbe) -> dict[str, Any]:
    """The columns as plain data, for programs."""
    facts = looked.facts
    missing, dropped = facts.get("columns_missing", {}), facts.get("columns_dropped", ())
    declared = [
        {"name": column.name, "origin": "declared", "missing_in_files": missing.get(column.key, 0)}
        for column in _step(plan, name).columns
    ]
    discovered = [
        {"name": column, "origin": "discovered", "file": file, "dropped": column in dropped}
        for column, file in facts.get("columns_discovered", {}).items()
    ]
    return {
        "files_total": looked.files,
        "files_looked_at": looked.looked_at,
        "files_skipped_empty": facts.get("files_skipped_empty"),
        "schema_version": facts.get("schema_version"),
        "columns": [*declared, *discovered],
        "unknown_because": looked.reason,
    }
