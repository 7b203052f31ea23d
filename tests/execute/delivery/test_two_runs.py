"""Two runs that want the same names at the same time: all places get one of them, and the other one says so."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_jobs.execute.run import passes
from spark_jobs.execute.spark import in_process
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from spark_jobs.result import RunResult
    from tests.object_store import AnyBucket

PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: OUT/letters/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, who: string}}}
  - {type: output, name: plain, input: s, config: {type: csv, path: OUT/a/plain.csv, if_exists: HOW}}
  - {type: output, name: lines, input: s, config: {type: json, path: OUT/b/lines.json, if_exists: HOW}}
  - type: output
    name: pieces
    input: s
    config: {type: csv, path: OUT/a/pieces.csv, if_exists: HOW, split: {max_records: 20}}
"""
TABLE = """
pipeline: {name: p}
error_handling: {strategy: continue}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, who: string}}}
  - {type: output, name: table, input: s, config: {type: delta, path: OUT/t, options: {mode: HOW}}}
"""
NAMES = ("first", "second")


class Meeting:
    """Has two runs wait for each other once both have done their work and neither has published."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.barrier, self.came = threading.Barrier(2), set[int]()
        without_spark.install(monkeypatch)
        monkeypatch.setattr(passes.chain, "run", self.run)

    def run(self, spark: object, spec: Any) -> Any:
        told = in_process.run(spec)
        if (mine := threading.get_ident()) not in self.came:
            self.came.add(mine)
            self.barrier.wait(60)
        return told


def meet(folder: Path, text: str, tuning: Tuning, **options: Any) -> list[RunResult]:
    """The results of two runs of a pipeline that read different records."""
    folders = [folder / name for name in NAMES]
    for name, place in zip(NAMES, folders, strict=True):
        rows = "".join(f"{n if n % 10 else 'x'},{name}\n" for n in range(50))
        pipelines.write(place, {"pipeline.yaml": text, "in.csv": f"id,who\n{rows}"})

    def run(place: Path) -> RunResult:
        return pipelines.run(place, tuning=tuning, allow_absolute_paths=True, **options).result

    with ThreadPoolExecutor() as threads:
        return [*threads.map(run, folders)]


@pytest.fixture(params=["local", "s3", "gcs", "azure", pytest.param("hdfs", marks=pytest.mark.spark)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where outputs go, and what is there."""
    if request.param == "local":
        out = tmp_path / "out"
        return str(out), lambda: {name: data.decode() for name, data in pipelines.outputs(tmp_path).items()}
    bucket = request.getfixturevalue(request.param)

    def there() -> dict[str, str]:
        assert bucket.uploads() == []
        return {key.removeprefix("out/"): bucket.get(key).decode() for key in [*bucket.keys()]}

    return bucket.uri("out"), there


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("how", ["error", "overwrite"])
def test_all_files_are_of_one_run(
    how: str, size: str, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = Tuning(driver_output_bytes=-1) if size == "large" else Tuning()
    out, there = place
    Meeting(monkeypatch)
    found = meet(tmp_path, PIPELINE.replace("OUT", out).replace("HOW", how), tuning, force=how == "overwrite")
    errors = [each.error for each in found]
    if how == "error":
        assert sorted(each.exit_code for each in found) == [2, 4]
    assert {each.code for each in errors if each} <= {"E902"}, errors
    files = there()
    assert not [name for name in files if ".clinker" in name]
    assert sorted(files) == [
        "a/pieces_0001.csv", "a/pieces_0002.csv", "a/pieces_0003.csv", "a/plain.csv", "b/lines.json",
        "letters/dead.csv",
    ]  # fmt: skip
    told = {name: {who for who in NAMES if who in text} for name, text in files.items()}
    winners = {name for name, error in zip(NAMES, errors, strict=True) if error is None}
    assert len({*map(frozenset, told.values())}) == 1, told
    assert all(len(each) == 1 and each <= winners for each in told.values()), told
    for error in errors:
        assert error is None or out in error.message, error


@pytest.mark.parametrize("how", ["append", "overwrite"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_table_has_the_records_of_runs_that_say_so(
    is_there: bool, how: str, lake_bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = lake_bucket.uri("out")
    text = TABLE.replace("OUT", out).replace("HOW", how)
    if is_there:
        with monkeypatch.context() as patch:
            without_spark.install(patch)
            pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": "id,who\n1,before\n"})
            assert pipelines.run(tmp_path, allow_absolute_paths=True).result.error is None
    Meeting(monkeypatch)
    found = meet(tmp_path, text, Tuning())
    errors = {name: each.error for name, each in zip(NAMES, found, strict=True) if each.error is not None}
    assert len(errors) < len(NAMES)
    assert all(f"{out}/t" in error.message for error in errors.values()), errors
    for key in [*lake_bucket.keys()]:
        assert ".clinker" not in key
        pipelines.write(tmp_path / "copy", {key.removeprefix("out/"): lake_bucket.get(key)})
    table = DeltaTable(tmp_path / "copy/t")
    winners = [name for name in NAMES if name not in errors]
    counts = Counter(table.to_pyarrow_table().column("who").to_pylist())
    if how == "append":
        assert counts == {**dict.fromkeys(winners, 45), **({"before": 1} if is_there else {})}
    else:
        assert counts in [{name: 45} for name in winners]
    if not is_there:
        assert [error.code for error in errors.values()] == ["E912"]
        kept = {Path(uri).name for uri in table.file_uris()}
        assert kept == {path.name for path in (tmp_path / "copy/t").glob("*.parquet")}, "files of no version"


def test_a_scheduler_tries_again_after_a_death_and_does_it_once(
    bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is lost once everything is published and before the scheduler has heard of it."""
    without_spark.install(monkeypatch)
    rows = "".join(f"{n if n % 10 else 'x'},first\n" for n in range(50))
    text = PIPELINE.replace("OUT", bucket.uri("out")).replace("HOW", "error")
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.csv": f"id,who\n{rows}"})

    def run(**options: Any) -> RunResult:
        asked = {"once": ("etl.load", "monday"), "allow_absolute_paths": True, **options}
        return pipelines.run(tmp_path, **asked).result

    first = run()
    assert first.exit_code == 2
    before = {key: bucket.get(key) for key in [*bucket.keys()]}
    monkeypatch.setattr(passes.chain, "run", None)
    again = run(is_retry=True)
    assert (again.exit_code, again.taken_from, again.records_dlq) == (2, first.execution_id, 5)
    assert {key: bucket.get(key) for key in [*bucket.keys()]} == before
    assert len([key for key in before if ".clinker" in key]) == 1
    without_spark.install(monkeypatch)
    bucket.delete("out/b/lines.json")
    refused = run(is_retry=True)
    assert refused.error is not None
    assert refused.error.code == "E902"
    assert run(is_retry=True, force=True).taken_from is None
    assert bucket.get("out/b/lines.json") == before["out/b/lines.json"]
