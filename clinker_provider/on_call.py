"""The summary of a finished task: its nodes with their records, its plan, the reasons of dead letters. Pure.

The task's log ends with it as text. The XCom `on_call` has the data of the task's page that no other XCom has.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from typing import TYPE_CHECKING, Any

from spark_jobs import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clinker_provider.validation import Subject
    from spark_jobs.result import RunResult

#: The figures of a node, by their headings.
FIGURES = {
    "read": "records_in", "written": "records_out", "filtered": "filtered", "duplicates": "deduplicated",
    "dead": "dead",
}  # fmt: skip
#: A larger picture is not kept: XComs are rows of Airflow's database.
MOST_CHARACTERS = 48_000


def of_plan(subject: Subject) -> dict[str, Any]:
    """The picture of a valid pipeline's plan (SVG, or None where it is large), and a digest of each of its nodes.

    Raises:
        DiagnosticError: the pipeline has errors.
        OSError: it cannot be read.
    """
    from spark_jobs import plan
    from spark_jobs.plan.explain import pictures

    picture = pictures.svg(plan.load(subject.pipeline, subject.options()))
    return {
        "picture": picture if len(picture) <= MOST_CHARACTERS else None,
        "digests": digests(subject.pipeline) if isinstance(subject.pipeline, os.PathLike) else {},
    }


def of_record(record: RunResult | None) -> dict[str, Any]:
    """The numbers of reasons and dead letters that the list of reasons leaves out; empty if it is complete."""
    if not record or not record.dlq_reasons_more:
        return {}
    return {"more_reasons": {"reasons": record.dlq_reasons_more, "count": record.dlq_reasons_more_count}}


def digests(pipeline: Path) -> dict[str, str]:
    """A digest of each node as the pipeline file has it, and of everything else in the file under an empty name.

    Raises:
        OSError: the file cannot be read.
    """
    import yaml

    # Composed only: nothing is built, so keys may be of any kind. Planning has read the file by its stricter rules.
    document = yaml.compose(pipeline.read_text(encoding="utf-8"), yaml.SafeLoader)
    found: dict[str, str] = {}
    rest = []
    for key, value in document.value if document else ():
        if key.value != "nodes" or not isinstance(value, yaml.SequenceNode):
            rest.append([_plain(key), _plain(value)])
            continue
        for node in value.value:
            name = next((to.value for of, to in node.value if of.value == "name"), "")
            found[str(name)] = _digest(_plain(node))
    return {**found, "": _digest(sorted(rest))}


def _plain(node: Any) -> list[Any]:
    """A YAML node as lists of texts; mappings in the order of their keys."""
    if isinstance(node.value, str):
        return [node.tag, node.value]
    if node.tag.endswith(":map"):
        return [node.tag, sorted([_plain(key), _plain(value)] for key, value in node.value)]
    return [node.tag, [_plain(each) for each in node.value]]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The differences between two versions of a pipeline, as short sentences."""
    found = [f"node {name} is new" for name in after if name and name not in before]
    found += [f"node {name} is gone" for name in before if name and name not in after]
    found += [f"node {name} changed" for name in after if name and before.get(name, after[name]) != after[name]]
    if before.get("") != after.get(""):
        found.append("what is no node changed: name, variables or settings")
    return found


def log_lines(record: RunResult) -> list[str]:
    """The end of the task's log: the table of nodes, dead letters by reason, and the command that shows more."""
    lines = []
    if record.nodes:
        width = max(len("node"), *(len(name) for name in record.nodes))
        lines.append("  ".join([f"  {'node':<{width}}", *(f"{heading:>10}" for heading in FIGURES)]))
        for name, node in record.nodes.items():
            figures = (f"{node.get(key, 0):>10}" for key in FIGURES.values())
            lines.append("  ".join([f"  {name:<{width}}", *figures]))
    lines += reasons.lines(record)
    if command := more(record.dlq_paths or [record.dlq_path]):
        lines.append(f"  more: {command}")
    return lines


def more(paths: tuple[str, ...] | list[str | None] | list[str]) -> str | None:
    """The command that shows the first file of dead letters; None where there is none, or none on a disk."""
    path = next(iter(paths), None)
    return f"clinker dlq show {shlex.quote(path)}" if path and "://" not in path else None
