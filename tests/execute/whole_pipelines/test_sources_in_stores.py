"""Pipelines whose sources are objects: the records are those of local files with the same bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.contract import ExitCode
from spark_jobs.execute.run import passes
from spark_jobs.formats import splits
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan.compression import Compression
from spark_jobs.stores import heads
from tests.execute import pipelines, without_spark
from tests.execute.whole_pipelines.test_compressed import FORMATS
from tests.stores.faults import Fault, Request, between

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

PIPELINE = """
pipeline: {{ name: p }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
nodes:
  - type: source
    name: rows
    config: {{ name: rows, {files}, schema: [{{ name: id, type: int }}, {{ name: v, type: {kind} }}], {read} }}
  - type: transform
    name: t
    input: rows
    config: {{ cxl: 'emit row = $source.row' }}
  - {{ type: output, name: o, input: t, config: {{ name: o, path: out/o.csv, type: csv }} }}
"""


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(folder: Path, files: str, read: str = "type: csv", kind: str = "string", **options: Any) -> Any:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.format(files=files, read=read, kind=kind)})
    return pipelines.run(folder, **{"allow_absolute_paths": True, "force": True, **options}).result


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
@pytest.mark.parametrize("ending", FORMATS)
def test_every_format_is_read_as_from_a_file(
    ending: str, compression: Compression, tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "3001")
    text, read, _ = FORMATS[ending]
    packed = {Compression.NONE: "", Compression.GZIP: ".gz", Compression.ZSTD: ".zst"}[compression]
    data = text.encode() if isinstance(text, str) else text
    data = pack(data, compression) if packed else data
    pipelines.write(tmp_path, {f"in/a.{ending}{packed}": data})
    s3.put(f"in/a.{ending}{packed}", data)
    # A text is no number: each third record of the formats of texts is a dead letter.
    for kind in ("string", "int"):
        there = run(tmp_path, f"path: in/a.{ending}{packed}", read, kind)
        expected = pipelines.outputs(tmp_path)
        here = run(tmp_path, f"path: {s3.uri(f'in/a.{ending}{packed}')}", read, kind)
        found = {name: data.replace(s3.uri("").encode(), b"") for name, data in pipelines.outputs(tmp_path).items()}
        assert there.exit_code == here.exit_code
        assert without_times(found) == without_times(expected)
    assert there.exit_code == ExitCode.DEAD_LETTERS


def without_times(files: dict[str, bytes]) -> dict[str, list[list[str]]]:
    """The cells without ids and times of dead letters, which are another's in each run."""
    found = {}
    for name, data in files.items():
        rows = [line.split(",") for line in data.decode().splitlines()]
        left_out = {at for at, column in enumerate(rows[0]) if column in ("_cxl_dlq_id", "_cxl_dlq_timestamp")}
        found[name] = [[cell for at, cell in enumerate(row) if at not in left_out] for row in rows]
    return found


def test_many_small_objects_are_looked_at_ahead_and_read_once_each(
    tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "MOST_WAITING", 5)
    for number in range(40):
        s3.put(f"in/{number:02}.csv", f"id,v\n{number},x\n")
    with between(s3.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        assert run(tmp_path, f"glob: {s3.uri('in/*.csv')}").exit_code == ExitCode.SUCCESS
    lines = pipelines.outputs(tmp_path)["o.csv"].decode().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(number) for number in range(40)]
    gets = [each for each in proxy.requests if each.path.partition("?")[0].endswith(".csv")]
    # A look at the head, counting the rows, and reading: no request for the facts of each object.
    assert len(gets) <= 3 * 40
    assert {each.method for each in proxy.requests} == {"GET"}


def test_source_members_name_the_object(tmp_path: Path, s3: Bucket) -> None:
    s3.put("in/a b.csv", "id,v\n1,x\n")
    pipelines.write(
        tmp_path,
        {
            "pipeline.yaml": PIPELINE.format(
                files=f'path: "{s3.uri("in/a b.csv")}"', read="type: csv", kind="string"
            ).replace("emit row = $source.row", "emit f = $source.file\n      emit s = $source.file.file_stem()")
        },
    )
    assert pipelines.run(tmp_path, allow_absolute_paths=True).result.exit_code == ExitCode.SUCCESS
    assert pipelines.outputs(tmp_path)["o.csv"].decode() == f"id,v,f,s\n1,x,{s3.uri('in/a b.csv')},a b\n"


def test_a_file_for_each_object(tmp_path: Path, s3: Bucket) -> None:
    for name in ("a", "b"):
        s3.put(f"in/{name}.csv", f"id,v\n1,{name}\n")
    for token, expected in (
        ("{source_file}", {"a.csv", "b.csv"}),
        ("{source_path}", {f"{s3.name}/in/a.csv.csv", f"{s3.name}/in/b.csv.csv"}),
    ):
        text = PIPELINE.format(files=f"glob: {s3.uri('in/*')}", read="type: csv", kind="string")
        pipelines.write(tmp_path, {"pipeline.yaml": text.replace("out/o.csv", f"'out/{token}.csv'")})
        assert pipelines.run(tmp_path, allow_absolute_paths=True).result.exit_code == ExitCode.SUCCESS
        assert set(pipelines.outputs(tmp_path)) == expected
        for name in expected:
            (tmp_path / "out" / name).unlink()


def test_a_key_that_climbs_makes_no_path_elsewhere(tmp_path: Path, s3: Bucket) -> None:
    s3.put("in/../../evil.csv", "id,v\n1,x\n")
    text = PIPELINE.format(files=f"glob: {s3.uri('**/*.csv')}", read="type: csv", kind="string")
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace("out/o.csv", "'out/{source_path}.csv'")})
    found = pipelines.run(tmp_path, allow_absolute_paths=True).result
    assert found.exit_code == ExitCode.CONFIG
    assert found.error is not None
    assert "`..`" in found.error.message


def test_an_object_that_is_replaced_ends_the_run_and_nothing_is_published(
    tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "id,v\n" + "".join(f"{number},old\n" for number in range(40_000))
    s3.put("in/a.csv", rows)
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "50000")

    def replace(request: Request) -> Fault | None:
        return Fault(before=lambda: s3.put("in/a.csv", rows.replace("old", "new"))) if request.number == 4 else None

    with between(s3.endpoint) as proxy:
        proxy.rule = replace
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        found = run(tmp_path, f"path: {s3.uri('in/a.csv')}")
    assert found.exit_code == ExitCode.IO
    assert (found.error.code, "was replaced" in found.error.message) == ("E907", True)
    assert pipelines.outputs(tmp_path) == {}


@pytest.mark.parametrize("change", ["same size", "longer", "shorter", "gone"])
def test_an_object_that_changes_between_planning_and_reading_ends_the_run(
    change: str, bucket: AnyBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "id,v\n" + "".join(f"{number},old\n" for number in range(40_000))
    bucket.put("in/a.csv", rows)
    bucket.put("in/b.csv", rows)
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "100000")
    begin = passes.chain.run

    def run_later(*arguments: Any) -> Any:
        if change == "gone":
            bucket.delete("in/b.csv")
        else:
            others = {"same size": rows.replace("old", "new"), "longer": f"{rows}1,new\n", "shorter": rows[:-6]}
            bucket.put("in/b.csv", others[change])
        return begin(*arguments)

    monkeypatch.setattr(passes.chain, "run", run_later)
    found = run(tmp_path, f"glob: {bucket.uri('in/*.csv')}")
    assert (found.exit_code, found.error.code) == (ExitCode.IO, "E907"), found.error
    assert bucket.uri("in/b.csv") in found.error.message
    assert pipelines.outputs(tmp_path) == {}


def test_refusals_end_the_run_with_the_source_and_its_place(
    tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put("in/a.csv", "id,v\n1,x\n")
    with between(s3.endpoint) as proxy:
        proxy.rule = lambda request: Fault(403, "AccessDenied") if request.method == "GET" else None
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        found = run(tmp_path, f"path: {s3.uri('in/a.csv')}")
    assert found.exit_code == ExitCode.IO
    assert found.error.code == "E910"
    assert "source 'rows'" in found.error.message
    assert "s3:GetObject" in found.error.message
    assert "pipeline.yaml" in str(found.error)


def test_uris_need_the_consent_that_absolute_paths_need(
    tmp_path: Path, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    s3.put("in/a.csv", "id,v\n1,x\n")
    text = PIPELINE.format(files=f"path: {s3.uri('in/a.csv')}", read="type: csv", kind="string")
    pipelines.write(tmp_path, {"pipeline.yaml": text})
    assert clinker.main(["run", str(tmp_path / "pipeline.yaml")]) == ExitCode.CONFIG
    assert "use --allow-absolute-paths" in capsys.readouterr().err
    assert clinker.main(["validate", str(tmp_path / "pipeline.yaml"), "--allow-absolute-paths"]) == ExitCode.SUCCESS
    s3.client.delete_object(Bucket=s3.name, Key="in/a.csv")
    assert clinker.main(["validate", str(tmp_path / "pipeline.yaml"), "--allow-absolute-paths"]) == ExitCode.CONFIG
    assert "E216" in capsys.readouterr().err


def test_the_workspace_says_where_the_store_is(tmp_path: Path, s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("in/a.csv", "id,v\n1,x\n")
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_REGION"):
        monkeypatch.delenv(name)
    settings = {"endpoint": s3.endpoint, "region": "eu-central-1", "path_style": True}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    pipelines.write(tmp_path, {"clinker.toml": f"[storage.s3]\n{lines}\n"})
    assert run(tmp_path, f"path: {s3.uri('in/a.csv')}").exit_code == ExitCode.SUCCESS


def test_objects_are_staged_like_files(tmp_path: Path, s3: Bucket) -> None:
    s3.put("in/a.csv", "id,v\n1,x\n")
    (tmp_path / "staging").mkdir()
    staging = (
        f'enabled = true\ndir = "staging"\npatterns = ["{s3.uri("**")}"]\non_existing = "reuse"\ncleanup = "never"\n'
    )
    pipelines.write(tmp_path, {"clinker.toml": f"[storage.staging]\n{staging}"})
    for version in ("x", "y"):
        s3.put("in/a.csv", f"id,v\n1,{version}\n")  # as long, and in the same second
        for _ in range(2):
            assert run(tmp_path, f"path: {s3.uri('in/a.csv')}").exit_code == ExitCode.SUCCESS
            assert pipelines.outputs(tmp_path)["o.csv"].decode() == f"id,v,row\n1,{version},1\n"
    assert len([*(tmp_path / "staging").glob("*.staged")]) == 1


def test_file_uris_are_local_files(tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"in/a b.csv": "id,v\n1,x\n"})
    text = PIPELINE.format(files=f'path: "file://{tmp_path}/in/a%20b.csv"', read="type: csv", kind="string")
    pipelines.write(tmp_path, {"pipeline.yaml": text.replace("out/o.csv", f"file://{tmp_path}/out/o%20o.csv")})
    assert pipelines.run(tmp_path, allow_absolute_paths=True).result.exit_code == ExitCode.SUCCESS
    assert pipelines.outputs(tmp_path)["o o.csv"].decode() == "id,v,row\n1,x,1\n"
