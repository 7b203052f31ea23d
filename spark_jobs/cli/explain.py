"""`clinker explain`: a code's page, where a value comes from, or the plan."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.cli import pipeline, report
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import nearest
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from spark_jobs.plan.options import PlanOptions
    from spark_jobs.plan.plan import Plan
    from spark_jobs.stores.location import FilePath

_USAGE = "usage: clinker explain CODE, or clinker explain PIPELINE [--field node.name | --format text]"
#: The form of diagnostic codes, including misspelt ones.
_CODE = re.compile(r"[EW][A-Z-]*[0-9][A-Z0-9]*", re.IGNORECASE)


def main(
    subject: FilePath | None, options: PlanOptions, *, diagnostics: str, code: str | None, field: str | None, form: str
) -> int:
    """Explain a code, a field of a pipeline, or its plan.

    Args:
        subject: the pipeline file, or a code of a diagnostic.
        options: how the pipeline is planned.
        diagnostics: how problems are shown.
        code: a code of a diagnostic.
        field: a parameter or column of the pipeline, `node.name`.
        form: how the plan is shown.
    """
    if code is not None:
        return _code(code)
    if subject is None:
        return _wrong(f"say a code or a pipeline ({_USAGE})")
    if isinstance(subject, Path) and _CODE.fullmatch(str(subject)) and not subject.exists():
        return _code(_spelled(str(subject)))
    with report.opened(diagnostics) as reporter:
        plan = pipeline.planned(subject, options, reporter)
    if plan is None:
        return ExitCode.CONFIG
    if field is not None:
        return _field(plan, field)
    return pipeline.show(plan, form, allow_outside=options.allow_absolute_paths)


def _wrong(*lines: str) -> int:
    sys.stderr.write("\n".join(map(printable, (f"clinker explain error: {lines[0]}", *lines[1:]))) + "\n")
    return ExitCode.CONFIG


def _spelled(code: str) -> str:
    """A code in the letter case that its page has."""
    from spark_jobs.diagnostics import pages

    return next((known for known in pages.known() if known.upper() == code.upper()), code)


def _code(code: str) -> int:
    from spark_jobs.diagnostics import pages

    page = pages.page(code)
    if page is None:
        hint = nearest.hint(code, pages.known())
        meant = f"; {hint}" if hint else "."
        return _wrong(f"unknown diagnostic code '{code}'{meant} Valid codes: {', '.join(pages.known())}")
    sys.stdout.write(page)
    return ExitCode.SUCCESS


def _field(plan: Plan, path: str) -> int:
    from spark_jobs.plan.explain import lineage

    node, dot, name = path.rpartition(".")
    if not dot or not node or not name:
        return _wrong(f"invalid field path '{path}': expected format 'node_name.param_name'")
    parameters = plan.parameters.get(node, {})
    if name in parameters:
        sys.stdout.write(_provenance(path, parameters[name]))
        return ExitCode.SUCCESS
    if node in plan.by_name:
        found = lineage.of_column(plan, node, name)
        if found is not None:
            sys.stdout.write(lineage.text(path, found))
            return ExitCode.SUCCESS
    known = [f"{call}.{parameter}" for call, members in plan.parameters.items() for parameter in members]
    if node in plan.by_name:
        known += [f"{node}.{column}" for column in lineage.columns(plan, node)]
    listed = [f"    - {one}" for one in known] or ["    (none)"]
    return _wrong(f"no provenance for '{path}'", "  known:", *listed)


def _provenance(path: str, parameter: Any) -> str:
    lines = [f"Field: {path}", "", f"  Resolved value: {_shown(parameter.value)}", ""]
    lines.append("  Provenance chain (outermost to innermost):")
    for number, layer in enumerate(parameter.layers):
        won = "[WON]" if number == 0 else "     "
        shadowed = "" if number == 0 else "  (shadowed)"
        lines.append(f"  {won} {layer.kind:<22} →  {_shown(layer.value)}{shadowed}  ({layer.span})")
    return "\n".join(map(printable, lines)) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
