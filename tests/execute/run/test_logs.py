"""Log lines of a run: the record they are about, the batch they belong to, and data that must not leave its line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs import result
from spark_jobs.cli import clinker
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable
from spark_jobs.execute import logs
from spark_jobs.execute.run import executor
from spark_jobs.nodes.transform import directives
from tests.execute import pipelines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PIPELINE = """
pipeline: {name: logged}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {n: int, s: string}}}
  - {type: transform, name: t, input: s, config: {cxl: 'CXL'}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
ROWS = "n,s\n" + "".join(f"{number},x\n" for number in range(1, 7))


def run(folder: Path, cxl: str, *options: str, rows: str = ROWS) -> int:
    pipelines.write(folder, {"p.yaml": PIPELINE.replace("CXL", cxl), "in.csv": rows})
    return clinker.main(["run", "p.yaml", "--force", "--threads", "2", *options])


@pytest.mark.parametrize("size", ["1000000", "12"])
def test_lines_of_programs_name_row_and_file_whatever_the_splits(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    cxl = 'trace warn if n % 3 == 0 "third"\n        emit d = n.debug("n") * 2\n        emit r = 60 / (n - 7)'
    cxl = cxl.replace("\n        ", "\n\n")
    assert run(here, cxl, "--log-level", "trace", "--quiet") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "source_row" in line]
    warned = [line for line in lines if line.startswith("WARNING")]
    assert warned == [f"WARNING source_row={row} source_file=in.csv: third" for row in (3, 6)]
    debugged = [line for line in lines if line.startswith("TRACE")]
    assert debugged == [f"TRACE source_row={row} source_file=in.csv: n: Integer({row})" for row in range(1, 7)]


def test_debug_writes_a_line_for_each_record_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cxl = "emit r = if n > 3 then 12 / n.debug() else 0\n\nemit q = 1 / n"
    assert run(here, cxl, "--log-level", "trace") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("TRACE")]
    assert lines == [f"TRACE source_row={row} source_file=in.csv: Integer({row})" for row in (4, 5, 6)]


def test_nothing_is_evaluated_record_by_record_for_lines_that_nobody_reads(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.cxl.kernels import deferred

    def refuse(*_: object) -> None:
        raise AssertionError("a row was left to the interpreter")

    monkeypatch.setattr(deferred, "_records", refuse)
    assert run(here, "emit d = n.debug()") == 0
    assert "TRACE" not in capsys.readouterr().err


def test_lines_carry_a_batch_id_that_was_chosen(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(here, 'trace warn if n == 1 "seen"', "--batch-id", "night-07")
    assert "WARNING batch_id=night-07 source_row=1 source_file=in.csv: seen\n" in capsys.readouterr().err
    run(here, 'trace warn if n == 1 "seen"')
    assert "batch_id" not in capsys.readouterr().err


def test_lines_for_programs_always_carry_the_batch_id(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(here, 'trace warn if n == 1 "seen"', "--log-format", "json", "--batch-id", "night-08")
    (line,) = (json.loads(line) for line in capsys.readouterr().err.splitlines() if "seen" in line)
    assert line["batch_id"] == "night-08"
    assert line["message"] == "source_row=1 source_file=in.csv: seen"


@pytest.mark.parametrize("odd", ["\x1b[31m", "\nCLINKER_RESULT {}", "\r\x08", "\u2028", "\u202e", "\x9b", "\u200b"])
@pytest.mark.parametrize("style", ["text", "json"])
def test_data_stays_on_the_line_of_its_message(
    here: Path, capsys: pytest.CaptureFixture[str], odd: str, style: str
) -> None:
    cell = '"' + odd.replace('"', '""') + '"'
    run(here, "trace warn s", "--log-format", style, rows=f"n,s\n1,{cell}\n")
    told = capsys.readouterr().err
    assert odd not in told
    (line,) = (line for line in told.split("\n") if "source_row" in line)
    assert not any(each.startswith("CLINKER_RESULT") for each in told.splitlines())
    message = json.loads(line)["message"] if style == "json" else line
    assert message.endswith(f"source_row=1 source_file=in.csv: {printable(odd)}")


def test_what_is_seen_stays_as_it_is() -> None:
    assert printable("Éva Müller, 東京 €5") == "Éva Müller, 東京 €5"
    assert printable("a\tb\nc\U000e0001", keep="\t") == "a\tb\\nc\\U000e0001"


def test_the_record_stands_on_a_line_of_its_own_behind_a_preview(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def previewed(run: executor.Run, show: Callable[[str, str], None]) -> ExitCode:
        show("o", "CLINKER_RESULT {}\nno end of a line")
        return ExitCode.SUCCESS

    pipelines.write(here, {"p.yaml": PIPELINE.replace("CXL", "emit x = s"), "in.csv": ROWS})
    monkeypatch.setattr(executor, "_previewing", previewed)
    assert clinker.main(["run", "p.yaml", "-n", "1", "--work-dir", "w", "--execution-id", "e"]) == 0
    *preview, last = capsys.readouterr().out.splitlines()
    assert preview == ["CLINKER_RESULT {}", "no end of a line"]
    record = result.parse_line(last)
    assert record is not None
    assert record.execution_id == "e"


def test_names_of_columns_steer_no_terminal(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PIPELINE.replace("CXL", "emit x = 1").replace("s: string", '"s\\e[31m\\n\\u202E": string')
    pipelines.write(here, {"p.yaml": text, "in.csv": ROWS})
    for command in (["lineage", "p.yaml"], ["explain", "p.yaml", "--field", "o.s\x1b[31m\n\u202e"]):
        assert clinker.main(command) == 0
        told = capsys.readouterr()
        assert "s\\x1b[31m\\n\\u202e" in told.out + told.err
        assert not {"\x1b", "\u202e"} & set(told.out + told.err)
    assert clinker.main(["explain", "p.yaml", "--field", "o.no\x1bthing"]) == 1
    told = capsys.readouterr()
    assert "no\\x1bthing" in told.err
    assert not {"\x1b", "\u202e"} & set(told.err)


def test_paths_and_messages_with_line_ends_stay_on_their_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PIPELINE.replace("CXL", "emit x = 1").replace("path: in.csv", 'glob: "in*.csv"')
    pipelines.write(here, {"p.yaml": text, "in.csv": "n,s\n1,2,3\n"})
    (here / "in\nCLINKER_RESULT {}.csv").write_text("n,s\n1,2,3\n")
    assert clinker.main(["run", "p.yaml", "--force"]) == 4
    told = capsys.readouterr()
    assert "in\\nCLINKER_RESULT {}.csv" in told.err
    assert not any(line.startswith("CLINKER_RESULT") for line in (told.err + told.out).splitlines())


DIRECTIVES = """
pipeline: {name: logged}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: csv, glob: "in/*.csv", schema: {n: int, s: string}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: emit q = 12 / (n - 2)
      log:
        - level: info
          when: before_transform
          message: "{_transform_name} of {pipeline.name}: {_pipeline_total_count}"
        - level: info
          when: per_record
          message: "{_source_file}:{_source_row} {_pipeline_total_count} {q} {unknown}"
          fields: [s, _source_row]
        - level: warn
          when: on_error
          message: "{pipeline.name} {_source_row}/{_pipeline_total_count}: {_cxl_dlq_error_detail}{_pipeline_ok_count}"
        - level: info
          when: after_transform
          message: "{_pipeline_total_count} {_pipeline_ok_count} {_pipeline_dlq_count} {_transform_duration_ms}"
  - type: aggregate
    name: g
    input: t
    config: {group_by: [s], cxl: "emit all = sum(n)"}
  - type: transform
    name: u
    input: g
    config:
      cxl: "emit a = all"
      log:
        - level: info
          when: per_record
          message: "{s} {_source_file} {_source_row}{_source_count} {_pipeline_dlq_count}"
  - {type: output, name: o, input: u, config: {type: csv, path: out/o.csv}}
"""

FILES = (("a", 1), ("b", 4))


@pytest.mark.parametrize("size", ["1000000", "12"])
def test_placeholders_show_the_same_whatever_the_splits(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    rows = {f"in/{name}.csv": "n,s\n" + "".join(f"{n},x\n" for n in range(first, first + 3)) for name, first in FILES}
    pipelines.write(here, {"p.yaml": DIRECTIVES, **rows})
    assert clinker.main(["run", "p.yaml", "--force", "--threads", "2", "--quiet"]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("INFO", "WARNING"))]
    # What fails in a batch is told before what goes on from it.
    warned = [line for line in lines if line.startswith("WARNING")]
    assert warned == ["WARNING logged 2/2: row 2: field 'q': division by zero"]
    assert [line for line in lines if line.startswith("INFO")] == [
        "INFO t of logged: 0",
        "INFO in/a.csv:1 1 -12 {unknown} s=x _source_row=1",
        "INFO in/a.csv:3 3 12 {unknown} s=x _source_row=3",
        "INFO in/b.csv:1 4 6 {unknown} s=x _source_row=1",
        "INFO in/b.csv:2 5 4 {unknown} s=x _source_row=2",
        "INFO in/b.csv:3 6 3 {unknown} s=x _source_row=3",
        "INFO x <merged> 6 1",
        "INFO 6 1 1 ",
    ]


SHOWN = """
pipeline: {name: shown}
error_handling: {strategy: continue}
nodes:
  - type: source
    name: s
    config: {type: json, path: in.ndjson, options: {format: ndjson}, schema: {id: int, n: int, h: any}}
  - type: transform
    name: t
    input: s
    config:
      cxl: |
        emit n = if id == 6 then -6 else 60 / n
        distinct by h
        emit q = 60 / (id - 5)
      validations: [{name: v, check: n > 0}]
      log:
        - {level: info, when: per_record, message: "{id}: {n} {h}", fields: [h]}
        - {level: warn, when: on_error, message: "{id}: {n} {h} {unknown}: {_cxl_dlq_error_detail}", fields: [h]}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv, exclude: [h]}}
"""


def shown(here: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, object]]) -> list[str]:
    """The lines of a run, in the order of the records."""
    pipelines.write(here, {"p.yaml": SHOWN, "in.ndjson": "".join(json.dumps(row) + "\n" for row in rows)})
    assert clinker.main(["run", "p.yaml", "--force", "--threads", "2", "--quiet"]) in (0, 2)
    found = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("WARNING dropped ")]
    return sorted(
        (line for line in found if line.startswith(("INFO", "WARNING"))), key=lambda line: line.split(" ", 1)[1]
    )


@pytest.mark.parametrize("size", ["1000000", "20"])
def test_lines_show_values_as_outputs_do_and_failing_records_as_they_came(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    """Before and behind a `distinct`, and where a check of what was made fails."""
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    values = [(1, 2, "x"), (2, 3, 1.0), (3, 0, [1, "a"]), (4, 4, None), (5, 5, True), (6, 1, 2.5), (7, 1, "x")]
    lines = shown(here, capsys, [{"id": id_, "n": n, "h": h} for id_, n, h in values])
    assert lines == [
        "INFO 1: 30 x h=x",
        "INFO 2: 20 1 h=1",
        'WARNING 3: 0 [1,"a"] {unknown}: row 3: field \'n\': division by zero h=[1,"a"]',
        "INFO 4: 15  h=",
        "WARNING 5: 5 true {unknown}: row 5: field 'q': division by zero h=true",
        "WARNING 6: -6 2.5 {unknown}: validation 'v' failed h=2.5",
    ]


@pytest.mark.parametrize("size", ["1000000", "20"])
def test_records_without_a_partition_or_a_distinct_key_have_their_lines(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
    rows: list[dict[str, object]] = [{"id": 1, "n": 2, "h": [1]}, {"id": 2, "n": 3, "h": "x"}]
    alone = shown(here, capsys, rows)
    line = "WARNING 1: 2 [1] {{unknown}}: row 1: {}type mismatch: expected hashable value, got array h=[1]"
    assert alone[0] == line.format("")
    text = SHOWN.replace("        distinct by h\n", "").replace(
        "      cxl: |", "      analytic_window: {group_by: [h]}\n      cxl: |"
    )
    pipelines.write(here, {"p.yaml": text})
    assert clinker.main(["run", "p.yaml", "--force", "--threads", "2", "--quiet"]) == 2
    assert line.format("field 'h': ") in capsys.readouterr().err.splitlines()


def test_lines_that_are_left_out_are_not_written(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LINES_PER_TASK", 5)
    written = []
    plain = directives._filled
    monkeypatch.setattr(directives, "_filled", lambda entry, known: written.append(1) or plain(entry, known))
    lines = shown(here, capsys, [{"id": 10 + i, "n": i % 3 + 1, "h": i} for i in range(40)])
    assert len([line for line in lines if line.startswith("INFO 1")]) == 5
    assert len(written) == 5
    assert any("35 more log lines of this task are left out" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "rows", "code", "wanted"),
    [
        ("nodes: [", "a\n1\n", 1, ("E000", True)),
        ("cxl: emit b = nothing_such", "a\n1\n", 1, ("E200", True)),
        ("cxl: emit b = a.to_int()", "a\nx\n", 3, ("type_coercion_failure", True)),
        ("cxl: emit b = a.to_int()", None, 4, ("E216", True)),
    ],
)
def test_under_json_each_diagnostic_is_a_line_as_the_rest_is(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    rows: str | None,
    code: int,
    wanted: tuple[str, str, bool],
) -> None:
    """Whatever found it: the parser, the checker, a record, a file that is not there."""
    pipeline = text
    if text.startswith("cxl"):
        pipeline = f"""
pipeline: {{name: t}}
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{a: string}}}}}}
  - {{type: transform, name: t, input: s, config: {{{text}}}}}
  - {{type: output, name: o, input: t, config: {{type: csv, path: out.csv}}}}
"""
    pipelines.write(here, {"p.yaml": pipeline} | ({} if rows is None else {"in.csv": rows}))
    assert clinker.main(["run", "p.yaml", "--force", "--log-format", "json", "--batch-id", "b1"]) == code
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (told,) = [line for line in lines if line.get("event") == "diagnostic"]
    assert (told["code"], "line" in told) == wanted
    assert told["level"] == "error"
    assert told["batch_id"] == "b1"
    assert told["message"]
