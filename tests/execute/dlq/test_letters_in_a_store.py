"""Dead letters that lie in a store: shown, replayed and discarded there, whole with the outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.delivery import joint
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, size: int}}}
  - {type: output, name: o, input: s, config: {type: csv, path: OUT/o.csv}}
error_handling: {strategy: continue, dlq: {path: AWAY/dead.csv}}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)


def prepare(folder: Path, bucket: AnyBucket, *, is_here: bool) -> str:
    out = str(folder / "out") if is_here else bucket.uri("out")
    text = PIPELINE.replace("OUT", out).replace("AWAY", bucket.uri("out"))
    pipelines.write(folder, {"pipeline.yaml": text, "in.csv": "id,size\n1,3\n2,x\n3,y\n4,z\n"})
    assert pipelines.run(folder, allow_absolute_paths=True).result.exit_code == 2
    return bucket.uri("out/dead.csv")


def mend(bucket: AnyBucket, wrong: str, right: str) -> None:
    header, *lines = bucket.get("out/dead.csv").decode().splitlines(keepends=True)
    assert any(line.endswith(f",{wrong}\n") for line in lines)
    bucket.put("out/dead.csv", header + "".join(line.replace(f",{wrong}\n", f",{right}\n") for line in lines))


def output(folder: Path, bucket: AnyBucket, *, is_here: bool) -> str:
    return (folder / "out/o.csv").read_text() if is_here else bucket.get("out/o.csv").decode()


def replay(letters: str) -> int:
    return clinker.main(["dlq", "replay", "pipeline.yaml", letters, "--allow-absolute-paths"])


@pytest.mark.parametrize("is_here", [True, False])
def test_letters_are_shown_replayed_and_discarded(
    is_here: bool, bucket: AnyBucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = prepare(tmp_path, bucket, is_here=is_here)
    assert clinker.main(["dlq", "show", letters, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["count"]) == (letters, 3)

    mend(bucket, "x", "7")
    assert replay(letters) == 2
    assert output(tmp_path, bucket, is_here=is_here) == "id,size\n1,3\n2,7\n"
    assert len(bucket.get("out/dead.csv").decode().splitlines()) == 3
    mend(bucket, "y", "8")
    assert replay(letters) == 2
    assert output(tmp_path, bucket, is_here=is_here) == "id,size\n1,3\n2,7\n3,8\n"

    assert clinker.main(["dlq", "discard", letters, "--all", "--reason", "lost"]) == 0
    assert "out/dead.csv" not in [*bucket.keys()]
    ledger = bucket.get("out/dead.csv.ledger.ndjson").decode().splitlines()
    events = [json.loads(line)["event"] for line in ledger]
    assert (events.count("replayed"), events[-1]) == (2, "discarded")
    assert not [key for key in [*bucket.keys()] if ".clinker-" in key]


def test_a_replay_that_dies_changes_both_places_once_it_is_recovered(
    bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = prepare(tmp_path, bucket, is_here=True)
    mend(bucket, "x", "7")
    before = {key: bucket.get(key).decode() for key in [*bucket.keys()]}

    def fails(*_: object) -> None:
        raise OSError(28, "no room", "/x")

    with monkeypatch.context() as patched:
        patched.setattr(joint, "_complete", fails)
        assert replay(letters) == 4
    assert "no room" in capsys.readouterr().err
    assert (tmp_path / "out/o.csv").read_text() == "id,size\n1,3\n"
    assert {
        key: text
        for key, text in {key: bucket.get(key).decode() for key in [*bucket.keys()]}.items()
        if ".clinker-" not in key
    } == before
    assert clinker.main(["recover", "out"]) == 0
    assert (tmp_path / "out/o.csv").read_text() == "id,size\n1,3\n2,7\n"
    assert [key for key in [*bucket.keys()] if key.startswith("out/")] == ["out/dead.csv", "out/dead.csv.ledger.ndjson"]
    assert len(bucket.get("out/dead.csv").decode().splitlines()) == 3


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("s3://BUCKET/none.csv", "there is no such object"),
        ("s3://no-such-bucket-at-all/x.csv", "E910"),
        ("s3://user:secret@bucket/x.csv", "no place for credentials"),
        ("s3:///x.csv", "names no bucket"),
    ],
)
def test_what_is_not_there_is_told(
    file: str, said: str, s3: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinker.main(["dlq", "show", file.replace("BUCKET", s3.name)]) in (1, 4)
    err = capsys.readouterr().err
    assert said in err
    assert "secret" not in err


def test_stores_that_nothing_reads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["dlq", "discard", "viewfs://bucket/x.csv", "--all", "--reason", "r"]) == 1
    assert "viewfs://bucket/x.csv is in a store that is not read from: copy it first" in capsys.readouterr().err
