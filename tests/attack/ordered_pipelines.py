"""Generated pipelines whose results follow from the order of records, beside a plain model of them, row by row.

Windows, time windows, state, counters, merges: the same rows and dead letters, however they are cut, partitioned,
spilled, in small batches, their tasks in any order.
"""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from tests.attack import generated_order, rounds, whole_pipelines
from tests.execute import pipelines

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from tests.models.ordered import World


def one(chance: random.Random, folder: Path) -> str:
    """A pipeline, run in some ways."""
    made = generated_order.pipeline(chance)
    strategy = chance.choice(["continue", "continue", "continue", "best_effort"])
    text = _shown(made.text(strategy))
    pipelines.write(folder, {**made.files, "pipeline.yaml": text})
    world = made.world()
    wanted = {file: [row.fields for row in world.streams[stream]] for file, stream in made.outputs}
    letters = _letters(world)
    ok = len({(row.file, row.number) for _, stream in made.outputs for row in world.streams[stream]})
    plain: dict[str, Any] = {}
    cut = chance.randint(64, 400)
    little = whole_pipelines.Way(cut, 300, chance.choice([20000, 60000]), is_small=chance.random() < 0.5)
    ways = [whole_pipelines.Way(), whole_pipelines.Way(cut, 200, is_small=chance.random() < 0.3), little]
    for way in ways:
        found = whole_pipelines.run(chance, folder, way)
        if way.memory_bytes and "E310" in (found["error"] or ""):
            continue
        assert found["error"] is None, f"{way}: {found['error']}\n{text}"
        told = found["files"].pop("dead.csv", None)
        if strategy == "continue":
            _same_letters(told, letters, f"{way}", text)
        assert found["figures"]["dlq_count"] == len(letters), f"{way}: {found['figures']}\n{letters}\n{text}"
        assert found["figures"]["records_ok"] == ok, f"{way}: {found['figures']}\n{ok}\n{text}"
        assert found["figures"]["exit_code"] == (2 if letters else 0), f"{way}: {found['figures']}\n{text}"
        for file, rows in wanted.items():
            given = [json.loads(line) for line in found["files"][file].decode().splitlines()]
            _same(given, rows, f"{way}: {file}", text)
        plain = plain or found["files"]
        assert found["files"] == plain, f"{way}: {whole_pipelines.difference(plain, found['files'])}\n{text}"
    return "dead letters" if letters else "clean"


def _shown(pipeline: dict[str, Any]) -> str:
    """The pipeline file, a line for each node: what is found shows it."""
    head = {key: value for key, value in pipeline.items() if key != "nodes"}
    return (
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items()) + "nodes:\n" + _lines(pipeline["nodes"])
    )


def _lines(nodes: list[Any]) -> str:
    return "".join(f"- {json.dumps(node)}\n" for node in nodes)


def _letters(world: World) -> list[list[str]]:
    """What dead letters have to say; what does not convert fails at a node that is not told here."""
    found = [
        [file, source, str(row), category, stage or "", route]
        for file, source, row, category, stage, route in world.letters
    ]
    return sorted(found)


def _same_letters(told: list[list[str]] | None, wanted: list[list[str]], way: str, text: str) -> None:
    rows = [dict(zip(told[0], row, strict=True)) for row in told[1:]] if told else []
    names = ["source_file", "source_name", "source_row", "error_category", "stage", "route"]
    found = [[row[f"_cxl_dlq_{name}"] for name in names] for row in rows]
    for row, letter in zip(rows, found, strict=True):
        if "conversion failed" in row["_cxl_dlq_error_detail"]:
            letter[4] = ""
    more = [each for each in sorted(found) if each not in wanted]
    less = [each for each in wanted if each not in found]
    assert sorted(found) == wanted, f"{way}: dead letters {more[:5]} instead of {less[:5]}\n{text}"


def _same(given: list[dict[str, Any]], wanted: list[dict[str, Any]], where: str, text: str) -> None:
    for number, (one, other) in enumerate(zip(given, wanted, strict=False)):
        for name in {*one, *other}:
            left, right = one.get(name), other.get(name)
            assert _alike(left, right), (
                f"{where}, row {number}: {name} is {left!r}, not {right!r}\n{one}\n{other}\n{text}"
            )
    assert len(given) == len(wanted), f"{where}: {len(given)} rows, not {len(wanted)}\n{text}"


def _alike(one: Any, other: Any) -> bool:
    """Means are rounded twice."""
    if isinstance(one, bool) or isinstance(other, bool) or not isinstance(one, int | float):
        return bool(one is other if isinstance(one, bool) else one == other)
    return isinstance(other, int | float) and math.isclose(one, other, rel_tol=4e-16)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("ordered_pipelines", "pipelines of ordered records beside a model", 300, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
