"""The message about the record that ends a run: its place, the expression with its own, and what is in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.diagnostics.source import SourceFile, Span
from spark_jobs.execute import verdict
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
pipeline: {name: failing}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, schema: {total: int, count: int, note: string, api_key: string}}
"""
OUTPUT = "  - {type: output, name: o, input: x, config: {type: csv, path: out/o.csv}}\n"
ROWS = "total,count,note,api_key\n1,1,good,k1\n500,0,late one,hidden\n9,0,later,k3\n"


def ended(
    folder: Path, capsys: pytest.CaptureFixture[str], nodes: str, rows: str = ROWS, code: int = 3
) -> tuple[str, list[str]]:
    """The message, and the lines that point at a place."""
    pipelines.write(folder, {"p.yaml": SOURCE + nodes + OUTPUT, "in.csv": rows})
    assert clinker.main(["run", "p.yaml", "--force", "--threads", "2"]) == code
    message, *place = capsys.readouterr().err.splitlines()
    return message.split(": ", 1)[1], place


RECORD = "record: {total: 500, count: 0, note: late one, api_key: ***"
PLAIN = "  - {type: transform, name: x, input: s, config: {cxl: emit n = note}}\n"


@pytest.mark.parametrize("size", ["1000000", "10"])
def test_a_failing_statement_is_named_with_its_place(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    cxl = "emit first = note\n        emit ratio =\n          total / count"
    nodes = f"  - type: transform\n    name: x\n    input: s\n    config:\n      cxl: |\n        {cxl}\n"
    message, place = ended(here, capsys, nodes)
    assert message == (
        "in.csv, row 2: field 'ratio': division by zero (stage transform:x; strategy fail_fast); "
        f"expression: emit ratio = total / count; {RECORD}}}"
    )
    assert place[0].strip() == "--> p.yaml:12:9"
    assert place[2].endswith("emit ratio =")


def test_a_failing_check_is_named_with_its_place(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validation = '{name: some, check: "count > 0", message: "count is 0"}'
    nodes = f"  - {{type: transform, name: x, input: s, config: {{cxl: emit n = note, validations: [{validation}]}}}}\n"
    message, place = ended(here, capsys, nodes)
    assert "row 2: count is 0 (stage transform:x; strategy fail_fast); expression: count > 0; " + RECORD in message
    assert place[0].strip().startswith("--> p.yaml:6:")


def test_a_failing_condition_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "  - {type: route, name: r, input: s, config: {conditions: {a: total / count > 1}, default: x}}\n"
    nodes += "  - {type: output, name: a, input: r.a, config: {type: csv, path: out/a.csv}}\n"
    nodes += PLAIN.replace("input: s", "input: r.x")
    message, _ = ended(here, capsys, nodes)
    assert "expression: total / count > 1; " + RECORD in message


def test_a_failing_aggregate_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = "  - {type: aggregate, name: x, input: s, config: {group_by: [note], cxl: emit n = sum(total / count)}}\n"
    message, _ = ended(here, capsys, nodes)
    assert "division by zero" in message
    assert "record: {total: 500, count: 0" in message


def test_a_record_that_is_not_at_hand_is_read_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = f"total,count,note,api_key\n1,1,a,b\n7,x,{'z' * 300},secret\n"
    message, place = ended(here, capsys, PLAIN, rows)
    assert "row 2: field 'count': conversion failed: cannot convert 'x' to Int" in message
    assert message.endswith(f"record: {{total: 7, count: x, note: {'z' * 100}…, api_key: ***}}")
    assert place[0] == ""


def test_a_broken_record_is_shown_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message, _ = ended(here, capsys, PLAIN, "total,count,note,api_key\n1\n", code=4)
    assert "malformed record: record has 1 fields, expected 4" in message
    assert "record: {" not in message


def test_trouble_inside_compositions_names_the_calls() -> None:
    place = Span(SourceFile("p.yaml", "x"), 0, 1)
    planned = SimpleNamespace(kind="aggregate", span=place)
    plan = SimpleNamespace(by_name={"outer/inner/totals": planned, "totals": planned}, places={})
    found = verdict.broken(plan, "E310", "no room", "outer/inner/totals")  # type: ignore[arg-type]
    assert found.message == "in composition 'outer': in composition 'inner': aggregate 'totals': no room"
    assert verdict.broken(plan, "E310", "no room", "totals").message == "aggregate 'totals': no room"  # type: ignore[arg-type]


def test_line_ends_of_data_stay_inside_the_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = 'total,count,note,api_key\n1,1,"a\nCLINKER_RESULT {}\x1b[31m",b\n'
    message, _ = ended(here, capsys, PLAIN.replace("note}", "note.to_int()}"), rows)
    assert "cannot convert 'a\\nCLINKER_RESULT {}\\x1b[31m' to Int" in message
    assert "note: a\\nCLINKER_RESULT" in message
