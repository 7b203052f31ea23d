"""Generated pipelines, run in several ways: any cut, partitions, little memory, small batches, tasks in any order.

Outputs, dead letters, counters, warnings and errors are the same in all of them.
"""

from __future__ import annotations

import csv
import io
import logging
import pickle
import re
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from spark_jobs import plan as planning
from spark_jobs.diagnostics.diagnostic import DiagnosticError
from spark_jobs.execute import identity, report
from spark_jobs.execute.correlation import stored
from spark_jobs.execute.run import executor, passes
from spark_jobs.execute.spark import spread
from spark_jobs.execute.tasks import shuffle_records
from spark_jobs.execute.tasks import stage as stages
from spark_jobs.formats.csv import parser as csv_parser
from spark_jobs.formats.json import parser as json_parser
from spark_jobs.formats.json.texts import portions
from spark_jobs.nodes import memory, spill
from spark_jobs.nodes.combine import run as combine
from spark_jobs.nodes.output import records
from spark_jobs.nodes.records import batches
from spark_jobs.plan import plan as plans
from spark_jobs.plan.options import RunOptions
from spark_jobs.tuning import Tuning
from tests.attack import generated_pipelines, rounds
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.execute.tasks.spec import JobSpec

#: What is done at once, so small that a few records cross every border.
_SMALL: list[tuple[Any, str, Any]] = [
    (combine, "_CHUNK", 200),
    (combine.Combine, "is_large", lambda self, _, table: len(self.step.builds) == 1 and table.num_rows > 0),
    (records, "BLOCK_ROWS", 3), (records, "_LEAST_BLOCK_ROWS", 2),
    (records, "_WRITTEN_ROWS", 7), (portions, "MOST_LINES", 3),
    (json_parser, "_BLOCK_RECORDS", 3), (csv_parser, "_CAREFUL_BYTES", 60),
    (spill, "MOST_RUNS", 2), (spill, "FAN_OUT", 3), (stored, "MOST_ROWS", 3),
]  # fmt: skip
_SMALL_TUNING = Tuning(
    group_rows=4, merge_rows=5, write_rows=4, probe_rows=3, pair_rows=5, many_candidates=2, crowded_rows=4,
    strip_rows=3, frame_pairs=5, dlq_block_rows=2, dlq_slice_rows=3, dlq_tables=2, driver_dlq_rows=2, dlq_tasks=5,
    driver_output_bytes=0, merge_range_bytes=100, driver_name_bytes=0, name_pack_bytes=300, name_sample_bytes=0,
    name_sample_records=2, json_portion_bytes=100, json_uniform_objects=0, fact_rows=2, pack_task_bytes=300,
    driver_ok_records=0, ok_tasks=3, inline_bits_bytes=0, bits_chunks=1, inline_loads=0, load_block=3,
)  # fmt: skip
_FIGURES = (
    "exit_code", "records_total", "records_ok", "records_written", "records_filtered", "records_deduplicated",
    "records_dlq", "dlq_count",
)  # fmt: skip
#: What ends runs of these pipelines as it should; anything else is a finding.
_EXPECTED = re.compile(r"E319|E313|on_miss|E316|E200|E217|none of the declared|E900|E906")
_WHOLE = 10**9


@dataclass(frozen=True)
class Way:
    """How a pipeline is run."""

    split_bytes: int = _WHOLE
    partition_bytes: int = _WHOLE
    memory_bytes: int | None = None
    is_small: bool = False


def one(chance: random.Random, folder: Path) -> str:
    """A pipeline, run as it comes and in three other ways."""
    nodes, files = generated_pipelines.pipeline(chance)
    text = yaml.safe_dump(nodes, sort_keys=False, allow_unicode=True)
    pipelines.write(folder, {**files, "pipeline.yaml": text})
    try:
        planning.load(folder / "pipeline.yaml")
    except DiagnosticError:
        return "refused"
    plain = run(chance, folder, Way())
    code, error = plain["figures"]["exit_code"], plain["error"]
    if code not in (0, 2):
        assert _EXPECTED.search(error or ""), f"{error}\n{text}"
    for way in _ways(chance):
        found = run(chance, folder, way)
        if way.memory_bytes and "E310" in (found["error"] or ""):
            continue
        for part in plain if code in (0, 2) else ["error"]:
            assert found[part] == plain[part], f"{way}: {difference(plain[part], found[part])}\n{text}"
    return f"exit {code}"


def _ways(chance: random.Random) -> list[Way]:
    cut = chance.randint(12, 64)
    some = [
        Way(cut),
        Way(partition_bytes=50),
        Way(40, 60),
        Way(is_small=True),
        Way(memory_bytes=chance.choice([8000, 20000])),
    ]
    return [*chance.sample(some, 2), Way(chance.randint(12, 64), 80, chance.choice([12000, 40000]), is_small=True)]


def run(chance: random.Random, folder: Path, way: Way) -> dict[str, Any]:
    """What became of a run."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    told = _Lines()
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        patch.setattr(passes.chain, "run", _any_order(chance))
        pipelines.cut_by(patch, way.split_bytes, way.partition_bytes)
        patch.setattr(plans, "LEAST_TASK_BYTES", 1000)
        if way.memory_bytes:
            patch.setattr(memory, "_LEAST_STEP", 500)
        if way.is_small:
            for module, name, value in _SMALL:
                patch.setattr(module, name, value)
            patch.setattr(batches.Batch.slices, "__defaults__", (5,))
        options = RunOptions(threads=2, tuning=_SMALL_TUNING if way.is_small else Tuning())
        loaded = planning.load(folder / "pipeline.yaml", options)
        if way.memory_bytes:
            loaded = replace(loaded, memory_limit_bytes=way.memory_bytes)
        with told:
            outcome = executor.execute(loaded, options, identity.Identity.new(None, None))
    result = outcome.result
    spared = {name: {k: v for k, v in node.items() if k != "spilled_bytes"} for name, node in outcome.nodes.items()}
    return {
        "error": str(result.error) if result.error else None,
        "figures": {key: getattr(result, key) for key in _FIGURES},
        "nodes": spared,
        "warnings": sorted(told.lines),
        "files": _published(folder),
    }


def _any_order(chance: random.Random) -> Any:
    """What `chain.run` does, without Spark, its tasks in any order."""

    def shuffled(items: Any) -> list[Any]:
        found = list(items)
        return chance.sample(found, len(found))

    def run(spark: object, spec: JobSpec) -> list[report.TaskReport]:
        spec = pickle.loads(pickle.dumps(spec))
        rows: list[Any] = []
        for number in shuffled(range(len(spec.loads))):
            rows += spread.rows_of(stages.read_loads(spec, [number], f"0-{number}"))
        for stage in range(1, spec.job.stages):
            given: list[Any] = []
            rows = shuffled(rows)
            for slot in shuffled(range(spec.job.slots(stage))):
                mine = sorted((r for r in rows if r["slot"] == slot), key=lambda r: (r["exchange"], r["ordinal"]))
                batches = [
                    without_spark.pa.RecordBatch.from_pylist([row], schema=shuffle_records.SCHEMA) for row in mine
                ]
                given += spread.rows_of(stages.open_records(spec, stage, slot, f"{stage}-{slot}", iter(batches)))
            rows = given
        reports = [each for row in rows for each in report.decode(row["payload"])]
        return sorted(reports, key=lambda each: (each.stage, each.number))

    return run


class _Lines(logging.Handler):
    """The warnings and errors of a run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._logger = logging.getLogger("clinker")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")

    def __enter__(self) -> None:
        self._before = self._logger.level, self._logger.propagate
        self._logger.addHandler(self)
        self._logger.setLevel(logging.DEBUG)
        self._logger.propagate = False

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.level, self._logger.propagate = self._before


def _published(folder: Path) -> dict[str, Any]:
    """The files; dead letters without ids and times."""
    found: dict[str, Any] = pipelines.outputs(folder) if (folder / "out").exists() else {}
    for name, data in found.items():
        if name.startswith("dead"):
            found[name] = [row[2:] for row in csv.reader(io.StringIO(data.decode()))]
    return found


def difference(plain: Any, other: Any) -> str:
    """The first thing that differs."""
    if isinstance(plain, dict):
        key = next(key for key in {**plain, **other} if plain.get(key) != other.get(key))
        return f"{key}: {difference(plain.get(key), other.get(key))}"
    if isinstance(plain, list) and isinstance(other, list):
        if sorted(map(str, plain)) == sorted(map(str, other)):
            at = next(i for i, (a, b) in enumerate(zip(plain, other, strict=True)) if a != b)
            return f"order alone, from {at}: {plain[at]} and {other[at]}"
        return (
            f"{[each for each in other if each not in plain][:3]} instead of {[e for e in plain if e not in other][:3]}"
        )
    return f"{str(other)[:600]} instead of {str(plain)[:600]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    return rounds.play("whole_pipelines", "whole pipelines, run in several ways", 500, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
