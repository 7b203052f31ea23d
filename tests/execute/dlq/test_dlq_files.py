"""Dead letters in bulk: sorted runs of columns, merged into files; and those without a file, named in the log."""

from __future__ import annotations

import csv
import random
import re
import time
import uuid
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.cli import clinker
from spark_jobs.cxl import failure_columns
from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.execute import identity
from spark_jobs.execute.dlq import buffer, merge
from spark_jobs.tuning import Tuning
from tests.execute import pipelines
from tests.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

COERCED = failure_columns.Reason(Category.TYPE_COERCION, "n", "cannot read '", "'")
ABSENT = failure_columns.Reason(Category.MISSING_REQUIRED, "m", "missing")


# ---- failures as columns -----------------------------------------------------------------------------------------


def test_failures_of_several_kinds_come_by_their_rows() -> None:
    coerced = failure_columns.alike(np.array([1, 5]), COERCED, pa.array(["a", "b"]))
    absent = failure_columns.alike(np.array([0, 9]), ABSENT)
    single = failure_columns.of([RowFailure(3, Failure("overflow", Category.AGGREGATE, 7, "s"))])
    found = failure_columns.concatenated([coerced, absent, single])
    assert [(item.row, item.failure.detail, item.failure.field, item.failure.value) for item in found] == [
        (0, "missing", "m", None),
        (1, "cannot read 'a'", "n", "a"),
        (3, "overflow", "s", "7"),
        (5, "cannot read 'b'", "n", "b"),
        (9, "missing", "m", None),
    ]
    assert failure_columns.without(10, found).to_pylist() == [2, 4, 6, 7, 8]


def test_no_failures_are_none() -> None:
    assert len(failure_columns.concatenated([failure_columns.none(), failure_columns.of([])])) == 0


# ---- runs --------------------------------------------------------------------------------------------------------


def entries(rows: list[int], split: int = 0, source: int = 0, texts: list[str] | None = None) -> buffer.DlqEntries:
    values = pa.array(texts or [str(row) for row in rows])
    failing = failure_columns.alike(np.arange(len(rows)), COERCED, values)
    places = (
        pa.array([source] * len(rows), pa.int32()),
        pa.array([split] * len(rows), pa.int32()),
        pa.array(rows, pa.int64()),
    )
    return buffer.DlqEntries(failing, places)


SITE = buffer.Site(["transform:t"], 3)


def read(files: list[str], splits: tuple[int, int] = (-1, 100)) -> list[tuple[int, int, str]]:
    merged = merge.Merged(files, splits)
    found = []
    for part in merged.parts():
        assert {merged.whys[number].field for number in part.column("reason").to_pylist()} == {"n"}
        found += zip(*(part.column(name).to_pylist() for name in ("split", "row", "value")), strict=True)
    return found


@pytest.mark.parametrize("limit", [1, 2000, 1 << 30])
def test_entries_come_back_in_the_order_of_their_records(tmp_path: Path, limit: int) -> None:
    chance = random.Random(3)
    wanted, files = [], []
    for number in range(4):
        gathered = buffer.DlqBuffer(str(tmp_path / f"{number}.arrow"), None, 0, limit, Tuning(dlq_block_rows=7))
        for _ in range(12):
            split, rows = chance.randrange(5), sorted(chance.sample(range(200), 9))
            gathered.add(entries(rows, split), SITE)
            wanted += [(split, row, str(row)) for row in rows]
        gathered.write()
        files.append(gathered.kept.path)
        assert gathered.count == 108
    assert read(files) == sorted(wanted)
    assert read(files, (2, 3)) == sorted(entry for entry in wanted if entry[0] in (2, 3))


def test_entries_that_come_in_order_make_one_run(tmp_path: Path) -> None:
    gathered = buffer.DlqBuffer(str(tmp_path / "a.arrow"), None, 0, 1)
    for start in range(0, 100, 10):
        gathered.add(entries([*range(start, start + 10)]), SITE)
    gathered.write()
    assert {block["run"] for block in gathered.kept._blocks} == {0}
    assert len(gathered.kept._blocks) == 10
    assert [row for _, row, _ in read([gathered.kept.path])] == [*range(100)]


def test_entries_of_one_record_keep_the_order_in_which_they_came_whatever_run_they_are_in(tmp_path: Path) -> None:
    gathered = buffer.DlqBuffer(str(tmp_path / "0.arrow"), None, 0, 1)
    gathered.add(entries([5, 9], texts=["5 first", "9 first"]), SITE)
    gathered.add(entries([1, 9], texts=["1 first", "9 second"]), SITE)
    gathered.write()
    assert read([gathered.kept.path]) == [(0, 1, "1 first"), (0, 5, "5 first"), (0, 9, "9 first"), (0, 9, "9 second")]


def test_of_records_without_a_file_the_first_are_kept(tmp_path: Path) -> None:
    gathered = buffer.DlqBuffer(str(tmp_path / "a.arrow"), frozenset([1]), 5, 1 << 20)
    for start in (300, 200, 100, 0):
        for row in range(start, start + 40, 4):
            gathered.add(entries([*range(row, row + 4)]), SITE)
    gathered.add(entries([7, 8], split=1, source=1), SITE)
    gathered.write()
    assert [row for _, row, _ in read([gathered.dropped.path])][:5] == [0, 1, 2, 3, 4]
    assert read([gathered.kept.path]) == [(1, 7, "7"), (1, 8, "8")]
    assert gathered.dropped_reasons == [("transform:t", "type_coercion_failure", "n", 160)]
    assert gathered.per_source == {0: 160, 1: 2}


def test_ids_of_dead_letters_are_uuids_of_this_moment_that_ascend() -> None:
    now = time.time_ns() // 1_000_000
    first, again, later = identity.Series(now, 3), identity.Series(now, 3), identity.Series(now, 4)
    first._next = again._next = (1 << 28) - 500
    texts = [*first.take(0).to_pylist(), *first.take(600).to_pylist(), *first.take(400).to_pylist()]
    texts += later.take(1000).to_pylist()
    assert texts == sorted(texts)
    ids = [uuid.UUID(text) for text in texts]
    assert len({*ids, *map(uuid.UUID, again.take(1000).to_pylist())}) == 3000
    assert {(each.version, each.variant) for each in ids} == {(7, uuid.RFC_4122)}
    assert {each.int >> 80 for each in ids} == {now}


# ---- whole runs --------------------------------------------------------------------------------------------------

PIPELINE = """
pipeline: {name: bulk}
error_handling: ERRORS
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {n: {type: int, required: true}, v: string}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: emit w = v
      validations: [{name: even, check: "n % 2 == 0", message: "n is odd"}]
  - {type: aggregate, name: g, input: t, config: {group_by: [w], cxl: "emit c = count(*)\\nemit q = 10 / (min(n) - 4)"}}
  - {type: output, name: o, input: g, config: {type: csv, path: out/o.csv}}
"""
ROWS = "n,v\n" + "".join(
    f"{('' if n % 7 == 0 else n if n % 5 else f'x{n}')},{chr(97 + n % 9)}{',more' if n % 11 == 0 else ''}\n"
    for n in range(60)
)


def run(folder: Path, errors: str, *options: str, rows: str = ROWS) -> int:
    pipelines.write(folder, {"p.yaml": PIPELINE.replace("ERRORS", errors), "in.csv": rows})
    return clinker.main(["run", "p.yaml", "--force", "--threads", "2", *options])


def dead(folder: Path) -> list[list[str]]:
    with (folder / "out" / "dlq.csv").open() as file:
        return [row[2:] for row in csv.reader(file)]


@pytest.mark.parametrize(
    ("setting", "missing", "of_record"),
    [
        ("", set(), ["n", "v"]),
        (", include_reason: false", {"_cxl_dlq_error_category", "_cxl_dlq_error_detail"}, ["n", "v"]),
        (", include_source_row: false", set(), []),
    ],
)
def test_the_columns_are_those_of_the_documentation(
    here: Path, setting: str, missing: set[str], of_record: list[str]
) -> None:
    page = (ROOT / "docs/dead_letters.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(_cxl_dlq_\w+)` \|", page, re.MULTILINE)
    assert len(documented) == 12
    assert run(here, f"{{strategy: continue, dlq: {{path: out/dlq.csv{setting}}}}}") == 2
    with (here / "out" / "dlq.csv").open() as file:
        header = next(csv.reader(file))
    assert header == [name for name in documented if name not in missing] + of_record


@pytest.mark.parametrize("size", ["40", "100"])
def test_dead_letters_do_not_depend_on_splits_or_memory(here: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    errors = "{strategy: continue, dlq: {path: out/dlq.csv}}"
    assert run(here, errors) == 2
    whole = dead(here)
    assert len({row[5] for row in whole[1:]}) == 5
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    pipelines.tune(monkeypatch, dlq_block_rows=3, dlq_tables=1)
    monkeypatch.setattr("spark_jobs.formats.csv.parser._CAREFUL_BYTES", 16)
    assert run(here, errors) == 2
    assert dead(here) == whole


def test_records_without_a_file_are_named_with_their_places(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(here, "{strategy: best_effort}") == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "dropped" in line]
    assert [line.removeprefix("WARNING dropped in.csv, ") for line in told[:3]] == [
        "row 1: malformed record: record has 3 fields, expected 2 (source:s, malformed_record)",
        "row 2: n is odd (transform:t, validation_failure)",
        "row 4: n is odd (transform:t, validation_failure)",
    ]
    coerced = "row 6: field 'n': conversion failed: cannot convert 'x5' to Int"
    assert f"WARNING dropped in.csv, {coerced} (transform:t, required_field_conversion_failure)" in told
    assert any("(aggregate:g, aggregate_finalize)" in line for line in told)


def test_what_is_not_named_is_counted_by_reason(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffer, "NAMED", 4)
    rows = "n,v\n" + "".join(f"{'x' if n % 2 else n * 2 + 1},a\n" for n in range(40))
    for size in ("1000000", "30"):
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
        assert run(here, "{strategy: continue}", rows=rows) == 2
        told = [line for line in capsys.readouterr().err.splitlines() if "dropped" in line]
        places = [line.split(": ")[0] for line in told[:4]]
        assert places == [f"WARNING dropped in.csv, row {row}" for row in range(1, 5)]
        assert sorted(told[4:]) == [
            "WARNING 18 more records are dropped: field 'n', transform:t, required_field_conversion_failure",
            "WARNING 18 more records are dropped: transform:t, validation_failure",
        ]


def test_nothing_is_named_where_dead_letters_have_a_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(here, "{strategy: continue, dlq: {path: out/dlq.csv}}")
    assert "dropped" not in capsys.readouterr().err


def test_records_that_a_preview_drops_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(here, "{strategy: continue, dlq: {path: out/dlq.csv}}", "--dry-run", "-n", "3")
    assert "WARNING dropped in.csv, row 2: n is odd" in capsys.readouterr().err
    assert not (here / "out").exists()
