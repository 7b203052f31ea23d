"""Ragged CSV files and odd headers through whole runs: what is read, what is told, what is a dead letter."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import passes
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: ragged}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - type: source
    name: "rows"
    config: {type: csv, glob: in/*.csv, options: {OPTIONS}, schema: [{name: a, type: int}, {name: b, type: string}]}
  - {type: output, name: copy, input: "rows", config: {type: csv, path: out/copy.csv}}
"""
FILES = {
    "in/1.csv": "a,b\n1,x\n2\n3,y,\n",
    "in/2.csv": 'a,b\n4,z,lost,,\n5,w\n6\n7,q,"{also}"\n',
}


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


def run(folder: Path, options: str, files: dict[str, str] = FILES) -> int:
    pipelines.write(folder, {"pipeline.yaml": PIPELINE.replace("OPTIONS", options), **files})
    return int(pipelines.run(folder).result.exit_code)


@pytest.mark.parametrize("split_bytes", [10**9, 7], ids=["one split", "many splits"])
@pytest.mark.parametrize(
    ("ragged", "kept", "dead", "lost"),
    [
        ("error", [1, 5], [2, 3, 1, 3, 4], 0),
        ("pad", [1, 2, 5, 6], [3, 1, 4], 0),
        ("cut", [1, 3, 4, 5, 7], [2, 3], 2),
        ("both", [1, 2, 3, 4, 5, 6, 7], [], 2),
    ],
)
def test_ragged_records(
    tmp_path: Path, ragged: str, kept: list[int], dead: list[int], lost: int, split_bytes: int,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    pipelines.cut_by(monkeypatch, split_bytes)
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, f"ragged: {ragged}") == (2 if dead else 0)
    lines = (tmp_path / "out/copy.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[0]) for line in lines] == kept
    assert all(line.count(",") == 1 for line in lines)
    letters = (tmp_path / "out/dead.csv").read_text().splitlines()[1:] if dead else []
    assert [int(line.split(",")[4]) for line in letters] == dead
    told = [record.message for record in caplog.records if "surplus" in record.message]
    first = "source 'rows': records that lost surplus cells (`options.ragged`), empty ones aside: 2; the first is"
    assert told == ([f"{first} 'lost,,' of in/2.csv, row 1"] if lost else [])


def test_cells_that_were_cut_are_not_shown_where_they_may_be_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(globals(), "PIPELINE", PIPELINE.replace("name: b,", "name: password,"))
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, "ragged: cut", {"in/1.csv": "a,password\n1,hunter,2\n"}) == 0
    (told,) = [record.message for record in caplog.records if "surplus" in record.message]
    assert told.endswith("empty ones aside: 1; the first is '***' of in/1.csv, row 1")


def test_a_source_may_be_called_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "PIPELINE", PIPELINE.replace("rows", "{count}"))
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, "ragged: cut", {"in/1.csv": "a,b\n1,x,lost\n"}) == 0
    (told,) = [record.message for record in caplog.records if "surplus" in record.message]
    assert told.startswith("source '{count}': records")
    assert told.endswith("aside: 1; the first is 'lost' of in/1.csv, row 1")


@pytest.mark.parametrize("split_bytes", [10**9, 7], ids=["one split", "many splits"])
def test_records_that_a_later_job_reads_again_are_told_once(
    tmp_path: Path, split_bytes: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    meeting = """
  - {type: transform, name: seen, input: rows, config: {cxl: "emit a = a"}}
  - type: combine
    name: twice
    input: {o: rows, p: seen}
    config: {where: "o.a == p.a", match: first, cxl: "emit a = o.a"}
  - {type: output, name: met, input: twice, config: {type: csv, path: out/met.csv}}
"""
    monkeypatch.setitem(globals(), "PIPELINE", PIPELINE.rstrip() + meeting)
    pipelines.cut_by(monkeypatch, split_bytes)
    jobs = []
    whole = passes.chain.run
    monkeypatch.setattr(passes.chain, "run", lambda spark, spec: jobs.append(spec.job) or whole(spark, spec))
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, "ragged: cut", {"in/1.csv": "a,b\n1,x,lost\n2,y\n"}) == 0
    assert [job.ops["rows"].silent for job in jobs if "rows" in job.sources] == [False, True]
    (told,) = [record.message for record in caplog.records if "surplus" in record.message]
    assert told.endswith("empty ones aside: 1; the first is 'lost' of in/1.csv, row 1")


def test_an_export_of_excel_with_a_line_before_the_header_and_names_twice(tmp_path: Path) -> None:
    options = "skip_rows: 1, delimiter: ';', duplicate_columns: number"
    assert run(tmp_path, options, {"in/1.csv": "sep=;\na;b;b\n1;x;y\n"}) == 0
    assert (tmp_path / "out/copy.csv").read_text() == "a,b,b_2\n1,x,y\n"


@pytest.mark.parametrize("split_bytes", [10**9, 5], ids=["one split", "many splits"])
def test_stray_quotes_are_dead_letters_where_quotes_are_strict(
    tmp_path: Path, split_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipelines.cut_by(monkeypatch, split_bytes)
    file = {"in/1.csv": 'a,b\n1,"a,"b, c"\n2,5" pipe\n3,"ok, ""it"" is"\n'}
    assert run(tmp_path, "quotes: strict", file) == 2
    assert (tmp_path / "out/copy.csv").read_text() == 'a,b\n3,"ok, ""it"" is"\n'
    letters = (tmp_path / "out/dead.csv").read_text()
    assert "text follows a closing quote" in letters
    assert "a cell that is not quoted contains a quote" in letters


BARE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {}, options: {has_header: false}}}
  - {type: output, name: o, input: s, config: {type: csv, path: out/o.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


def test_a_record_that_is_too_wide_is_a_dead_letter_where_nothing_is_declared(tmp_path: Path) -> None:
    pipelines.write(tmp_path, {"pipeline.yaml": BARE, "in.csv": "1,2\n3,4\n5,6,7\n"})
    result = pipelines.run(tmp_path).result
    assert (result.error, result.exit_code, result.records_dlq) == (None, 2, 1)
    assert "3" in pipelines.outputs(tmp_path)["o.csv"].decode()


def test_quotes_that_nobody_escaped_are_read_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = {"in/1.csv": 'a,b\n1,"a "b, c" d"\n2,5" pipe\n3,"ok, ""it"" is"\n4,"x "y" z"\n'}
    with caplog.at_level(logging.WARNING):
        assert run(tmp_path, "quotes: repair", file) == 0
    written = 'a,b\n1,"a ""b, c"" d"\n2,"5"" pipe"\n3,"ok, ""it"" is"\n4,"x ""y"" z"\n'
    assert (tmp_path / "out/copy.csv").read_text() == written
    (told,) = [record.message for record in caplog.records if "quotes" in record.message]
    assert told == (
        "source 'rows': records with quotes that were read as text (`quotes: repair`): 2; the first is "
        '\'1,"a "b, c" d"\' of in/1.csv, row 1'
    )
