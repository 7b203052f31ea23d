"""Generated pipelines with correlation keys: what the plain model says of them, in whatever way they are run."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from spark_jobs import plan as planning
from spark_jobs.plan import pending
from tests.attack import generated_correlation, rounds, whole_pipelines
from tests.attack.whole_pipelines import Way
from tests.execute import pipelines
from tests.models import verdicts
from tests.models.correlated import Model

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

#: Of so many rounds one is run in several ways, which have to agree in figures and warnings as well.
_ROUNDS_PER_COMPARISON = 12


def one(chance: random.Random, folder: Path) -> str:
    """A pipeline, computed by the model and run in some way, or in several."""
    nodes, files = generated_correlation.pipeline(chance)
    text = yaml.safe_dump(nodes, sort_keys=False)
    pipelines.write(folder, {**files, "pipeline.yaml": text})
    plan = planning.load(folder / "pipeline.yaml")
    if pending.pending(plan):
        return "that do not run yet"
    model = Model(plan)
    expected = verdicts.of(model)
    _check_ledger(expected, model, text)
    ways = _ways(chance)
    found = whole_pipelines.run(chance, folder, ways[0])
    told = _judge(plan, expected, model, found, f"{ways[0]}\n{text}")
    for way in ways[1:]:
        other = whole_pipelines.run(chance, folder, way)
        for part, value in found.items():
            if part != "error" and found["error"]:
                continue  # how far a run came that a failure ends depends on its tasks
            if _ends_in_any_job(plan, value, other[part]):
                continue
            assert other[part] == value, f"{way}: {whole_pipelines.difference(value, other[part])}\n{text}"
    return told


def _ways(chance: random.Random) -> list[Way]:
    cut = chance.randint(12, 64)
    some = [
        Way(),
        Way(cut),
        Way(cut, 60, is_small=True),
        Way(cut, 60, chance.choice([12_000, 40_000]), is_small=True),
        Way(partition_bytes=50, memory_bytes=20_000),
    ]
    return some[:3] if chance.random() * _ROUNDS_PER_COMPARISON < 1 else [chance.choice(some)]


def _ends_in_any_job(plan: Plan, error: str | None, other: str | None) -> bool:
    """Whether two runs were ended by failures of which either may come first.

    In which job records meet in a combine depends on how large its sides are beside the memory.
    """
    ended = all(" strategy fail_fast" in (each or "") for each in (error, other))
    return ended and any(planned.kind == "combine" for planned in plan.nodes)


def _judge(plan: Plan, expected: verdicts.Verdict, model: Model, found: dict[str, Any], text: str) -> str:
    """Compare a run with what is expected of it; gives what the round was about."""
    error = found["error"] or ""
    if "E310" in error:
        return "without memory enough"
    strategy, why = str(plan.errors.strategy), _stopped(plan, expected, model)
    if why is not None:
        assert why in error, f"{error!r} instead of {why}\n{text}"
        assert not found["files"], text
        return f"stopped: {why}"
    assert not error, f"{error}\n{text}"
    _compare(plan, expected, found["files"], text)
    _compare_letters(plan, expected, found["files"], text)
    assert found["figures"]["exit_code"] == (2 if expected.letters else 0), text
    assert found["figures"]["dlq_count"] == len(expected.letters), f"{found['figures']}\n{text}"
    return f"under {strategy}" if strategy != "continue" else _named(expected, model)


def _stopped(plan: Plan, expected: verdicts.Verdict, model: Model) -> str | None:
    """What ends a run: under `fail_fast` anything that fails, else too many dead letters."""
    count = len(expected.letters)
    if str(plan.errors.strategy) == "fail_fast" and any(each.category != "late_record" for each in expected.letters):
        return ""
    target, total = plan.errors.dead_letters, len(model.inputs.given)
    if target.max_rate is not None and count and total >= target.min_records and count / total > target.max_rate:
        return "E316"
    return None


def _check_ledger(expected: verdicts.Verdict, model: Model, text: str) -> None:
    """No record is lost, and none that failed or was taken back is written."""
    gone = set(model.records) | model.retracted if model.is_correlated else set()
    for record, fates in expected.fates.items():
        assert fates, f"{record} is lost\n{text}"
        assert not ("written" in fates and record in gone), f"{record} is dead and written\n{text}"


def _compare(plan: Plan, expected: verdicts.Verdict, files: dict[str, Any], text: str) -> None:
    for name, lines in expected.written.items():
        found = list(csv.reader(io.StringIO(files[plan.outputs[name].path.removeprefix("out/")].decode())))
        assert found == lines, f"output {name}: {whole_pipelines.difference(lines, found)}\n{text}"


def _compare_letters(plan: Plan, expected: verdicts.Verdict, files: dict[str, Any], text: str) -> None:
    """Each dead-letter file has its own: a source's, or what is of no source with a file."""
    own = {name: target.path for name, target in plan.errors.per_source.items() if target.path}
    wanted: dict[str, list[verdicts.Letter]] = {
        str(plan.errors.dead_letters.path): [],
        **{path: [] for path in own.values()},
    }
    for letter in expected.letters if str(plan.errors.strategy) != "best_effort" else []:
        path = own.get(letter.source, str(plan.errors.dead_letters.path))
        wanted[path] = [*wanted[path], letter]
    for path, those in wanted.items():
        found = letters(files.get(path.removeprefix("out/"), []))
        if path in own.values():  # it has the columns of its source alone
            found, those = (sorted(each._replace(cells=(), keys=()) for each in some) for some in (found, those))
        surplus, missing = Counter(found) - Counter(those), Counter(those) - Counter(found)
        told = f"letters {list(surplus.elements())[:3]} instead of {list(missing.elements())[:3]}"
        assert found == those, f"{path}: {told}\n{text}"


def letters(table: list[list[str]]) -> list[verdicts.Letter]:
    """The dead letters of a file that has lost its ids and times."""
    return verdicts.read(dict(zip(table[0], row, strict=True)) for row in table[1:]) if table else []


def _named(expected: verdicts.Verdict, model: Model) -> str:
    """What a round was about."""
    categories = {letter.category for letter in expected.letters}
    if "group_size_exceeded" in categories:
        return "with groups that are too large"
    if model.rounds > 1:
        return "with records taken back"
    return "with collateral" if "correlated" in categories else "without collateral"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("correlated_pipelines", "correlation keys against a plain model", 500, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
