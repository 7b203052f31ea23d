"""Outputs in a store: the bytes of local files, whatever the output's options, and nothing beside them."""

from __future__ import annotations

import logging
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery.objects import draft
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.object_store import ACCESS_KEY, ACCOUNT_KEY, SECRET_KEY
from tests.stores.faults import Fault, between

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

OUTPUTS = {
    "plain": "{type: csv, path: OUT/plain.csv, write_meta: true}",
    "lines": "{type: json, path: OUT/lines.json, options: {format: ndjson}}",
    "array": "{type: json, path: OUT/array.json}",
    "each": "{type: csv, path: 'OUT/{source_file}/each.csv'}",
    "sorted": "{type: csv, path: OUT/sorted.csv, sort_order: [team, id]}",
    "pieces": "{type: json, path: OUT/pieces.json, sort_order: [team], split: {max_records: 30, group_key: team}}",
    "numbered": "{type: csv, path: OUT/n.csv, split: {max_records: 70, naming: '{stem}-{seq:04}.{ext}'}}",
    "folder": "{type: csv, path: OUT/folder, parts: true}",
    "columns": "{type: parquet, path: OUT/columns.parquet}",
    "workbook": "{type: excel, path: OUT/book.xlsx, sort_order: [v]}",
    "column_parts": "{type: parquet, path: OUT/column_parts, parts: true}",
    "column_pieces": "{type: parquet, path: OUT/cp.parquet, split: {max_records: 150}}",
    "packed": "{type: csv, path: OUT/packed.csv.gz}",
    "free": "{type: csv, path: OUT/free.csv, if_exists: unique_suffix}",
}
PIPELINE = """
pipeline: {name: p}
error_handling:
  {strategy: continue, dlq: {path: OUT/dead.csv, include_source_row: true, per_source: {t: {path: OUT/dead_t.csv}}}}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, glob: 'in/*.csv', schema: {id: int, team: string}}}
  - {type: source, name: t, config: {name: t, type: csv, path: more.csv, schema: {team: string, size: int}}}
  - type: combine
    name: both
    input: {s: s, t: t}
    config: {where: s.team == t.team, drive: s, cxl: "emit id = s.id\\nemit n = t.size"}
  - {type: output, name: both_out, input: both, config: {name: both_out, type: csv, path: OUT/both.csv}}
  - {type: transform, name: nobody, input: s, config: {cxl: "filter id < 0"}}
  - {type: output, name: none, input: nobody, config: {name: none, type: json, path: OUT/none.json}}
  - type: output
    name: nothing
    input: nobody
    config: {name: nothing, type: csv, path: OUT/nothing.csv, include_header: false}
"""
ONE = """
pipeline: {name: one}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, text: string}}}
  - {type: output, name: o, input: s, config: {name: o, type: TYPE, path: OUT/o.TYPE, if_exists: HOW}}
"""


def pipeline(out: str) -> str:
    nodes = [
        f"  - {{type: output, name: {name}, input: s, config: {{name: {name}, {config[1:]}}}\n"
        for name, config in OUTPUTS.items()
    ]
    return (PIPELINE + "".join(nodes)).replace("OUT", out)


def prepare(folder: Path) -> None:
    rows = [f"{'x' if i % 41 == 0 else i},t{i % 7}" for i in range(400)]
    written = {f"in/{name}.csv": "id,team\n" + "\n".join(rows[i::2]) + "\n" for i, name in enumerate("ab")}
    more = "team,size\nt0,3\nt1,1\nt2,none\nt3,2\nt4,1\n"
    pipelines.write(folder, {"pipeline.yaml": pipeline("out"), "more.csv": more, **written})


def told(found: dict[str, bytes]) -> dict[str, bytes]:
    """Files without what differs from run to run: ids, moments, and the facts of the run."""
    kept = {name: data for name, data in found.items() if not name.endswith(".meta.json")}
    return {
        name: b"\n".join(line.split(b",", 2)[-1] for line in data.splitlines()) if "dead" in name else data
        for name, data in kept.items()
    }


def published(bucket: AnyBucket, prefix: str = "out/") -> dict[str, bytes]:
    """All objects of a bucket, hidden ones too; no upload is left."""
    assert bucket.uploads() == []
    return {key.removeprefix(prefix): bucket.get(key) for key in [*bucket.keys()]}


def run(folder: Path, **options: Any) -> Any:
    return pipelines.run(folder, allow_absolute_paths=True, **options).result


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


@pytest.mark.parametrize("by_tasks", [False, True])
def test_outputs_are_the_same_in_a_store(
    by_tasks: bool, bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")
    tuning = Tuning()
    if by_tasks:
        tuning = Tuning(driver_output_bytes=-1, driver_dlq_rows=0)
    prepare(tmp_path)
    local = run(tmp_path, tuning=tuning)
    assert (local.error, local.dlq_count) == (None, 11)
    here = pipelines.outputs(tmp_path)
    bucket.put("out/pieces_0099.json", "of an older run")
    bucket.put("out/folder/part-00099.csv", "of an older run")
    bucket.put("out/free.csv", "of an older run")
    bucket.put("out/plain.csv", "of an older run")
    pipelines.write(tmp_path, {"pipeline.yaml": pipeline(bucket.uri("out"))})
    found = run(tmp_path, force=True, tuning=tuning)
    root = str(tmp_path / "out")
    assert found.error is None
    expected = [each.replace(root, bucket.uri("out")).replace("free.csv", "free-1.csv") for each in local.output_files]
    assert list(found.output_files) == expected
    assert list(found.dlq_paths) == [each.replace(root, bucket.uri("out")) for each in local.dlq_paths]
    away = published(bucket)
    assert away.pop("free.csv") == b"of an older run"
    away["free.csv"] = away.pop("free-1.csv")
    assert told(away) == told(here)
    assert [name for name in os.listdir(tmp_path) if name.startswith(".clinker")] == []


def one(folder: Path, out: str, how: str = "overwrite", kind: str = "csv", rows: int = 3, text: str = "a") -> None:
    data = "id,text\n" + "".join(f"{i},{text}\n" for i in range(rows))
    pipelines.write(folder, {"pipeline.yaml": ONE.replace("TYPE", kind).replace("OUT", out).replace("HOW", how)})
    (folder / "in.csv").write_text(data)


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_large_file_is_copied_by_the_store_and_joined_by_tasks(
    kind: str, bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(tmp_path, "out", kind=kind, rows=115_000, text="a" * 190)
    run(tmp_path)
    here = (tmp_path / f"out/o.{kind}").read_bytes()
    assert len(here) > 21 << 20
    with between(bucket.endpoint) as proxy:
        bucket.through(proxy.endpoint, monkeypatch)
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(11 << 20))
        one(tmp_path, bucket.uri("out"), kind=kind, rows=115_000, text="a" * 190)
        assert run(tmp_path).error is None
    assert published(bucket) == {f"o.{kind}": here}
    if bucket.scheme != "s3":
        return
    parts = [each for each in proxy.requests if "partNumber=" in each.path and f"/out/o.{kind}" in each.path]
    sent = [each for each in parts if each.size > 0]
    assert len(parts) > len(sent) >= 1, "some parts are copied, some sent"
    assert all(each.size < 17 << 20 for each in sent)


def test_an_existing_object_stops_the_run_before_any_work(bucket: AnyBucket, tmp_path: Path) -> None:
    one(tmp_path, bucket.uri("out"), "error")
    assert run(tmp_path).error is None
    found = run(tmp_path).error
    assert found.code == "E902"
    assert f"{bucket.uri('out/o.csv')} exists already" in found.message
    assert run(tmp_path, force=True).error is None
    assert published(bucket) == {"o.csv": b"id,text\n0,a\n1,a\n2,a\n"}


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("was_there", [False, True])
def test_of_two_programs_that_write_a_name_one_is_told(
    size: str, was_there: bool, bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning = Tuning(driver_output_bytes=-1) if size == "large" else Tuning()
    if was_there:
        bucket.put("out/o.csv", "of before")
    one(tmp_path, bucket.uri("out"))
    complete = draft.ObjectDraft.complete

    def late(self: draft.ObjectDraft) -> None:
        bucket.put("out/o.csv", "of another program")
        complete(self)

    monkeypatch.setattr(draft.ObjectDraft, "complete", late)
    found = run(tmp_path, tuning=tuning)
    assert (found.error.code, found.exit_code) == ("E902", 4), found.error.message
    assert bucket.uri("out/o.csv") in found.error.message
    assert published(bucket) == {"o.csv": b"of another program"}


def test_two_runs_of_one_pipeline_publish_one_after_the_other(bucket: AnyBucket, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        one(tmp_path / name, bucket.uri("out"), text=name)
    with ThreadPoolExecutor() as threads:
        found = [*threads.map(run, (tmp_path / name for name in "ab"))]
    errors = [each.error for each in found if each.error]
    assert len(errors) <= 1
    assert [each.code for each in errors] in ([], ["E902"]), errors
    winner = "b" if found[0].error else "a" if found[1].error else None
    text = published(bucket)["o.csv"].decode()
    assert text in {f"id,text\n0,{name}\n1,{name}\n2,{name}\n" for name in (winner or "ab")}


@pytest.mark.parametrize(
    ("operation", "right"),
    [
        ("PUT", "s3:PutObject"),
        ("DELETE", "s3:DeleteObject"),
        ("LIST", "s3:ListBucket"),
    ],
)
def test_a_missing_right_is_told_and_nothing_is_visible(
    operation: str, right: str, s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one(tmp_path, s3.uri("out"))
    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        proxy.rule = lambda request: (
            Fault(403, "AccessDenied")
            if request.method == operation or (operation == "LIST" and "list-type=2" in request.path)
            else None
        )
        found = run(tmp_path)
        if operation == "DELETE":  # the files are there, and what lies beside them is left to the next run
            assert found.error is None
            assert s3.get("out/o.csv") == b"id,text\n0,a\n1,a\n2,a\n"
            return
        assert (found.error.code, found.exit_code) == ("E910", 4)
        assert right in found.error.message
    assert [key for key in published(s3) if ".clinker" not in key] == []


def test_a_task_that_may_not_write_is_told(s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(tmp_path, s3.uri("out"))
    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        proxy.rule = lambda request: Fault(403, "AccessDenied") if "/parts/" in request.path else None
        found = run(tmp_path)
    assert (found.error.code, found.exit_code) == ("E910", 4)
    assert "output 'o'" in found.error.message
    assert "s3:PutObject on the bucket" in found.error.message
    assert published(s3) == {}


def test_a_bucket_that_is_not_there_is_told(bucket: AnyBucket, tmp_path: Path) -> None:
    one(tmp_path, f"{bucket.missing()}out")
    found = run(tmp_path).error
    assert found.code == "E910"
    assert re.search(r"no (bucket|container|namenode) (is named|of) `no-such-bucket`", found.message)


def test_what_fails_for_the_moment_is_tried_again(s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.001)
    one(tmp_path, s3.uri("out"))
    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        faults = [Fault(503, "SlowDown"), None, Fault(after_cut=True), None, Fault(500, "InternalError"), None]
        proxy.rule = lambda request: faults[request.number % 6]
        assert run(tmp_path, tuning=Tuning(driver_output_bytes=-1)).error is None
    assert published(s3) == {"o.csv": b"id,text\n0,a\n1,a\n2,a\n"}


def test_credentials_are_nowhere(bucket: AnyBucket, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    logging.getLogger("botocore").setLevel("INFO")
    one(tmp_path, bucket.uri("out"))
    found = run(tmp_path, metrics_spool_dir=str(tmp_path / "metrics"))
    assert found.error is None
    texts = [caplog.text, str(found.to_dict()), *(each.read_text() for each in (tmp_path / "metrics").iterdir())]
    assert not [text for text in texts if any(key in text for key in (SECRET_KEY, ACCESS_KEY, ACCOUNT_KEY))]


def test_a_store_without_conditions_is_told_of(
    s3: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one(tmp_path, s3.uri("out"))
    with between(s3.endpoint) as proxy:
        proxy.hidden = frozenset({"if-none-match", "if-match"})
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        assert run(tmp_path).error is None
        assert run(tmp_path).error is None
    assert "ignores conditions" in caplog.text
    assert published(s3) == {"o.csv": b"id,text\n0,a\n1,a\n2,a\n"}
