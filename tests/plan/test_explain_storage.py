"""What `explain` says about disks: estimates, the cap, and the staging plan, as text and as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.plan.explain import explain, storage
from spark_jobs.plan.physical.inputs import Discovered
from spark_jobs.scan.files import InputFile
from spark_jobs.scan.staging.staged_copy import Cleanup, OnExisting, Settings, StagedCopy
from spark_jobs.scan.staging.staging import SourceStaging
from tests.plan.pipelines import planned

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.plan.plan import Plan

PIPELINE = """
pipeline: { name: shop }
nodes:
  - { type: source, name: orders, config: { type: csv, glob: in/*.csv, schema: { id: int, dept: string } } }
  - { type: source, name: more, config: { type: csv, path: more.csv, schema: { id: int, dept: string } } }
  - { type: merge, name: all, inputs: [orders, more] }
  - { type: transform, name: once, input: more, config: { cxl: "emit d = dept\\ndistinct by d" } }
  - { type: aggregate, name: depts, input: all, config: { group_by: [dept], cxl: emit n = sum(id) } }
  - { type: aggregate, name: total, input: all, config: { group_by: [], cxl: emit n = sum(id) } }
  - { type: output, name: o1, input: depts, config: { type: csv, path: o1.csv } }
  - { type: output, name: o2, input: total, config: { type: csv, path: o2.csv } }
  - { type: output, name: o3, input: once, config: { type: csv, path: o3.csv } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_bytes(b"x" * 1000)
    (tmp_path / "in/b.csv").write_bytes(b"x" * 24)
    (tmp_path / "more.csv").write_bytes(b"x" * 512)
    (tmp_path / "staging").mkdir()
    return tmp_path


def plan(folder: Path, toml: str = "") -> Plan:
    (folder / "clinker.toml").write_text(toml)
    return planned(folder, PIPELINE)


def section(text: str, title: str) -> list[str]:
    """The lines of a section up to the next one; none when it is missing."""
    _, found, rest = text.partition(f"=== {title} ===\n\n")
    return [line for line in rest.partition("===")[0].splitlines() if line] if found else []


def test_stages_are_estimated_by_the_files_that_reach_them(folder: Path) -> None:
    text = explain.text(plan(folder))
    assert section(text, "Estimated Spill Volume") == [
        "Estimated spill volume (per blocking stage):",
        "  [transform] once → 512B",
        "  [aggregation:hash] depts → 1.5K",
        "  Total: 2K",
    ]
    assert "  estimated size: 1024 bytes" in text


def test_combines_count_where_both_sides_are_partitioned(folder: Path) -> None:
    combine = """
  - type: combine
    name: both
    input: { o: orders, m: more }
    config: { where: o.id == m.id, cxl: emit d = m.dept, strategy: STRATEGY }
  - { type: output, name: o4, input: both, config: { type: csv, path: o4.csv } }
"""
    line = "  [combine:grace_hash] both → 1.5K"
    for strategy, counts in (("grace_hash", True), ("auto", False)):
        text = explain.text(planned(folder, PIPELINE + combine.replace("STRATEGY", strategy).lstrip("\n")))
        assert (line in section(text, "Estimated Spill Volume")) == counts


def test_a_stage_that_cannot_be_estimated_is_left_out_of_the_total(folder: Path) -> None:
    (folder / "more.csv").unlink()
    lines = section(explain.text(plan(folder)), "Estimated Spill Volume")
    assert lines[1:3] == ["  [transform] once → unknown", "  [aggregation:hash] depts → unknown"]
    assert lines[3].startswith("  Total (known stages): 0B (excludes stages whose volume is unknown at plan time")
    summary = json.loads(explain.as_json(plan(folder)))["storage_summary"]["estimated_spill"]
    assert (summary["any_unknown"], summary["total_known_bytes"]) == (True, 0)
    assert [stage["estimate_bytes"] for stage in summary["per_stage"]] == [None, None]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (1023, "1023B"), (1024, "1K"), (1536, "1.5K"), (5 << 20, "5M"), (3 << 40, "3072G")]
)
def test_sizes_have_binary_units(size: int, text: str) -> None:
    assert storage.binary(size) == text


@pytest.mark.parametrize(("cap", "percent", "free", "short"), [(4096, 50, 2048, False), (2048, 100, 0, True)])
def test_the_cap_leaves_its_headroom(folder: Path, cap: int, percent: int, free: int, short: bool) -> None:
    read = plan(folder, f"[storage.spill]\ndisk_cap_bytes = {cap}\n")
    text = explain.text(read)
    line = (
        f"Cap headroom: {free} bytes free (2048 estimated of {cap} cap, {percent}%) [per invocation — does NOT account"
    )
    assert line in text
    assert ("  WARNING: " in text) == short
    assert json.loads(explain.as_json(read))["storage_summary"]["cap_headroom"] == {
        "headroom_bytes": free,
        "estimated_bytes": 2048,
        "cap_bytes": cap,
        "pct_of_cap": percent,
        "over_threshold": short,
    }


def test_without_a_cap_there_is_no_headroom(folder: Path) -> None:
    assert "Cap headroom" not in explain.text(plan(folder))
    summary = json.loads(explain.as_json(plan(folder)))["storage_summary"]
    assert summary["cap_headroom"] is None
    assert summary["spill_compression"] == {
        "mode": "auto",
        "per_operator": [
            {"node_name": each["node_name"], "display_name": each["display_name"], "compression": "lz4"}
            for each in summary["estimated_spill"]["per_stage"]
        ],
    }
    assert summary["spill_root"]["source"] == "OS temp dir (default)"
    assert summary["staging"] == {"enabled": False, "sources": []}


def test_staging_that_is_off_says_so(folder: Path) -> None:
    text = explain.text(plan(folder, '[storage.staging]\ndir = "staging"\n'))
    assert text.endswith("=== Staging Plan ===\n\nSource staging is disabled — every source reads in place.\n")


STAGING = '[storage.staging]\nenabled = true\ndir = "staging"\npatterns = ["a.csv", "more.csv"]\n'


def staged(folder: Path, name: str, *, now: bool = False) -> str:
    """Where a file's copy is; `now` stages it."""
    path = folder / name
    if now:
        settings = Settings(str(folder / "staging"), ("*",), cleanup=Cleanup.NEVER, on_existing=OnExisting.REUSE)
        run, status = SourceStaging(settings, datetime.now(UTC)), path.stat()
        run.stage(InputFile(str(path), name, status.st_size, status.st_mtime_ns))
        run.close(succeeded=True)
    return str(StagedCopy.of(str(folder / "staging"), str(path)).data)


def test_each_file_tells_its_copy_and_whether_it_can_be_used_again(folder: Path) -> None:
    hit, miss = staged(folder, "in/a.csv", now=True), staged(folder, "more.csv")
    before = sorted(path.name for path in (folder / "staging").iterdir())
    read = plan(folder, STAGING + 'on_existing = "reuse"\n')
    assert section(explain.text(read), "Staging Plan") == [
        "Source 'orders':",
        f"  {folder}/in/a.csv → staged: yes, path: {hit}, reuse: hit",
        f"  {folder}/in/b.csv → staged: no (no pattern match, reads in place)",
        "Source 'more':",
        f"  {folder}/more.csv → staged: yes, path: {miss}, reuse: miss",
    ]
    assert json.loads(explain.as_json(read))["storage_summary"]["staging"] == {
        "enabled": True,
        "sources": [
            {
                "name": "orders",
                "stagable": True,
                "files": [
                    {"source_path": f"{folder}/in/a.csv", "staged": True, "staged_path": hit, "reuse": "hit"},
                    {"source_path": f"{folder}/in/b.csv", "staged": False},
                ],
            },
            {
                "name": "more",
                "stagable": True,
                "files": [
                    {"source_path": f"{folder}/more.csv", "staged": True, "staged_path": miss, "reuse": "miss"},
                ],
            },
        ],
    }
    assert sorted(path.name for path in (folder / "staging").iterdir()) == before


def test_copies_that_are_not_used_again_have_no_forecast(folder: Path) -> None:
    staged(folder, "in/a.csv", now=True)
    assert section(explain.text(plan(folder, STAGING)), "Staging Plan")[1].endswith(", reuse: n/a")


def test_sources_without_files_say_why(folder: Path) -> None:
    (folder / "more.csv").unlink()
    for path in (folder / "in").iterdir():
        path.unlink()
    lines = section(explain.text(plan(folder, STAGING)), "Staging Plan")
    assert lines[1].startswith("  (discovery failed: in/*.csv: ")
    assert lines[3].startswith("  (discovery failed: more.csv: ")
    record = json.loads(explain.as_json(plan(folder, STAGING)))["storage_summary"]["staging"]["sources"]
    assert [source["files"] for source in record] == [[], []]
    assert all("discovery_error" in source for source in record)


def test_a_pattern_without_match_that_is_allowed_and_a_network_source(folder: Path) -> None:
    for path in (folder / "in").iterdir():
        path.unlink()
    read = plan(folder, STAGING)
    found: dict[str, Any] = {"a": Discovered(), "b": Discovered(is_network=True)}
    assert storage.staging(read, found) == [
        "Source 'a':",
        "  (no files matched)",
        "Source 'b': not stagable (network source reads in place)",
    ]


SORTED = """
pipeline: { name: p }
nodes:
  - { type: source, name: s, config: { type: csv, path: more.csv, schema: { id: int, dept: string } } }
  - { type: aggregate, name: a, input: s, config: { group_by: [dept], cxl: emit n = count(*) } }
  - { type: output, name: by_name, input: a, config: { type: csv, path: o.csv, sort_order: [dept] } }
"""


def test_a_sort_is_among_what_keeps_records_on_disk(folder: Path) -> None:
    (folder / "clinker.toml").write_text("[storage.spill]\ndisk_cap_bytes = 600\n")
    text = explain.text(planned(folder, SORTED))
    assert section(text, "Estimated Spill Volume") == [
        "Estimated spill volume (per blocking stage):",
        "  [aggregation:hash] a → 512B",
        "  [sort] by_name → 512B",
        "  Total: 1K",
    ]
    assert "  Aggregate 'a' → lz4\n  Sort 'by_name' → off" in text
    # The cap is for what is spilled: the runs of a sorted output lie beside it.
    assert "Cap headroom: 88 bytes free (512 estimated of 600 cap, 85%)" in text
    assert "edge aggregation.a -> output.by_name:\n  buffer: materialized (sorted runs" in text


def test_each_node_says_what_it_holds_and_gives_back(folder: Path) -> None:
    properties = json.loads(explain.as_json(planned(folder, SORTED)))["node_properties"]
    assert [
        (name, facts["predicted_peak_bytes"], facts["predicted_freed_bytes_on_complete"])
        for name, facts in properties.items()
    ] == [("s", 512, 0), ("a", 512, 512), ("by_name", 512, 512)]
    assert {facts["predicted_subtree_reclaim_bytes"] for facts in properties.values()} == {512}
    assert all(facts["ck_set"] == [] for facts in properties.values())


def test_what_two_chains_feed_is_neithers_own(folder: Path) -> None:
    properties = json.loads(explain.as_json(plan(folder)))["node_properties"]
    reclaim = {name: facts["predicted_subtree_reclaim_bytes"] for name, facts in properties.items()}
    assert (reclaim["orders"], reclaim["all"], reclaim["more"]) == (0, 1536, 512)


def test_time_windows_watermarks_and_strategies_are_told(folder: Path) -> None:
    text = """
pipeline: { name: p }
nodes:
  - type: source
    name: s
    config:
      type: csv
      path: more.csv
      schema: { at: date_time, dept: string }
      sort_order: [dept]
      watermark: { column: at, delay: 90s, idle_timeout: 5m }
  - type: aggregate
    name: a
    input: s
    config: { group_by: [dept], time_window: WINDOW, allowed_lateness: 1m, cxl: emit n = count(*) }
  - { type: aggregate, name: b, input: s, config: { group_by: [dept], strategy: streaming, cxl: emit n = count(*) } }
  - { type: output, name: o, input: a, config: { type: csv, path: o.csv } }
  - { type: output, name: p, input: b, config: { type: csv, path: p.csv } }
"""
    for window, told in {
        "{ tumbling: { size: 5m } }": "tumbling, of 300 s",
        "{ hopping: { size: 1h, slide: 5m } }": "hopping, of 3600 s, each 300 s",
        "{ session: { gap: 30m } }": "session, ended by 1800 s without a record",
    }.items():
        lines = explain.text(planned(folder, text.replace("WINDOW", window))).splitlines()
        assert f"  time window: {told}" in lines
        assert "  allowed lateness: 60 s; what is later is a dead letter" in lines
        assert "  watermark: at, 90 s behind, a silent file is passed over after 300 s" in lines
        asked = "(`strategy: streaming` asks for nothing else)"
        assert f"  strategy: hash; groups in order of first appearance {asked}" in lines
