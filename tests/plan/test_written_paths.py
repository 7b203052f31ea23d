"""Paths that lead out of the base folder, wherever they are written and whatever fills them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.plan import pending, planner
from spark_jobs.plan.options import RunOptions
from spark_jobs.plan.physical import inputs
from spark_jobs.scan.files import FormatError
from tests.plan.pipelines import ORDERS, found, planned, problems, write

if TYPE_CHECKING:
    from pathlib import Path

BODY = """
_compose:
  name: body
  inputs: { rows: {} }
  outputs: { all: pass }
  config_schema: { where: { type: %s, default: fine.csv } }
nodes:
  - { type: transform, name: pass, input: rows, config: { cxl: emit seen = true } }
  - { type: output, name: copy, input: rows, config: { type: csv, path: "%s" } }
"""
CALL = """
  - { type: composition, name: call, input: orders, use: body.comp.yaml, config: { %s } }
  - { type: output, name: out, input: call, config: { type: csv, path: out.csv } }
"""
OUTPUT = '  - {{ type: output, name: out, input: {of}, config: {{ type: csv, path: "{path}" }} }}\n'


def refused(folder: Path, text: str, **others: object) -> list[tuple[str, str]]:
    """The files and messages of refused paths."""
    items = problems(folder, text, **others)
    return [(item.span.file.name if item.span else "", item.message) for item in items if item.code.id == "E-SEC-001"]


@pytest.mark.parametrize("path", ["../../x.csv", "/abs/x.csv", "link/x.csv", "%2e%2e/x.csv"])
def test_paths_in_bodies_are_checked_in_their_file(path: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(tmp_path)
    write(base, BODY % ("string", path), "body.comp.yaml")
    ((file, message),) = refused(base, ORDERS + CALL % "")
    assert file == "body.comp.yaml"
    assert path in message


def test_the_format_schema_of_a_body_is_checked(tmp_path: Path) -> None:
    body = (
        "_compose: { name: b, outputs: { all: s } }\nnodes:\n  - { type: source, name: s, config: "
        "{ type: csv, path: s.csv, schema: { id: int }, format_schema: ../layout.yaml } }\n"
    )
    write(tmp_path, body, "body.comp.yaml")
    call = "  - { type: composition, name: call, use: body.comp.yaml }\n"
    text = "pipeline: { name: p }\nnodes:\n" + call + OUTPUT.format(of="call", path="o.csv")
    assert [file for file, _ in refused(tmp_path, text)] == ["body.comp.yaml"]


def test_a_path_that_a_parameter_gives_is_checked_in_the_body(tmp_path: Path) -> None:
    write(tmp_path, BODY % ("string", "{{ where }}"), "body.comp.yaml")
    assert [file for file, _ in refused(tmp_path, ORDERS + CALL % "where: ../evil.csv")] == ["body.comp.yaml"]
    assert not refused(tmp_path, ORDERS + CALL % "where: good.csv")


def test_a_parameter_that_is_a_path_is_checked_where_it_is_given(tmp_path: Path) -> None:
    write(tmp_path, BODY % ("path", "fixed.csv"), "body.comp.yaml")
    ((file, message),) = refused(tmp_path, ORDERS + CALL % "where: ../evil.csv")
    assert file.endswith("pipeline.yaml")
    assert 'parameter "where"' in message
    assert not refused(tmp_path, ORDERS + CALL % "where: s3://bucket/key.csv", allow_absolute_paths=True)


OUTER = """
_compose: { name: outer, inputs: { rows: {} }, outputs: { all: inner } }
nodes:
  - { type: composition, name: inner, input: rows, use: body.comp.yaml }
"""


@pytest.mark.parametrize("linked", ["body.comp.yaml", "lib/body.comp.yaml"])
def test_a_linked_composition_is_refused_at_every_level(linked: str, tmp_path: Path) -> None:
    base, outside = tmp_path / "base", tmp_path / "body.comp.yaml"
    (base / "lib").mkdir(parents=True)
    write(tmp_path, BODY % ("string", "copy.csv"), outside.name)
    (base / linked).symlink_to(outside)
    write(base / "lib", OUTER, "outer.comp.yaml")
    used = linked if "/" not in linked else "lib/outer.comp.yaml"
    ((_, message),) = refused(base, ORDERS + CALL.replace("body.comp.yaml", used) % "")
    assert "symlink" in message


def test_a_composition_elsewhere_may_use_its_neighbours_when_absolute_paths_are_allowed(tmp_path: Path) -> None:
    base, lib = tmp_path / "base", tmp_path / "lib"
    base.mkdir()
    lib.mkdir()
    write(lib, BODY % ("string", "copy.csv"), "body.comp.yaml")
    write(lib, OUTER, "outer.comp.yaml")
    call = CALL.replace("body.comp.yaml", f'"{lib}/outer.comp.yaml"') % ""
    plan = planned(base, ORDERS + call, allow_absolute_paths=True)
    assert "call/inner/copy" in plan.by_name


def test_a_module_must_not_be_a_link_out_of_the_folder(tmp_path: Path) -> None:
    base = tmp_path / "base"
    for folder in ("base/rules", "base/shared"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "secret.cxl").write_text("let a = 1\n", encoding="utf-8")
    (base / "shared" / "n.cxl").write_text("let a = 1\n", encoding="utf-8")
    (base / "rules" / "m.cxl").symlink_to(tmp_path / "secret.cxl")
    (base / "rules" / "n.cxl").symlink_to(base / "shared" / "n.cxl")
    (base / "rules" / "o.cxl").write_text("use m\nlet a = m::a\n", encoding="utf-8")
    text = """
  - type: transform
    name: t
    input: orders
    config:
      cxl: |
        use MODULE
        emit a = MODULE::a
"""
    for module, count in (("m", 1), ("n", 0), ("o", 1)):
        pipeline = ORDERS + text.replace("MODULE", module) + OUTPUT.format(of="t", path="out.csv")
        assert len(refused(base, pipeline)) == count, module
    pipeline = ORDERS + text.replace("MODULE", "m") + OUTPUT.format(of="t", path="out.csv")
    assert refused(base, pipeline, rules_path=base / "rules")
    assert not refused(base, pipeline, rules_path=tmp_path)


def test_the_paths_of_the_pipeline_block_are_checked(tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path="out.csv")
    for key in ("rules_path", "log_rules"):
        assert refused(tmp_path, text.replace("name: shop", f"name: shop, {key}: ../rules"))


SOURCE = """
_compose: { name: s, outputs: { all: s } }
nodes:
  - { type: source, name: s, config: { type: csv, path: s.csv, schema: { id: int } } }
"""


SIGNS = ["[v]", "{v}", "v*", "v?", "v[", "v}"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A base folder with links out of it that have the names of patterns, and one to a folder, one to a file each."""
    folder, outside = tmp_path / "base", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.yaml").write_text("SECRET=wJalr\n")
    for sign in SIGNS:
        (folder / sign).symlink_to(outside)
        (folder / f"{sign}.comp.yaml").symlink_to(outside / "secret.yaml")
    (folder / "orders.csv").write_text("id,customer,amount,note\n")
    return folder


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize(
    "text",
    [
        ORDERS + "  - { type: composition, name: c, input: orders, use: 'SIGN.comp.yaml' }\n",
        ORDERS + OUTPUT.format(of="orders", path="TEMPLATE/a.csv"),
        ORDERS + OUTPUT.format(of="orders", path="TEMPLATE.comp.yaml"),
        ORDERS + OUTPUT.format(of="orders", path="{n}TEMPLATE/{execution_id}.csv"),
        ORDERS + OUTPUT.format(of="orders", path="o.csv") + "error_handling: { dlq: { path: 'TEMPLATE/d.csv' } }\n",
        ORDERS
        + OUTPUT.format(of="orders", path="o.csv")
        + "error_handling: { dlq: { path: d.csv, per_source: { orders: { path: 'TEMPLATE/d.csv' } } } }\n",
        ORDERS.replace("path: orders.csv", "path: orders.csv\n      format_schema: 'SIGN.comp.yaml'"),
        ORDERS.replace("path: orders.csv", "path: 'SIGN/secret.yaml'"),
        ORDERS.replace("path: orders.csv", "glob: 'SIGN/*.yaml'"),
        ORDERS.replace("name: shop", "name: shop, rules_path: 'SIGN'"),
        ORDERS.replace("name: shop", "name: shop, metrics: { spool_dir: 'SIGN/m' }"),
    ],
)
def test_links_out_are_refused_whatever_characters_their_names_have(base: Path, sign: str, text: str) -> None:
    template = sign.replace("{", "{{").replace("}", "}}")
    messages = [item.message for item in problems(base, text.replace("TEMPLATE", template).replace("SIGN", sign))]
    assert any("escapes base directory via symlink" in message for message in messages)
    assert not any("wJalr" in message for message in messages)


def test_names_that_read_as_patterns_are_fine(tmp_path: Path) -> None:
    (tmp_path / "[a]").mkdir()
    text = ORDERS + OUTPUT.format(of="orders", path="[a]/b*?.csv") + OUTPUT.format(of="orders", path="{{c}}/d.csv")
    assert refused(tmp_path, text.replace("name: out", "name: other", 1)) == []


def test_the_folder_of_metrics_is_checked_and_below_the_base_folder(tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path="o.csv")
    for path in ("../m", "/abs/m", "%2e%2e/m"):
        with_metrics = text.replace("name: shop", f"name: shop, metrics: {{ spool_dir: '{path}' }}")
        assert len(refused(tmp_path, with_metrics)) == 1
    plan = planned(tmp_path, text.replace("name: shop", "name: shop, metrics: { spool_dir: ./m }"))
    assert plan.metrics_dir == str(tmp_path / "m")


def test_sources_in_compositions_count(tmp_path: Path) -> None:
    write(tmp_path, SOURCE, "body.comp.yaml")
    errors = "error_handling: { strategy: continue, dlq: { path: d.csv, per_source: { c/s: { path: s_d.csv } } } }\n"
    call = "  - { type: composition, name: c, use: body.comp.yaml }\n"
    text = "pipeline: { name: p }\nnodes:\n" + call + OUTPUT.format(of="c", path="o.csv") + errors
    assert not found(tmp_path, text)
    assert [code for code, _ in found(tmp_path, text.replace("c/s:", "c/z:"))] == ["E317"]
    keyed = text.replace("strategy: continue", "strategy: continue, correlation_key: id")
    assert planned(tmp_path, keyed).by_name["c/s"].step.correlation_key == ("id",)  # type: ignore[union-attr]
    # Nobody knows what an unopened call has.
    assert [code for code, _ in found(tmp_path, text.replace("body.comp", "bdoy.comp"))] == ["E103"]


def test_a_channels_variables_of_a_source_in_a_composition(tmp_path: Path) -> None:
    write(tmp_path, SOURCE, "body.comp.yaml")
    entry = "vars: { source: { c/s: { label: { type: string, default: till } } } }"
    write(tmp_path, f"channel: {{ name: k, target: pipeline.yaml }}\n{entry}\n", "k.channel.yaml")
    call = "  - { type: composition, name: c, use: body.comp.yaml }\n"
    text = "pipeline: { name: p }\nnodes:\n" + call + OUTPUT.format(of="c", path="o.csv")
    plan = planned(tmp_path, text, channel=str(tmp_path / "k.channel.yaml"))
    assert plan.variables["source.label@c/s"] == "till"


# ---- tokens


@pytest.mark.parametrize("value", ["../../esc", "a/b", "a\\b", "..", ".", "a\0b", "a\nb"])
def test_a_batch_id_stays_a_part_of_a_name(value: str, tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path="out/{batch_id}.csv")
    plan, items = planner.plan(write(tmp_path, text), RunOptions(variables={}, batch_id=value))
    assert plan is None
    assert [item.code.id for item in items] == ["E-SEC-001"]
    assert "--batch-id" in next(iter(items)).message


@pytest.mark.parametrize("value", ["2024-05-01", "manual__2024-05-01T00:00:00+00:00", "a b", ".b", ""])
def test_usual_batch_ids_are_fine(value: str, tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path="out/{batch_id}.csv")
    plan, _ = planner.plan(write(tmp_path, text), RunOptions(variables={}, batch_id=value))
    assert plan is not None


def test_a_batch_id_must_not_name_a_link_out_of_the_folder(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "b1").symlink_to(tmp_path)
    text = ORDERS + OUTPUT.format(of="orders", path="{batch_id}/out.csv")
    for batch_id, is_fine in (("b1", False), ("b2", True)):
        plan, _ = planner.plan(write(base, text), RunOptions(variables={}, batch_id=batch_id))
        assert (plan is not None) == is_fine


@pytest.mark.parametrize("name", ['"../../acme"', "a/b", '"a\\\\b"', '".."'])
def test_a_channels_name_stays_a_part_of_a_name(name: str, tmp_path: Path) -> None:
    write(tmp_path, f"channel:\n  name: {name}\n  target: pipeline.yaml\n", "k.channel.yaml")
    text = ORDERS + OUTPUT.format(of="orders", path="out/{channel}.csv")
    items = problems(tmp_path, text, channel=str(tmp_path / "k.channel.yaml"))
    assert [(item.code.id, item.span.line) for item in items if item.span] == [("E112", 2)]


@pytest.mark.parametrize(
    "path", ["{batch_id:../:}.csv", ".{channel:a:}./x.csv", ".{n}./x.csv", "{batch_id:/etc/:}.csv"]
)
def test_tokens_do_not_put_paths_together_that_lead_out(path: str, tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path=path)
    assert [code for code, _ in found(tmp_path, text)] == ["E-SEC-001"]
    letters = "error_handling: { strategy: continue, dlq: { path: '" + path + "' } }\n"
    text = ORDERS + OUTPUT.format(of="orders", path="fine.csv") + letters
    assert [code for code, _ in found(tmp_path, text)] == ["E-SEC-001"]


def test_a_sources_name_stays_a_part_of_a_name(tmp_path: Path) -> None:
    text = ORDERS.replace("path: orders.csv", "path: in/...csv")
    (item,) = problems(tmp_path, text + OUTPUT.format(of="orders", path="{source_name}/out.csv"))
    assert (item.code.id, item.span is not None) == ("E014", True)
    assert "{source_name} cannot stand in a path" in item.message


def test_paths_of_dead_letters_have_tokens(tmp_path: Path) -> None:
    write(tmp_path, "channel: { name: k, target: pipeline.yaml }\n", "k.channel.yaml")
    letters = "error_handling: { strategy: continue, dlq: { path: 'd/{channel}-{batch_id}.csv' } }\n"
    text = ORDERS + OUTPUT.format(of="orders", path="fine.csv") + letters
    plan = planned(tmp_path, text, channel=str(tmp_path / "k.channel.yaml"))
    assert plan.errors.dead_letters.path == "d/k-{batch_id}.csv"
    assert [code for code, _ in found(tmp_path, text.replace("{batch_id}", "{batch}"))] == ["E014"]


@pytest.mark.parametrize("path", ["out/", "out/.", "out/{channel:_:}"])
def test_a_target_names_a_file(path: str, tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path=path)
    (item,) = problems(tmp_path, text)
    assert (item.code.id, item.span.line if item.span else 0) == ("E007", 13)
    assert "names a folder" in item.message


# ---- writers that meet


def outputs(*written: str) -> str:
    nodes = (
        f"  - {{ type: output, name: o{number}, input: orders, config: {{ type: csv, path: {path} }} }}\n"
        for number, path in enumerate(written)
    )
    return ORDERS + "".join(nodes)


LETTERS = "error_handling: {{ strategy: continue, dlq: {{ path: {}, per_source: {{ orders: {{ path: {} }} }} }} }}\n"


# ---- URIs


@pytest.mark.parametrize("uri", ["viewfs://bucket/x.csv", "ViewFS://bucket/x.csv"])
def test_outputs_in_stores_that_are_not_ready_are_planned_and_not_run(uri: str, tmp_path: Path) -> None:
    text = outputs(uri, "fine.csv", "file:///tmp/x.csv") + LETTERS.format(uri + ".d", "d.csv")
    plan = planned(tmp_path, text, allow_absolute_paths=True)
    assert [(item.code.id, item.span.line if item.span else 0) for item in pending.pending(plan)] == [
        ("E400", 13),
        ("E400", 16),
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/x.csv",
        "S3A://bucket/x.csv",
        "gs://bucket/x.csv",
        "abfss://data@acme.dfs.core.windows.net/x.csv",
        "hdfs://namenode:8020/x.csv",
        "hdfs:///x.csv",
        "webhdfs://namenode:9870/x.csv",
    ],
)
def test_outputs_in_stores_may_stand_beside_local_ones(uri: str, tmp_path: Path) -> None:
    for text in (outputs(uri), outputs("fine.csv", uri)):
        letters = LETTERS.format(uri + ".d", "s3://other/d.csv")
        assert pending.pending(planned(tmp_path, text + letters, allow_absolute_paths=True)) == []


@pytest.mark.parametrize(
    ("matcher", "runs"),
    [
        ("path: s3://b1/x.csv", True),
        ("glob: s3a://b1/*.csv", True),
        ("regex: ^s3://b1/.*csv$", True),
        ("paths: [a.csv, file:///tmp/x.csv]", True),
        ("path: file:///x.csv", True),
        ("path: abfs://b1@acme.dfs.core.windows.net/x.csv", True),
        ("path: hdfs://cluster/x.csv", True),
        ("glob: swebhdfs://namenode:9871/*.csv", True),
        ("regex: viewfs://b1/.*", False),
        ("paths: [a.csv, viewfs://host/x.csv]", False),
    ],
)
def test_sources_in_stores_that_are_not_ready_are_planned_and_not_run(matcher: str, runs: bool, tmp_path: Path) -> None:
    plan = planned(tmp_path, outputs("fine.csv").replace("path: orders.csv", matcher), allow_absolute_paths=True)
    found = pending.pending(plan)
    assert [item.code.id for item in found] == ([] if runs else ["E400"])
    assert all("source 'orders'" in item.message for item in found)


def test_every_check_says_which_uris_do_not_run_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = outputs("oss://b1/x.csv").replace("path: orders.csv", "glob: oss://b1/*.csv") + LETTERS.format(
        "viewfs://b1/d", "d.csv"
    )
    (tmp_path / "p.yaml").write_text(text)
    for arguments in (["validate", "--no-inputs"], ["validate"], ["run", "--dry-run"], ["run"]):
        assert clinker.main([*arguments, str(tmp_path / "p.yaml"), "--allow-absolute-paths"]) == 1
        told = capsys.readouterr()
        for path in ("`oss://b1/*.csv`", "`oss://b1/x.csv`", "`viewfs://b1/d`"):
            assert f"a URI ({path})" in told.err, (arguments, path)
        assert "mount the file system" in told.err
        assert "valid" not in told.out


def test_a_layout_at_a_uri_is_told_to_be_copied(tmp_path: Path) -> None:
    text = outputs("fine.csv").replace("path: orders.csv", "path: orders.csv\n      format_schema: ftp://b1/l.yaml")
    (item,) = [one for one in problems(tmp_path, text, allow_absolute_paths=True) if one.is_error]
    assert "copy the file there, or to a folder" in str(item.help)


@pytest.mark.parametrize("path", ["out/{channel}.csv", "out/{channel}{batch_id}.csv"])
def test_a_path_with_a_channels_name_needs_a_channel(path: str, tmp_path: Path) -> None:
    text = ORDERS + OUTPUT.format(of="orders", path=path)
    (item,) = problems(tmp_path, text)
    assert (item.code.id, item.span.line if item.span else 0) == ("E014", 13)
    assert "--channel" in str(item.help)
    letters = "error_handling: { strategy: continue, dlq: { path: '" + path + "' } }\n"
    text = ORDERS + OUTPUT.format(of="orders", path="fine.csv") + letters
    assert [code for code, _ in found(tmp_path, text)] == ["E014"]
    optional = ORDERS + OUTPUT.format(of="orders", path="out/orders{channel:_:}.csv")
    assert found(tmp_path, optional) == []


def test_compressed_names_without_a_codec_do_not_run_yet(tmp_path: Path) -> None:
    text = outputs("o.csv.br", "gz.csv", "fine.csv.gz").replace("path: orders.csv", 'glob: "in/*.CSV.ZIP"')
    found = pending.pending(planned(tmp_path, text + LETTERS.format("d.csv.br", "d.csv.zst")))
    assert {item.code.id for item in found} == {"E400"}
    shown = [item.message.partition("(`")[2].partition("`")[0] for item in found]
    assert shown == ["in/*.CSV.ZIP", "o.csv.br", "d.csv.br"]


@pytest.mark.parametrize(("code", "help"), [("E216", "check the path"), ("E910", None), ("E911", None)])
def test_a_path_is_blamed_only_where_it_may_be_wrong(code: str, help: str | None, tmp_path: Path) -> None:
    plan = planned(tmp_path, outputs("fine.csv"))
    refused = inputs.Discovered(problem=FormatError("the credentials have expired: renew them", "s3://b/k", code))
    [found] = inputs.missing(plan, {"orders": refused})
    assert (found.code.id, found.help) == (code, help)
    assert "the credentials have expired" in found.message


@pytest.mark.parametrize(("on_no_match", "codes"), [("error", ["E216"]), ("warn", []), ("skip", [])])
def test_a_pattern_of_compressed_names_that_nothing_matches_is_as_on_no_match_says(
    on_no_match: str, codes: list[str], tmp_path: Path
) -> None:
    glob = f'glob: "in/*.zip"\n      files: {{ on_no_match: {on_no_match} }}'
    plan = planned(tmp_path, outputs("fine.csv").replace("path: orders.csv", glob))

    def found() -> list[str]:
        discovered = inputs.discover(plan)
        both = [*inputs.missing(plan, discovered), *pending.pending(plan, lambda: discovered)]
        return [item.code.id for item in both]

    assert found() == codes
    assert [item.code.id for item in pending.pending(plan)] == (["E400"] if codes else [])
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.zip").write_bytes(b"PK")
    assert found() == ["E400"]
