"""Generated time windows beside a plain model of them, record by record: the same groups and the same late records.

Any cut, partitions, little memory, small batches, tasks in any order; one source or several, files, delays, filters.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml

from tests.attack import rounds, whole_pipelines
from tests.execute import pipelines

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STARTS = ("2024-03-01T09:00:00", "1969-12-31T23:00:00", "0001-01-01T00:00:00", "9999-12-31T20:00:00")
#: The first and the last second of the years 1 to 9999.
_FIRST, _LAST = -62135596800, 253402300799
#: What is computed of a group, and whether it asks for the order of records.
_EMITS: dict[str, tuple[str, bool, Callable[[list[_Record]], Any]]] = {
    "ids": ("collect(id)", True, lambda records: _listed([r.id for r in records])),
    "one": ("first(id)", True, lambda records: records[0].id),
    "end": ("last(id)", True, lambda records: records[-1].id),
    "n": ("count(*)", False, len),
    "total": ("sum(v)", False, lambda records: sum(r.v for r in records)),
    "mean": ("avg(v)", False, lambda records: repr(sum(r.v for r in records) / len(records)).removesuffix(".0")),
    "least": ("min(id)", False, lambda records: min(r.id for r in records)),
    "most": ("max(v)", False, lambda records: max(r.v for r in records)),
}


def _listed(values: list[int]) -> str:
    shown = json.dumps(values, separators=(",", ":"))
    return f'"{shown}"' if "," in shown else shown


@dataclass(frozen=True)
class _Record:
    source: str
    file: str
    row: int
    id: int
    k: str
    v: int
    #: The event time: seconds since the epoch, less the delay; None where there is none.
    at: int | None

    @property
    def moment(self) -> int:
        """Its event time."""
        assert self.at is not None
        return self.at


@dataclass
class _Windowed:
    """A pipeline, and what its model needs."""

    nodes: list[dict[str, Any]]
    files: dict[str, str]
    records: list[_Record]
    sources: int
    kind: str
    size: int
    slide: int
    lateness: int
    keys: list[str]
    emits: list[str]
    before: int | None = None
    inside: int | None = None
    late: list[tuple[_Record, int, int]] = field(default_factory=list)


def one(chance: random.Random, folder: Path) -> str:
    """A pipeline, run in some ways."""
    made = _made(chance)
    errors = {"strategy": chance.choice(["continue", "fail_fast"]), "dlq": {"path": "out/dead.csv"}}
    text = yaml.safe_dump({"pipeline": {"name": "w"}, "nodes": made.nodes, "error_handling": errors}, sort_keys=False)
    pipelines.write(folder, {**made.files, "pipeline.yaml": text})
    groups = _groups(made)
    wanted = {"o.csv": _text(made, groups)}
    late = [[r.file, r.source, str(r.row), "late_record", _detail(r, start, end)] for r, start, end in made.late]
    first = whole_pipelines.Way(), whole_pipelines.Way(chance.randint(12, 64), 80, is_small=chance.random() < 0.5)
    little = whole_pipelines.Way(40, 60, chance.choice([8000, 20000, 60000]), is_small=chance.random() < 0.5)
    for way in (*first, little):
        found = whole_pipelines.run(chance, folder, way)
        if way.memory_bytes and "E310" in (found["error"] or ""):
            continue
        assert found["figures"]["exit_code"] == (2 if late else 0), f"{way}: {found['error']}\n{text}"
        told = [[row[0], row[1], row[2], row[5], row[6]] for row in found["files"].pop("dead.csv", [[]])[1:]]
        assert told == late, f"{way}: dead letters\n{told}\n{late}\n{text}"
        given = {name: data.decode() for name, data in found["files"].items()}
        assert given == wanted, f"{way}: {given}\n{wanted}\n{text}"
    return f"{made.kind}{', late' if late else ''}"


def _made(chance: random.Random) -> _Windowed:
    names = ["a", "b", "c"][: chance.choice([1, 1, 2, 3])]
    start = int((datetime.fromisoformat(chance.choice(_STARTS)).replace(tzinfo=UTC) - _EPOCH).total_seconds())
    made = _Windowed(
        nodes=[],
        files={},
        records=[],
        sources=len(names),
        kind=chance.choice(["tumbling", "hopping", "session", "session"]),
        size=chance.choice([60, 90, 600, 3600]),
        slide=chance.choice([5, 30, 150, 600]),
        lateness=chance.choice([0, 0, 0, 30, 5000]),
        keys=chance.choice([[], ["k"], ["k", "v"]]),
        emits=chance.choice([list(_EMITS), [name for name, (_, is_ordered, _) in _EMITS.items() if not is_ordered]]),
        before=chance.randint(0, 9) if chance.random() < 0.3 else None,
        inside=chance.randint(0, 9) if chance.random() < 0.3 else None,
    )
    disorder, stride = chance.choice([0, 300, 2000, 9000]), chance.choice([2, 20, 60, 600])
    for name in names:
        _add_source(made, name, chance, start + chance.choice([0, 0, 500]), (disorder, stride))
    stream = names[0]
    if len(names) > 1:
        stream = "m"
        made.nodes.append({"type": "merge", "name": "m", "inputs": names})
    if made.before is not None:
        program = f"filter v != {made.before}"
        made.nodes.append({"type": "transform", "name": "t", "input": stream, "config": {"cxl": program}})
        stream = "t"
    if chance.random() < 0.3:
        made.nodes.append({"type": "transform", "name": "d", "input": stream, "config": {"cxl": "distinct by id"}})
        stream = "d"
    made.nodes.append({"type": "aggregate", "name": "w", "input": stream, "config": _config(made)})
    output = {"name": "o", "type": "csv", "path": "out/o.csv"}
    made.nodes.append({"type": "output", "name": "o", "input": "w", "config": output})
    return made


def _config(made: _Windowed) -> dict[str, Any]:
    windows = {"tumbling": {"size": f"{made.size}s"}, "hopping": {"size": f"{made.size}s", "slide": f"{made.slide}s"}}
    inside = [] if made.inside is None else [f"filter v != {made.inside}"]
    return {
        "group_by": made.keys,
        "time_window": {made.kind: windows.get(made.kind, {"gap": f"{made.slide}s"})},
        "allowed_lateness": f"{made.lateness}s",
        "cxl": "\n".join([*inside, *(f"emit {name} = {_EMITS[name][0]}" for name in made.emits)]),
    }


def _add_source(made: _Windowed, name: str, chance: random.Random, moment: int, spread: tuple[int, int]) -> None:
    """A source of some files; what the delay leads out of all years has no event time."""
    disorder, stride = spread
    delay = chance.choice([0, 0, 5, 70])
    parts = [f"{name}{i}.csv" for i in range(chance.randint(1, 3))]
    for part in parts:
        lines = ["id,k,v,at"]
        for row in range(1, chance.choice([1, 5, 12, 30])):
            moment = min(moment + chance.randint(0, stride), _LAST)
            at = None if chance.random() < 0.05 else max(moment - chance.randint(0, disorder), _FIRST)
            shown = "" if at is None else (_EPOCH + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S").zfill(19)
            shifted = None if at is None or at - delay < _FIRST else at - delay
            number = len(made.records) + 1
            made.records.append(_Record(name, part, row, number, chance.choice("xyz"), chance.randint(0, 9), shifted))
            lines.append(f"{number},{made.records[-1].k},{made.records[-1].v},{shown}")
        made.files[part] = "\n".join(lines) + "\n"
    schema = {"id": "int", "k": "string", "v": "int", "at": "date_time"}
    config = {
        "name": name,
        "type": "csv",
        "paths": parts,
        "schema": schema,
        "watermark": {"column": "at", "delay": f"{delay}s"},
    }
    made.nodes.append({"type": "source", "name": name, "config": config})


def _groups(made: _Windowed) -> dict[tuple[Any, ...], list[_Record]]:
    """The records of each group, by window start and key, and the late ones."""
    reached: dict[str, int] = {}
    arrived: list[tuple[_Record, int | None]] = []
    for record in made.records:
        if record.at is None or record.v == made.before:
            continue
        known = min(reached.values()) if len(reached) == made.sources else None
        reached[record.source] = max(reached.get(record.source, record.at), record.at)
        if record.v != made.inside:
            arrived.append((record, known))
    groups: dict[tuple[Any, ...], list[_Record]] = {}
    spans = _sessions(made, [record for record, _ in arrived]) if made.kind == "session" else _fixed(made)
    for record, known in arrived:
        windows = spans(record)
        open_ = [w for w in windows if known is None or known < w[1] + made.lateness]
        for start, _ in open_:
            groups.setdefault((start, *(getattr(record, key) for key in made.keys)), []).append(record)
        if windows and not open_:
            made.late.append((record, *windows[0]))
    return groups


def _fixed(made: _Windowed) -> Any:
    slide = made.size if made.kind == "tumbling" else made.slide

    def of(record: _Record) -> list[tuple[int, int]]:
        start = record.moment // slide * slide
        found = []
        while start > record.moment - made.size:
            found.append((start, start + made.size))
            start -= slide
        return found[::-1]

    return of


def _sessions(made: _Windowed, records: list[_Record]) -> Any:
    spans: dict[int, tuple[int, int]] = {}
    keys = {tuple(getattr(record, key) for key in made.keys) for record in records}
    for key in keys:
        mine = sorted(
            (r for r in records if tuple(getattr(r, name) for name in made.keys) == key), key=lambda r: r.moment
        )
        session: list[_Record] = []
        for record in [*mine, None]:
            if session and (record is None or record.moment - session[-1].moment > made.slide):
                for each in session:
                    spans[each.id] = (session[0].moment, session[-1].moment + made.slide)
                session = []
            if record is not None:
                session.append(record)
    return lambda record: [spans[record.id]]


def _text(made: _Windowed, groups: dict[tuple[Any, ...], list[_Record]]) -> str:
    position = {record.id: number for number, record in enumerate(made.records)}
    lines = [",".join([*made.keys, *made.emits])]
    for key, records in sorted(groups.items(), key=lambda item: (item[0][0], position[item[1][0].id])):
        cells = [*key[1:], *(_EMITS[name][2](records) for name in made.emits)]
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"


def _detail(record: _Record, start: int, end: int) -> str:
    bounds = f"[{_nanoseconds(start)}, {_nanoseconds(end)})"
    told = f"record at event-time inside window {bounds} (nanos) which had already closed"
    return f"row {record.row}: time-window w: {told}"


def _nanoseconds(seconds: int) -> str:
    return str(seconds * 10**9)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("time_windows", "time windows beside a plain model", 100, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
