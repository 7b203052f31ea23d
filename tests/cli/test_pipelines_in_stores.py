"""Pipelines and all that they name in stores: planned, shown and run there, and refused with a place and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import limits
from spark_jobs.cli import clinker, pipeline
from spark_jobs.execute.delivery import targets
from spark_jobs.plan import planner, remembered, shipping
from spark_jobs.plan.options import PlanOptions, RunOptions
from spark_jobs.stores import location
from tests.stores.faults import Fault, between

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket
    from tests.stores.faults import Proxy, Request

PIPELINE = """
pipeline: { name: orders, vars: { least: { type: int, default: 0 } } }
nodes:
  - type: source
    name: orders
    config:
      type: csv
      glob: "in/*.csv"
      exclude: ["in/skip*"]
      schema: [{ name: id, type: int }, { name: v, type: string }]
  - { type: composition, name: kept, use: shared/kept.comp.yaml, inputs: { rows: orders } }
  - type: transform
    name: upper
    input: kept
    config:
      cxl: |
        use text as text
        filter id >= $vars.least
        emit v = text::upper(v)
        emit file = $source.file
  - { type: output, name: out, input: upper, config: { type: csv, path: out/result.csv } }
error_handling: { strategy: continue, dlq: { path: dead/letters.csv } }
"""
COMPOSITION = """
_compose:
  name: kept
  inputs: { rows: { schema: [{ name: id, type: int }, { name: v, type: string }] } }
  outputs: { out: kept }
nodes:
  - { type: transform, name: kept, input: rows, config: { cxl: filter id != 3 } }
"""
FILES = {
    "base/a.yaml": PIPELINE,
    "base/shared/kept.comp.yaml": COMPOSITION,
    "base/rules/text.cxl": "fn upper(x) = x.upper()\n",
    "base/channels/eu.channel.yaml": "channel: { name: eu, target: ../a.yaml }\nvars: { static: { least: 2 } }\n",
    "base/in/1.csv": "id,v\n1,a\n2,b\nx,c\n",
    "base/in/2.csv": "id,v\n3,a\n4,b\n",
    "base/in/skip.csv": "id,v\n9,a\n",
}
WRITTEN = "id,v,file\n1,A,in/1.csv\n2,B,in/1.csv\n4,B,in/2.csv\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def proxy(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with between(s3.endpoint) as found:
        s3.through(found.endpoint, monkeypatch)
        yield found


def filled(bucket: AnyBucket, **others: str) -> str:
    """The URI of the pipeline, once its files are in a bucket."""
    for key, text in {**FILES, **others}.items():
        bucket.put(key, text)
    return bucket.uri("base/a.yaml")


def said(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """What a command prints, with the exit code that it must have."""
    assert clinker.main(arguments) == code
    found = capsys.readouterr()
    return found.out + found.err


def run(uri: str, *, code: int = 2, **options: object) -> None:
    """Run a pipeline in this process; one of its records is a dead letter."""
    chosen = RunOptions(in_process=True, quiet=True, threads=1, **options)  # type: ignore[arg-type]
    assert pipeline.run(location.located(uri), chosen, to_the_end=False) == code


def text(bucket: AnyBucket, key: str) -> str:
    return bucket.get(key).decode()


def test_a_pipeline_in_a_store_runs_with_all_that_it_names(bucket: AnyBucket) -> None:
    run(filled(bucket))
    assert text(bucket, "base/out/result.csv") == WRITTEN
    assert "in/1.csv,orders,3,id,x" in text(bucket, "base/dead/letters.csv")


@pytest.mark.parametrize(("target", "is_other"), [("./a.yaml", False), ("../a.yaml", False), ("./b.yaml", True)])
def test_a_channel_names_its_pipeline_from_either_folder(
    target: str, is_other: bool, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = filled(s3, **{"base/channels/eu.channel.yaml": f"channel: {{ name: eu, target: {target} }}\n"})
    assert ("W104" in said(capsys, 0, "validate", uri, "--channel", "eu")) is is_other


def test_files_are_those_of_the_same_folder_on_disk(s3: Bucket, here: Path) -> None:
    run(filled(s3), allow_absolute_paths=True)
    for key, content in FILES.items():
        (here / key).parent.mkdir(parents=True, exist_ok=True)
        (here / key).write_text(content)
    run(str(here / "base/a.yaml"))
    assert (here / "base/out/result.csv").read_text() == text(s3, "base/out/result.csv")


def test_all_commands_read_it_there(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    uri = filled(s3)
    assert said(capsys, 0, "validate", uri) == f"{uri}: valid\n"
    shown = said(capsys, 0, "explain", uri)
    assert f"Relative paths start at {s3.uri('base/')}" in shown
    assert f"'out' → {s3.uri('base/out/result.csv')}" in shown
    assert f"{s3.uri('base/shared/kept.comp.yaml')}:7" in shown
    assert "1 record is a dead letter" in said(capsys, 0, "preview", uri)
    assert "Dry run" in said(capsys, 0, "run", uri, "--dry-run")
    assert "orders.v" in said(capsys, 0, "lineage", uri)
    assert said(capsys, 0, "diff", uri, uri) == "the pipelines do not differ\n"
    assert set(s3.texts()) == set(FILES)


def test_a_base_folder_in_a_store_is_that_of_a_local_pipeline(s3: Bucket, here: Path) -> None:
    filled(s3)
    (here / "b.yaml").write_text(PIPELINE)
    run("b.yaml", base_dir=location.located(s3.uri("base")))
    assert text(s3, "base/out/result.csv") == WRITTEN


def test_a_local_base_folder_is_that_of_a_pipeline_in_a_store(s3: Bucket, here: Path) -> None:
    uri = filled(s3)
    for key in ("in/1.csv", "in/2.csv", "shared/kept.comp.yaml", "rules/text.cxl"):
        (here / key).parent.mkdir(exist_ok=True)
        (here / key).write_text(FILES[f"base/{key}"])
    run(uri, base_dir=here)
    assert (here / "out/result.csv").read_text() == WRITTEN


def test_channels_are_found_there_by_name_and_by_uri(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    uri = filled(s3)
    for channel in ("eu", "channels/eu.channel.yaml", s3.uri("base/channels/eu.channel.yaml")):
        run(uri, channel=channel, force=True)
        assert text(s3, "base/out/result.csv") == WRITTEN.replace("1,A,in/1.csv\n", ""), channel
        assert "W104" not in capsys.readouterr().err
    shown = said(capsys, 1, "validate", uri, "--channel", "us")
    assert f"`{s3.uri('base/channels')}`" in shown


@pytest.mark.parametrize(
    ("matcher", "ids"),
    [
        ('path: "./in/2.csv"', [3, 4]),
        ('paths: ["in/2.csv", "in/1.csv"]', [1, 2, 3, 4]),
        ('glob: "**/2.csv"', [3, 4]),
        ('regex: "^in/[12].csv$"', [1, 2, 3, 4]),
        ('regex: "2|1"', [1, 2, 3, 4]),
        ('regex: "csv"\n      files: { recursive: false }', [7]),
    ],
)
def test_each_way_to_choose_files_starts_at_the_base_folder(matcher: str, ids: list[int], s3: Bucket) -> None:
    written = PIPELINE.replace('glob: "in/*.csv"', matcher).replace("use: shared/kept.comp.yaml", "use: all.comp.yaml")
    everything = COMPOSITION.replace("filter id != 3", "emit id = id")
    uri = filled(s3, **{"base/a.yaml": written, "base/all.comp.yaml": everything, "base/0.csv": "id,v\n7,a\n"})
    s3.put("base2/in/1.csv", "id,v\n100,other\n")
    run(uri, code=2 if 1 in ids else 0)
    assert [int(line.split(",")[0]) for line in text(s3, "base/out/result.csv").splitlines()[1:]] == ids


def test_format_schemas_and_log_rules_are_read_there(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    wide = """
pipeline: { name: wide }
nodes:
  - type: source
    name: s
    config: { type: fixed_width, path: in.txt, format_schema: layouts/w.schema.yaml }
  - { type: output, name: out, input: s, config: { type: csv, path: out.csv } }
"""
    s3.put("w/p.yaml", wide)
    s3.put("w/layouts/w.schema.yaml", "fields: [{ name: a, start: 0, width: 2 }, { name: b, start: 2, width: 2 }]\n")
    s3.put("w/in.txt", "1 2 \n")
    assert "valid" in said(capsys, 0, "validate", s3.uri("w/p.yaml"))
    s3.delete("w/layouts/w.schema.yaml")
    shown = said(capsys, 1, "validate", s3.uri("w/p.yaml"))
    assert f"cannot read `{s3.uri('w/layouts/w.schema.yaml')}`: no such object" in shown


def test_problems_are_shown_at_their_places(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    uri = filled(s3, **{"base/shared/kept.comp.yaml": COMPOSITION.replace("id != 3", "idd != 3")})
    shown = said(capsys, 1, "validate", uri, "--diagnostics", "concise")
    assert shown.startswith(f"{s3.uri('base/shared/kept.comp.yaml')}:7:")
    shown = said(capsys, 1, "validate", filled(s3, **{"base/rules/text.cxl": "fn upper(x) = y\n"}))
    assert f"--> {s3.uri('base/rules/text.cxl')}:1" in shown
    shown = said(capsys, 1, "validate", filled(s3, **{"base/a.yaml": PIPELINE.replace("shared/kept", "shared/none")}))
    assert "E103" in shown
    assert f"there is no {s3.uri('base/shared/none.comp.yaml')}" in shown


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("in/*.csv", "s3://other/in/*.csv"), 'URI not allowed: "s3://other/in/*.csv"'),
        (("in/*.csv", "/in/*.csv"), 'absolute path not allowed: "/in/*.csv"'),
        (("in/*.csv", "../in/*.csv"), "directory traversal"),
        (("out/result.csv", "../result.csv"), "directory traversal"),
        (("dead/letters.csv", "s3://{bucket}/dead.csv"), "URI not allowed"),
        (("shared/kept.comp.yaml", "s3://{bucket}/base2/kept.comp.yaml"), "URI not allowed"),
        (("shared/kept.comp.yaml", "../base2/kept.comp.yaml"), "directory traversal"),
        (("{ name: orders,", "{{ name: orders, rules_path: 's3://{bucket}/rules',"), "URI not allowed"),
    ],
)
def test_what_is_outside_the_base_folder_needs_consent(
    change: tuple[str, str], says: str, proxy: Proxy, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = change[0], change[1].replace("{bucket}", s3.name).replace("{{", "{")
    s3.put("base2/kept.comp.yaml", COMPOSITION)
    uri = filled(s3, **{"base/a.yaml": PIPELINE.replace(old, new)})
    proxy.requests.clear()
    assert says in said(capsys, 1, "validate", uri, "--no-inputs")
    asked = [each.path for each in proxy.requests]
    assert not any("base2" in each or f"{s3.name}/rules" in each or "other" in each for each in asked), asked


def test_uris_below_the_base_folder_need_no_consent(s3: Bucket) -> None:
    written = PIPELINE
    for path in ("in/*.csv", "out/result.csv", "dead/letters.csv", "shared/kept.comp.yaml"):
        written = written.replace(path, s3.uri(f"base/{path}"))
    run(filled(s3, **{"base/a.yaml": written.replace("in/skip", "*skip")}))
    assert text(s3, "base/out/result.csv") == WRITTEN.replace("in/", s3.uri("base/in/"))


def test_a_workspace_in_the_store_counts(s3: Bucket, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    channel = {"of/fr.channel.yaml": FILES["base/channels/eu.channel.yaml"].replace("../", "../base/")}
    uri = filled(s3, **{"clinker.toml": '[channels]\ndir = "of"\n', **channel})
    assert "valid" in said(capsys, 0, "validate", uri, "--channel", "fr")
    s3.put("base/clinker.toml", "[channels]\ndirs = 1\n")
    shown = said(capsys, 1, "validate", uri)
    assert f"{s3.uri('base/clinker.toml')}:2" in shown
    s3.put("base/clinker.toml", '[storage.spill]\ndir = "spilled"\n')
    assert "storage.spill.dir is a local folder" in said(capsys, 1, "validate", uri)
    s3.put("base/clinker.toml", '[storage]\nscratch = "scratch"\n')
    plan, _ = planner.plan(location.located(uri), PlanOptions())
    assert plan is not None
    assert plan.storage.scratch == s3.uri("base/scratch")


def test_the_workspace_here_says_how_the_store_is_reached(
    s3: Bucket, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    (here / "clinker.toml").write_text(f'[storage.s3]\nendpoint = "{s3.endpoint}"\npath_style = true\n')
    (here / "below").mkdir()
    monkeypatch.chdir(here / "below")
    run(filled(s3))
    assert text(s3, "base/out/result.csv") == WRITTEN


def test_what_is_missing_is_told(bucket: AnyBucket, capsys: pytest.CaptureFixture[str]) -> None:
    uri = bucket.uri("base/none.yaml")
    assert f"cannot read `{uri}`: no such object" in said(capsys, 1, "validate", uri)
    missing = f"{bucket.missing()}a.yaml"
    if missing.startswith("hdfs:"):  # the namenode itself: nobody knows whether the file is there
        assert f"{missing}: no namenode of `" in said(capsys, 4, "run", missing, "--quiet")
    else:
        assert f"cannot read `{missing}`" in said(capsys, 1, "run", missing, "--quiet")


def test_a_bucket_or_a_folder_is_no_pipeline(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    filled(s3)
    for uri in (s3.uri(""), s3.uri("").rstrip("/"), s3.uri("base/")):
        assert "it is a folder; write the key of a file" in said(capsys, 1, "validate", uri)


def test_the_fixed_folder_of_an_object_has_no_tokens(s3: Bucket) -> None:
    written = PIPELINE.replace("out/result.csv", '"out/{execution_id}/{batch_id}/result.csv"')
    plan, _ = planner.plan(location.located(filled(s3, **{"base/a.yaml": written})), PlanOptions())
    assert plan is not None
    assert str(targets.fixed_folder(plan)) == s3.uri("base/out/")


@pytest.mark.parametrize(
    ("key", "status", "code", "says", "exit_code"),
    [
        ("base/a.yaml", 403, "AccessDenied", "need s3:GetObject on the bucket", 4),
        ("base/a.yaml", 403, "InvalidAccessKeyId", "does not accept the credentials", 4),
        ("base/a.yaml", 400, "AuthorizationHeaderMalformed", "set storage.s3.region", 4),
        ("base/clinker.toml", 403, "AccessDenied", "base/clinker.toml: access is denied", 4),
        ("kept.comp.yaml", 400, "ExpiredToken", "have expired: renew them", 4),
        ("text.cxl", 403, "AccessDenied", "text.cxl: access is denied", 4),
    ],
)
def test_refusals_say_where_and_what_to_do(
    key: str,
    status: int,
    code: str,
    says: str,
    exit_code: int,
    proxy: Proxy,
    s3: Bucket,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = filled(s3)
    proxy.rule = lambda request: Fault(status, code) if request.path.split("?")[0].endswith(key) else None
    shown = said(capsys, exit_code, "run", uri, "--quiet")
    assert says in shown
    assert "E910" in shown
    assert s3.name in shown


def test_a_workspace_above_that_may_not_be_read_is_none(
    proxy: Proxy, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = filled(s3)
    top = f"{s3.name}/clinker.toml"
    proxy.rule = lambda request: Fault(403, "AccessDenied") if request.path.split("?")[0].endswith(top) else None
    assert "valid" in said(capsys, 0, "validate", uri)
    assert any(each.path.endswith(top) for each in proxy.requests)


def test_a_file_that_changes_while_it_is_read_is_refused(
    proxy: Proxy, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = filled(s3)

    def replaced(request: Request) -> Fault | None:
        if request.method != "GET" or "/base/a.yaml" not in request.path:
            return None
        return Fault(before=lambda: s3.put("base/a.yaml", PIPELINE + "\n# longer than it was\n"))

    proxy.rule = replaced
    assert "E910" in said(capsys, 4, "run", uri, "--quiet")


def test_an_empty_and_a_large_file_are_told(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    s3.put("empty.yaml", "")
    assert "E000" in said(capsys, 1, "validate", s3.uri("empty.yaml"))
    s3.put("large.yaml", "#" * (4 * limits.FILE_CHARACTERS + 4))
    assert "the file is larger than" in said(capsys, 1, "validate", s3.uri("large.yaml"))


def test_what_a_store_has_is_not_remembered(s3: Bucket, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    place = location.located(filled(s3))
    assert not [each for each in remembered.verdict(place, PlanOptions()).problems if each.is_error]
    s3.put("base/shared/kept.comp.yaml", COMPOSITION.replace("id != 3", "idd != 3"))
    assert [each for each in remembered.verdict(place, PlanOptions()).problems if each.is_error]


def test_a_driver_elsewhere_reads_the_store_itself(s3: Bucket, here: Path) -> None:
    written = PIPELINE.replace(
        "least: { type: int, default: 0 }",
        "least: { type: int, default: 0 }, word: { type: string, default: '${WORD:-none}' }",
    )
    place = location.located(filled(s3, **{"base/a.yaml": written}))
    absolute = PlanOptions(allow_absolute_paths=True)
    shipped = shipping.pack(place, absolute, here / "files.zip")
    assert (shipped.archive, shipped.pipeline) == (None, place)
    assert shipped.variables == {"WORD"}
    (here / "eu.channel.yaml").write_text(FILES["base/channels/eu.channel.yaml"])
    with pytest.raises(shipping.NotShippable, match="put all of them into the store"):
        shipping.pack(place, PlanOptions(channel="eu.channel.yaml"), here / "files.zip")
