"""`clinker preview`: records at nodes, from the first records of the sources, without writing anything."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker, tables
from spark_jobs.formats import splits

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, n: int, who: string}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit part = 12.0 / n"}}
  - {type: route, name: r, input: t, config: {conditions: {big: "part > 4.0"}, default: small}}
  - {type: output, name: big, input: r.big, config: {type: csv, path: big.csv, mapping: {share: part}, exclude: [n]}}
  - {type: output, name: small, input: r.small, config: {type: json, path: "small.json", if_exists: error}}
"""
ROWS = "id,n,who\n1,2,ann\n2,3,\n3,4,caf\u00e9\n4,0,dan\n5,6,null\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "in.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert clinker.main(["preview", "p.yaml", *arguments]) == 0
    found = capsys.readouterr()
    return found.out, found.err


def test_the_records_of_a_node_are_a_table_with_types(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys, "t")
    assert out == textwrap.dedent("""\
        t: 4 records
         id    n  who      part
        Int  Int  String  Float
        ---  ---  ------  -----
          1    2  ann       6.0
          2    3  ""        4.0
          3    4  café      3.0
          5    6  "null"    2.0
        """)
    assert err == textwrap.dedent("""\
        from 5 of s
        1 record is a dead letter
          reasons:
            1  transform:t, field 'part', type_coercion_failure
               in.csv, row 4: division by zero
        """)


def test_branches_and_outputs_have_the_columns_that_they_get(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, "r.big", "big", "--quiet", "--format", "json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"node": "r.big", "record": {"id": 1, "n": 2, "who": "ann", "part": 6.0}},
        {"node": "big", "record": {"id": 1, "who": "ann", "share": 6.0}},
    ]


def test_numbers_are_shown_with_all_their_digits(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "{type: json, path: in.json, schema: {id: int}}"
    (here / "p.yaml").write_text(
        PIPELINE.replace("{type: csv, path: in.csv, schema: {id: int, n: int, who: string}}", source).replace(
            "12.0 / n", "5.0"
        )
    )
    (here / "in.json").write_text('[{"id":1,"big":9999999999999999.9999,"far":12345678901234567890,"some":[0.10]}]')
    out, _ = shown(capsys, "t", "r.big", "--quiet", "--format", "json")
    digits = '"big":9999999999999999.9999,"far":12345678901234567890,"some":[0.1]'
    assert out.replace(" ", "").count(digits) == 2
    out, _ = shown(capsys, "t", "--quiet")
    assert "9999999999999999.9999" in out
    assert "12345678901234567890" in out


def test_without_a_node_all_outputs_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, "-n", "1")
    assert [line for line in out.splitlines() if ":" in line] == ["big: 1 record", "small: 3 records, the first 1"]


def test_so_many_records_are_read_of_each_source(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys, "t", "--records", "2", "--format", "json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
    assert err == "from the first 2 of s\n"


@pytest.mark.parametrize("records", [1, 7, 100, 199, 200, 201, 5000])
@pytest.mark.parametrize("split_bytes", [40, 300, 1 << 20])
def test_they_are_the_first_ones_however_files_are_cut(
    split_bytes: int, records: int, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    # The second file has a record of two lines at each border, the third none at all.
    files = {"a": range(100), "b": range(100, 200), "c": (), "d": range(200, 260)}
    for name, numbers in files.items():
        rows = "".join(f'{number},1,"x\ny"\n' for number in numbers)
        (here / f"part-{name}.csv").write_text(f"id,n,who\n{rows}")
    (here / "p.yaml").write_text(PIPELINE.replace("path: in.csv", "glob: part-*.csv"))
    out, err = shown(capsys, "s", "--records", str(records), "-n", "1000", "--format", "json")
    assert [json.loads(line)["id"] for line in out.splitlines()] == list(range(min(records, 260)))
    assert err.splitlines()[0] == (f"from the first {records} of s" if records <= 260 else "from 260 of s")


def test_nothing_is_written_and_what_is_there_is_no_problem(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "small.json").write_text("mine")
    before = sorted(here.iterdir())
    out, err = shown(capsys, "small", "--quiet")
    assert out.startswith("small: 3 records")
    assert err == ""
    assert sorted(here.iterdir()) == before
    assert (here / "small.json").read_text() == "mine"


def test_records_that_fail_end_no_preview(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "p.yaml").write_text(PIPELINE + "error_handling: {strategy: fail_fast}\n")
    assert shown(capsys, "t", "--format", "json", "--quiet")[0].count("\n") == 4


def test_a_wrong_name_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["preview", "p.yaml", "r.bgi"]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err == (
        "clinker preview error: the pipeline has no node 'r.bgi'; did you mean `r.big`? "
        "It has big, small, s, t, r.big, r.small\n"
    )


def test_a_name_near_none_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["preview", "p.yaml", "customers"]) == 1
    said = "clinker preview error: the pipeline has no node 'customers'; it has big, small, s, t, r.big, r.small\n"
    assert capsys.readouterr().err == said


def test_values_may_have_every_sign_that_ends_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in.csv").write_text("id,n,who\n1,2,a\u2028b\n2,2,c\u0085d\n", encoding="utf-8")
    out, _ = shown(capsys, "t", "--format", "json")
    assert [json.loads(line)["who"] for line in out.removesuffix("\n").split("\n")] == ["a\u2028b", "c\u0085d"]
    assert shown(capsys, "t")[0].startswith("t: 2 records\n")


def test_a_route_is_told_apart_from_its_branches(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["preview", "p.yaml", "r"]) == 1
    assert capsys.readouterr().err == (
        "clinker preview error: 'r' is a route, whose records are in its branches: name one of r.big, r.small\n"
    )


def test_what_run_would_refuse_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in.csv").unlink()
    assert clinker.main(["preview", "p.yaml", "t"]) == 1
    assert "in.csv" in capsys.readouterr().err
    (here / "p.yaml").write_text(PIPELINE.replace("12.0 / n", "12.0 / m"))
    assert clinker.main(["preview", "p.yaml", "t"]) == 1
    assert "E200" in capsys.readouterr().err


def test_a_table_that_is_too_wide_is_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "x" * 100, "n": None, "many": [1, {"a": "é"}]}, {"name": " pad", "n": -1.5}]
    assert tables.of_records(rows, {"n": "Float"}, 80) == [
        "-- 1",
        "name  " + "x" * 59 + "…",
        "n     null",
        'many  [1, {"a": "é"}]',
        "-- 2",
        'name  " pad"',
        "n     -1.5",
        "many  ",
    ]
    assert len(tables.of_records(rows, {"n": "Float"}, 90)) == 5


def test_tables_of_nothing_have_their_columns() -> None:
    assert tables.of_records([], {"a": "Int", "bb": "String"}) == ["  a      bb", "Int  String", "---  ------"]
    assert tables.of_records([{}], {}) == []


def test_signs_of_double_width_do_not_move_columns() -> None:
    assert tables.of_records([{"a": "漢字", "b": "x"}, {"a": "abcde", "b": "y"}], {}) == [
        "a      b", "-----  -", "漢字   x", "abcde  y",
    ]  # fmt: skip
