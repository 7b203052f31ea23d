"""The page of a task that ran, as HTML without scripts, in the colours of light and dark screens. Pure.

Every task of Airflow has this page, and may push any XComs. So no XCom is assumed to have the form that Clinker tasks
give it.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clinker_provider import on_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STYLE = """
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: light-dark(#fff, #111827);
  color: light-dark(#111827, #e5e7eb); }
h1 { font-size: 1.3rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { margin: .3rem 0; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #8886; padding: .25rem 1rem .25rem 0; text-align: left; vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.muted { color: light-dark(#4b5563, #9ca3af); }
.success { color: light-dark(#047857, #34d399); }
.partial_success { color: light-dark(#b45309, #fbbf24); }
.failed { color: light-dark(#b91c1c, #f87171); }
.wide { overflow-x: auto; }
pre { background: #8882; border-radius: 4px; margin: .6rem 0; overflow-wrap: anywhere; padding: .5rem .7rem;
  white-space: pre-wrap; }
code { background: #8882; border-radius: 4px; overflow-wrap: anywhere; padding: .1rem .35rem; }
"""
#: The number of earlier runs that are listed.
EARLIER = 20
_NOTHING = "nothing: it is no Clinker task, it pushes no XComs, or it ended before it began, as its log says"


@dataclass(frozen=True)
class Run:
    """A run of a task: Airflow's name, state, start and duration, and the XComs that the task pushed."""

    run_id: str
    state: str | None
    started: str = ""
    duration_s: float | None = None
    xcoms: Mapping[str, Any] = field(default_factory=dict)

    @property
    def records(self) -> Mapping[str, Any]:
        """The counts of the whole run by their short names."""
        return _mapping(_mapping(self.xcoms.get("return_value")).get("records"))

    @property
    def kept(self) -> Mapping[str, Any]:
        """The data that the task kept for its page."""
        return _mapping(self.xcoms.get("on_call"))

    @property
    def digests(self) -> Mapping[str, Any]:
        """A digest of each node of the pipeline."""
        return _mapping(self.kept.get("digests"))


def page(dag_id: str, task_id: str, run: Run, earlier: Sequence[Run]) -> str:
    """The whole page.

    Args:
        dag_id: the DAG's name.
        task_id: the task's.
        run: the run that is looked at.
        earlier: runs of the same task before it, the last one first.
    """
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{_e(dag_id)}: {_e(task_id)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        *_head(dag_id, task_id, run),
        *_nodes(run),
        *_dead(run),
        *_changes(run, earlier),
        *_earlier(run, earlier),
        *_picture(run),
    ]
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _head(dag_id: str, task_id: str, run: Run) -> Iterable[str]:
    status = run.xcoms.get("status")
    yield f"<h1>{_e(dag_id)}: {_e(task_id)}</h1>"
    if status is None:
        published = "nothing yet" if run.state in (None, "running", "queued", "deferred") else _NOTHING
        yield f'<p class="muted">This run of the task ({_e(run.state or "not started")}) has told {published}.</p>'
        return
    words = f"{status}, exit code {run.xcoms.get('exit_code')}"
    yield f'<p><b class="{_e(status)}">{_e(words)}</b> <span class="muted">{_e(run.run_id)}</span></p>'
    if reason := run.xcoms.get("reason"):
        yield f"<pre>{_e(reason)}</pre>"
    facts = {
        "pipeline": run.xcoms.get("pipeline_path"),
        "execution": run.xcoms.get("execution_id"),
        "master": run.xcoms.get("master"),
        "application": run.xcoms.get("application_id"),
        "taken over from": run.xcoms.get("taken_from"),
    }
    shown = (f"{_e(name)} <code>{_e(value)}</code>" for name, value in facts.items() if value)
    yield f'<p class="muted">{" ".join(shown)}</p>'


def _nodes(run: Run) -> Iterable[str]:
    nodes = {name: _mapping(node) for name, node in _mapping(run.kept.get("nodes")).items()}
    if not nodes:
        return
    yield "<h2>Nodes</h2>"
    rows = (
        [name, node.get("kind", ""), *(_number(node.get(key, 0)) for key in on_call.FIGURES.values())]
        for name, node in nodes.items()
    )
    yield _table(["node", "kind"], [*on_call.FIGURES], rows)


def _dead(run: Run) -> Iterable[str]:
    reasons = [_mapping(each) for each in _list(run.xcoms.get("dlq_reasons"))]
    count = run.xcoms.get("dlq_count") or 0
    if not reasons and not count:
        return
    yield f"<h2>Dead letters: {_number(count)}</h2>"
    rows = []
    for each in reasons:
        example = _mapping(each.get("example"))
        place = ", row ".join(str(example[key]) for key in ("file", "row") if example.get(key))
        value = "" if example.get("value") is None else str(example["value"])
        rows.append(
            [
                each.get("stage", ""), each.get("field") or "", each.get("category") or "", place,
                value, example.get("detail", ""), _number(each.get("count", 0)),
            ]
        )  # fmt: skip
    yield _table(["stage", "field", "category", "first record", "value", "what was wrong"], ["records"], rows)
    more = _mapping(run.kept.get("more_reasons"))
    if number := _number(more.get("reasons")):
        words = "more reason" if number == "1" else "more reasons"
        yield f'<p class="muted">{number} {words}, with {_number(more.get("count"))} records.</p>'
    if command := on_call.more([str(each) for each in _list(run.xcoms.get("dlq_paths"))]):
        yield f"<p>All of them: <code>{_e(command)}</code></p>"


def _changes(run: Run, earlier: Sequence[Run]) -> Iterable[str]:
    before = next((each for each in earlier if each.digests), None)
    if not run.digests or before is None:
        return
    yield "<h2>The pipeline since the run before</h2>"
    found = on_call.changes(before.digests, run.digests)
    if not found:
        yield f'<p class="muted">It is the same as in {_e(before.run_id)}.</p>'
    else:
        yield "<ul>" + "".join(f"<li>{_e(each)}</li>" for each in found) + "</ul>"


def _earlier(run: Run, earlier: Sequence[Run]) -> Iterable[str]:
    if not earlier:
        return
    yield f'<h2>Runs of this task</h2><p class="muted">This one and up to {EARLIER} before it.</p>'
    rows = (
        [
            each.run_id, str(each.xcoms.get("status") or each.state or ""), each.started,
            *(_number(each.records.get(key)) for key in ("total", "written")),
            _number(each.xcoms.get("dlq_count")), "" if each.duration_s is None else f"{each.duration_s:.1f} s",
        ]
        for each in [run, *earlier]
    )  # fmt: skip
    yield _table(["run", "status", "started"], ["read", "written", "dead", "duration"], rows)


def _picture(run: Run) -> Iterable[str]:
    picture = run.kept.get("picture")
    if isinstance(picture, str) and picture:
        # As an image it runs no script and loads nothing.
        yield f'<h2>Plan</h2><div class="wide"><img alt="The plan" src="data:image/svg+xml,{_quoted(picture)}"></div>'


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, errors="replace")


def _table(words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = [*(f"<th>{_e(each)}</th>" for each in words), *(f'<th class="number">{_e(each)}</th>' for each in numbers)]
    lines = []
    for row in rows:
        cells = [f"<td>{_e(each)}</td>" for each in row[: len(words)]]
        cells += [f'<td class="number">{_e(each)}</td>' for each in row[len(words) :]]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr>{"".join(heads)}</tr>\n' + "\n".join(lines) + "</table></div>"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _e(value: object) -> str:
    # Text that is invalid Unicode, such as half of a surrogate pair, cannot be sent.
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []
