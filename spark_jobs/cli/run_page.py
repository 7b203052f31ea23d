"""The HTML page of a run: records read and written, reasons of dead letters, times. One file without scripts."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.plan.explain import pictures
from spark_jobs.plan.physical import edges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from spark_jobs.plan.physical.edges import Edge
    from spark_jobs.plan.plan import Plan

_ENDS = {
    ExitCode.SUCCESS: ("good", "succeeded"),
    ExitCode.DEAD_LETTERS: ("fair", "succeeded with dead letters"),
    ExitCode.INTERRUPTED: ("bad", "was interrupted"),
}
_FAILED = ("bad", "failed")
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; --line: #8885; --quiet: #8882; }
body { margin: 2rem auto; max-width: 80rem; padding: 0 1rem; background: light-dark(#fff, #111827); }
h1 { margin-bottom: .2rem; } h2 { margin-top: 2.2rem; }
.end { border-radius: .4rem; color: #fff; font-size: 1rem; font-weight: 600; padding: .2rem .6rem; }
.good { background: #047857; } .fair { background: #b45309; } .bad { background: #b91c1c; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; padding: 0; list-style: none; }
.figures li { background: var(--quiet); border-radius: .4rem; min-width: 8rem; padding: .6rem .9rem; }
.figures b { display: block; font-size: 1.4rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; }
td.number, th.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
tr.dead td { background: light-dark(#fef3c7, #78350f66); }
code, pre { overflow-wrap: anywhere; white-space: pre-wrap; }
meter { width: 8rem; }
small { opacity: .75; }
"""
#: The columns of the table of nodes, by their keys in the document.
_COUNTS = {
    "records_in": "in",
    "records_out": "out",
    "filtered": "filtered",
    "deduplicated": "duplicates",
    "dead": "dead letters",
}
_MIB = 1 << 20


def page(document: Mapping[str, Any], plan: Plan | None = None, masked: Callable[[str], str] = str) -> str:
    """The page of a run as HTML.

    Args:
        document: the content of the run's metrics file.
        plan: its plan, for the picture; None: no picture.
        masked: leaves credentials out of a text.
    """
    record = _masked(document, masked)
    kind, end = _ENDS.get(record["exit_code"], _FAILED)
    name = _safe(record["pipeline_name"])
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name} {end}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f'<h1>{name} <span class="end {kind}">{end}</span></h1>',
        f"<small>{_safe(_when(record))}</small>",
        *_error(record),
        *_figures(record),
        *_rules(record),
        *_letters(record),
        *(_picture(plan, record) if plan is not None else ()),
        *_nodes(record),
        *_files(record),
        *_time(record),
        *_facts(record),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _masked(value: Any, masked: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked(each, masked) for key, each in value.items()}
    return [_masked(each, masked) for each in value] if isinstance(value, list | tuple) else value


def _when(record: Mapping[str, Any]) -> str:
    began = str(record["started_at"])[:19].replace("T", " ")
    return f"exit code {record['exit_code']}, began {began} UTC, took {_seconds(record['duration_ms'] / 1000)}"


def _error(record: Mapping[str, Any]) -> Iterator[str]:
    if record.get("error"):
        yield f"<h2>Error</h2><pre>{_safe(str(record['error']))}</pre><p>Nothing of the run is visible.</p>"


def _figures(record: Mapping[str, Any]) -> Iterator[str]:
    figures = {
        "records read": f"{record['records_total']:,}",
        "records written": f"{record['records_written']:,}",
        "dead letters": f"{record['records_dlq']:,}",
        "filtered": f"{record['records_filtered']:,}",
        "read": _size(record.get("input_bytes", 0)),
    }
    shown = "".join(f"<li><b>{value}</b>{name}</li>" for name, value in figures.items())
    yield f'<ul class="figures">{shown}</ul>'


def _rules(record: Mapping[str, Any]) -> Iterator[str]:
    rules = record.get("rules", ())
    if not rules:
        return
    yield "<h2>Rules on data</h2>"
    rows = []
    for rule in rules:
        value = rule.get("value", "")
        value = _safe(value) if isinstance(value, str) else f"{value:,}"
        shown = f"{_safe(rule['name'])}<br><code>{_safe(rule['rule'])}</code>"
        end = f"{rule['broken']:,}" if rule["broken"] else "holds"
        rows.append((_safe(rule["node"]), shown, _safe(rule["severity"]), value, end))
    marked = [number for number, rule in enumerate(rules) if rule["broken"]]
    yield from _table(("node", "rule", "severity", "value", "broken by"), rows, numbers=(3, 4), marked=marked)


def _letters(record: Mapping[str, Any]) -> Iterator[str]:
    reasons = record.get("dlq_reasons", ())
    if not reasons:
        return
    yield "<h2>Dead letters</h2>"
    rows = []
    for reason in reasons:
        example = reason["example"]
        row = f", row {example['row']}" if example.get("row") is not None else ""
        where = f"{example['file']}{row}"
        shown = f"{_safe(where)}<br><code>{_safe(example['detail'])}</code>"
        if example.get("value") is not None:
            shown += f"<br><small>value: <code>{_safe(str(example['value']))}</code></small>"
        cells = (_safe(reason["stage"]), _safe(reason["field"] or ""), _safe(reason["category"]), shown)
        rows.append((f"{reason['count']:,}", *cells))
    yield from _table(("count", "stage", "field", "category", "first of them"), rows, numbers=(0,))
    if record.get("dlq_reasons_more"):
        count, letters = record["dlq_reasons_more"], record["dlq_reasons_more_count"]
        yield f"<p>and {count:,} more reasons with {letters:,} dead letters</p>"
    for path in record.get("dlq_paths", ()):
        yield f"<p>All of them: <code>clinker dlq show {_safe(path)}</code></p>"


def _picture(plan: Plan, record: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Plan</h2>"
    yield f'<div class="wide">{pictures.drawing(plan, _passed(plan, record["nodes"]))}</div>'
    yield "<small>Numbers are records. Thick lines: shuffled or sorted. Dashed lines: read whole by every task.</small>"


def _passed(plan: Plan, nodes: Mapping[str, Mapping[str, Any]]) -> dict[Edge, int]:
    """The records that passed along each edge, where the counters of nodes show that."""
    passing = edges.edges(plan)
    found = {}
    for edge in passing:
        # The input of a node with one input is known exactly, even if it comes from one of several branches.
        alone = sum(other.consumer == edge.consumer for other in passing) == 1
        counted = nodes.get(edge.consumer if alone else edge.producer)
        if counted is not None and (alone or not edge.port):
            found[edge] = counted["records_in" if alone else "records_out"]
    return found


def _nodes(record: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>Nodes</h2>"
    nodes = record["nodes"]
    rows = [
        (_safe(name), _safe(node.get("kind", "")), *(f"{node.get(key, 0):,}" for key in _COUNTS), _spilled(node))
        for name, node in nodes.items()
    ]
    marked = [number for number, node in enumerate(nodes.values()) if node.get("dead")]
    yield from _table(("node", "type", *_COUNTS.values(), "spilled"), rows, numbers=range(2, 8), marked=marked)


def _spilled(node: Mapping[str, Any]) -> str:
    return _size(node["spilled_bytes"]) if node.get("spilled_bytes") else ""


def _files(record: Mapping[str, Any]) -> Iterator[str]:
    files = record.get("output_files", ())
    if files:
        listed = "".join(f"<li><code>{_safe(path)}</code></li>" for path in files[:100])
        more = f"<p>and {len(files) - 100:,} more</p>" if len(files) > 100 else ""
        yield f"<h2>Files written</h2><ul>{listed}</ul>{more}"


def _time(record: Mapping[str, Any]) -> Iterator[str]:
    phases = {name: took / 1000 for name, took in record.get("phases_ms", {}).items() if took}
    if not phases:
        return
    yield "<h2>Time</h2>"
    whole = max(sum(phases.values()), 0.001)
    rows = [
        (_safe(name), _seconds(took), f'<meter value="{took / whole:.4f}">{100 * took / whole:.0f}%</meter>')
        for name, took in phases.items()
    ]
    yield from _table(("phase", "time", "share"), rows, numbers=(1,))
    stages = [
        (
            f"{each['job']}",
            f"{each['level']}",
            f"{each['tasks']:,}",
            _seconds(each["seconds"]),
            _size(each["payload_bytes"]),
        )
        for each in record.get("stages", ())
    ]
    if stages:
        yield "<h3>Stages of the jobs</h3>"
        yield from _table(("job", "stage", "tasks", "time of tasks", "handed on"), stages, numbers=range(5))


def _facts(record: Mapping[str, Any]) -> Iterator[str]:
    spark = record.get("spark") or {}
    facts = {
        "pipeline file": record.get("config_path"),
        "run": record.get("execution_id"),
        "batch": record.get("batch_id"),
        "Spark": spark.get("spark_version"),
        "master": spark.get("master"),
        "application": spark.get("application_id"),
        "tasks at a time": record.get("thread_count"),
        "largest task": _size(record.get("peak_task_bytes", 0)),
        "peak memory of the driver's processes": _size(record.get("peak_rss_bytes", 0)),
    }
    yield "<h2>This run</h2>"
    rows = [(name, f"<code>{_safe(str(value))}</code>") for name, value in facts.items() if value]
    yield from _table(("", ""), rows)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), marked: Iterable[int] = ()
) -> Iterator[str]:
    """A table of cells that are safe already."""
    right, strong = frozenset(numbers), frozenset(marked)

    def cell(tag: str, number: int, text: str) -> str:
        kind = ' class="number"' if number in right else ""
        return f"<{tag}{kind}>{text}</{tag}>"

    yield '<div class="wide"><table>'
    if any(heads):
        yield "<tr>" + "".join(cell("th", number, head) for number, head in enumerate(heads)) + "</tr>"
    for row_number, row in enumerate(rows):
        mark = ' class="dead"' if row_number in strong else ""
        yield f"<tr{mark}>" + "".join(cell("td", number, text) for number, text in enumerate(row)) + "</tr>"
    yield "</table></div>"


def _seconds(took: float) -> str:
    if took < 1:
        return f"{1000 * took:.0f} ms"
    return f"{took:.1f} s" if took < 60 else f"{int(took // 60)} min {took % 60:.0f} s"


def _size(count: int) -> str:
    if count < 10_000:
        return f"{count:,} bytes"
    return f"{count / 1024:,.0f} KiB" if count < _MIB else f"{count / _MIB:,.1f} MiB"


def _safe(text: str) -> str:
    return html.escape(printable(text))
