"""Why records died, as the summary, the metrics file and the result record tell it."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import result
from spark_jobs.cli import clinker
from spark_jobs.execute.dlq import reasons
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Ran = Callable[..., int]

PIPELINE = """
pipeline: {name: reasons}
error_handling: ERRORS
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, KEY schema: {n: {type: int, required: true}, v: string}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: emit w = 60 / (n - 8)
      validations: [{name: even, check: "n % 2 == 0", message: "n is odd"}]
  - {type: aggregate, name: g, input: t, config: {group_by: [v], cxl: "emit q = 10 / (min(n) - 4)"}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
  - {type: output, name: p, input: g, config: {type: csv, path: out/p.csv}}
"""
ROWS = "n,v\n" + "".join(
    f"{'' if n % 7 == 0 else n if n % 5 else f'x{n}'},{chr(97 + n % 9)}{',more' if n % 11 == 0 else ''}\n"
    for n in range(60)
)
FILED = "{strategy: continue, dlq: {path: out/dlq.csv}}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs the pipeline, or another, on rows."""
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)

    def run(errors: str, *options: str, rows: str = ROWS, key: str = "", text: str = PIPELINE) -> int:
        made = text.replace("ERRORS", errors).replace("KEY", f"correlation_key: {key}," if key else "")
        (tmp_path / "p.yaml").write_text(made)
        (tmp_path / "in.csv").write_text(rows)
        return clinker.main(["run", "p.yaml", "--force", "--threads", "2", "--execution-id", "e", *options])

    return run


def record(folder: Path) -> result.RunResult:
    found = result.read(folder / "work", "e")
    assert found is not None
    return found


def by_hand(folder: Path) -> list[tuple[Any, ...]]:
    """Stage, field, category, number of entries, file and row of the first: what the dead-letter file says."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    with (folder / "out/dlq.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            names = ("stage", "triggering_field", "error_category")
            known = found.setdefault(tuple(row[f"_cxl_dlq_{name}"] for name in names), [0, None, None])  # type: ignore[arg-type]
            known[0] += 1
            if known[1] is None:
                known[1:] = [row["_cxl_dlq_source_file"], int(row["_cxl_dlq_source_row"])]
    return sorted((*key, *told) for key, told in found.items())


def told(found: result.RunResult) -> list[tuple[Any, ...]]:
    return sorted(
        (each["stage"], each["field"], each["category"], each["count"], each["example"]["file"], each["example"]["row"])
        for each in found.dlq_reasons
    )


@pytest.mark.parametrize("key", ["", "v", "n"])
@pytest.mark.parametrize("size", [None, "40"])
def test_reasons_are_those_of_the_dead_letter_file(
    run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str | None, key: str
) -> None:
    """Whatever the splits, and where correlated groups have the run read again."""
    if size:
        monkeypatch.setenv("CLINKER_SPLIT_BYTES", size)
        pipelines.tune(monkeypatch, dlq_block_rows=3)
    assert run(FILED, "--work-dir", "work", "--metrics-spool-dir", "spool", key=key) == 2
    found = record(tmp_path)
    assert told(found) == by_hand(tmp_path)
    assert len(found.dlq_reasons) > 4
    assert sum(each["count"] for each in found.dlq_reasons) == found.dlq_count
    counts = [each["count"] for each in found.dlq_reasons]
    assert counts == sorted(counts, reverse=True)
    metrics = json.loads((tmp_path / "spool/e.json").read_text())
    assert metrics["dlq_reasons"] == list(found.dlq_reasons)
    assert metrics["dlq_paths"] == [str(tmp_path / "out/dlq.csv")] == list(found.dlq_paths)


@pytest.mark.parametrize("errors", [FILED, "{strategy: best_effort}"])
def test_the_summary_says_why_records_died_under_every_strategy(
    errors: str, run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(errors, rows="n,v\n2,a\nx,b\n3,c\ny,b\n5,c\n") == 2
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  reasons:")
    assert lines[at + 1 :] == [
        "    2  transform:t, field 'n', required_field_conversion_failure",
        "       in.csv, row 2: conversion failed: cannot convert 'x' to Int",
        "    2  transform:t, validation_failure",
        "       in.csv, row 3: n is odd",
        "  exit code 2: complete, with dead letters",
        *([f"  more: clinker dlq show {tmp_path}/out/dlq.csv"] if errors == FILED else []),
    ]


def test_a_run_that_has_too_many_dead_letters_says_why(
    run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(FILED, "--error-threshold", "1", "--work-dir", "work", rows="n,v\nx,b\ny,b\n") == 3
    out = capsys.readouterr().out
    assert "    2  transform:t, field 'n', required_field_conversion_failure\n" in out
    assert "Pipeline complete" not in out
    assert [each["count"] for each in record(tmp_path).dlq_reasons] == [2]


def test_a_clean_run_has_no_reasons(run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FILED, "--work-dir", "work", rows="n,v\n2,a\n") == 0
    assert "reasons" not in capsys.readouterr().out.split("CLINKER_RESULT")[0]
    assert (record(tmp_path).dlq_reasons, record(tmp_path).dlq_paths) == ((), ())


def test_the_summary_names_columns_that_no_file_has(run: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FILED, "--force", rows="n\n2\n4\n") == 0
    assert "  no file of s has v: null in every record (W210)\n" in capsys.readouterr().out
    assert run(FILED, "--force", "--log-format", "json", rows="n\n2\n4\n") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "columns_nowhere" in line]
    assert {key: json.loads(line)[key] for key in ("event", "source", "columns")} == {
        "event": "columns_nowhere", "source": "s", "columns": ["v"]
    }  # fmt: skip
    assert run(FILED, "--force", rows="n,v\n2,a\n") == 0
    assert "no file of" not in capsys.readouterr().out


def test_with_json_logs_the_summary_is_json_too(run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FILED, "--log-format", "json", "--batch-id", "b", rows="n,v\n2,a\nx,b\n") == 2
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["batch_id"] for line in lines} == {"b"}
    assert [line["event"] for line in lines] == ["complete"] + ["node"] * 5 + ["output"] * 2 + [
        "dead_letters",
        "reason",
        "more",
    ]
    assert (lines[0]["exit_code"], lines[0]["dlq"], lines[0]["total"]) == (2, 1, 2)
    assert lines[-2]["example"]["value"] == "x"
    assert lines[-1]["command"] == f"clinker dlq show {tmp_path}/out/dlq.csv"


def test_values_steer_no_terminal_and_are_not_long(
    run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(FILED, "--work-dir", "work", rows=f'n,v\n"\x1b[31m\n{"9" * 500}",b\n') == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"'\x1b[31m\n9999" in out
    assert "9" * 120 not in out
    assert len(record(tmp_path).dlq_reasons[0]["example"]["value"]) < 120


@pytest.mark.parametrize("program", ["emit n = password.to_int()", "emit password = n.to_date()"])
def test_credentials_are_not_shown(program: str, run: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""
pipeline: {{name: secrets}}
error_handling: ERRORS
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{password: int, n: string}}}}}}
  - {{type: transform, name: t, input: s, config: {{cxl: {program}}}}}
  - {{type: output, name: o, input: t, config: {{type: csv, path: out/o.csv}}}}
"""
    assert run(FILED, "--work-dir", "work", rows="password,n\nhunter2,x\n7,hunter2\n", text=text) == 2
    assert "hunter2" not in capsys.readouterr().out
    assert record(tmp_path).dlq_reasons[0]["example"]["detail"]


@pytest.mark.parametrize("options", [FILED, "{strategy: best_effort}", "{strategy: fail_fast}"])
@pytest.mark.parametrize("rows", ["k,password\na,hunter2\na,1\n", "k,password\na,1,hunter2\na,1\n"])
@pytest.mark.parametrize("key", ["", "correlation_key: k,"])
def test_values_of_secret_columns_stand_in_no_log_summary_or_message(
    key: str, rows: str, options: str, run: Ran, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither those of the record that failed, nor of its group, nor of a record that could not be read."""
    text = f"""
pipeline: {{name: secrets}}
error_handling: ERRORS
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, {key} schema: {{k: string, password: int}}}}}}
  - {{type: output, name: o, input: s, config: {{type: csv, path: out/o.csv}}}}
"""
    run(options, "--work-dir", "work", rows=rows, text=text)
    told = "".join(capfd.readouterr())
    assert "in.csv" in told
    assert "hunter2" not in told
    assert "hunter2" not in (tmp_path / "work/e/result.json").read_text()
    if options == FILED:
        assert "hunter2" in (tmp_path / "out/dlq.csv").read_text()


SCHEMA = "{k: string, password: string, v: string}"
FLOWS = {
    "another column": "- {type: transform, name: t, input: s, config: {cxl: emit pin = password.to_int()}}",
    "a part of it": (
        "- {type: transform, name: t, input: s, config: {cxl: 'emit pin = password.substring(1, 6).to_int()'}}"
    ),
    "a let": (
        "- {type: transform, name: t, input: s, config: {cxl: 'let p = password\n\n        emit pin = p.to_int()'}}"
    ),
    "a filter": "- {type: transform, name: t, input: s, config: {cxl: filter password.to_int() > 3}}",
    "a validation": (
        "- {type: transform, name: t, input: s, config: {cxl: emit k = k,"
        " validations: [{check: password.to_int() > 3, message: weak}]}}"
    ),
    "a later node": (
        "- {type: transform, name: a, input: s, config: {cxl: emit pin = password}}\n"
        "  - {type: transform, name: t, input: a, config: {cxl: emit n = pin.to_int()}}"
    ),
    "a route": (
        "- {type: route, name: r, input: s, config: {conditions: {good: password.to_int() > 3}, default: rest}}\n"
        "  - {type: output, name: x, input: r.rest, config: {type: csv, path: out/x.csv}}\n"
        "  - {type: transform, name: t, input: r.good, config: {cxl: emit k = k}}"
    ),
    "a group": (
        "- {type: aggregate, name: t, input: s, config: {group_by: [k], cxl: emit top = max(password).to_int()}}"
    ),
    "the argument of a group": (
        "- {type: aggregate, name: t, input: s, config: {group_by: [k], cxl: emit top = max(password.to_int())}}"
    ),
    "a group's key": (
        "- {type: transform, name: a, input: s, config: {cxl: emit pin = password}}\n"
        "  - {type: aggregate, name: g, input: a, config: {group_by: [pin], cxl: emit n = count(*)}}\n"
        "  - {type: transform, name: t, input: g, config: {cxl: emit n = pin.to_int()}}"
    ),
    "a combine": (
        "- {type: transform, name: a, input: s, config: {cxl: emit pin = password}}\n"
        "  - {type: combine, name: t, input: {l: s, r: a}, config: {where: l.k == r.k, match: first,"
        " cxl: emit n = r.pin.to_int()}}"
    ),
    "a condition of a combine": (
        "- {type: combine, name: t, input: {l: s, r: s}, config: {where: l.k == r.k and l.password.to_int() > 3,"
        " match: first, cxl: emit n = r.k}}"
    ),
    "a variable": (
        "- {type: state, name: set, input: s, config: {scope: record, set: [{var: pin, cxl: password}]}}\n"
        "  - {type: transform, name: t, input: set, config: {cxl: emit n = $record.pin.to_int()}}"
    ),
    "a member of a map": (
        '- {type: transform, name: t, input: s, config: {cxl: \'emit n = {"password": v}["password"].to_int()\'}}'
    ),
    "another name of an output": (
        "- {type: transform, name: t, input: s, config: {cxl: emit n = 0}}\n"
        "  - {type: output, name: x, input: t, config: {type: fixed_width, path: out/x.dat, mapping: {v: password},"
        " schema: {fields: [{name: v, type: string, start: 0, width: 3, truncation: error}]}}}"
    ),
    "a line of the log": (
        "- {type: transform, name: t, input: s, config: {cxl: emit pin = password.to_int(), log: [{level: error,"
        " when: on_error, message: '{_cxl_dlq_error_detail} {password} {pin}'}]}}"
    ),
}


@pytest.mark.parametrize("options", [FILED, "{strategy: best_effort}", "{strategy: fail_fast}"])
@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("flow", FLOWS)
def test_what_is_computed_from_a_secret_stands_in_no_log_summary_or_message(
    flow: str, key: str, options: str, run: Ran, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"""
pipeline: {{name: secrets, vars: {{record: {{pin: {{type: string}}}}}}}}
error_handling: ERRORS
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, KEY schema: {SCHEMA}}}}}
  {FLOWS[flow]}
  - {{type: output, name: o, input: t, config: {{type: csv, path: out/o.csv}}}}
"""
    rows = "k,password,v\na,xhunter2,xhunter2\na,12345,7\n"
    if flow != "a member of a map":
        rows = rows.replace("xhunter2,xhunter2", "xhunter2,w")
    code = run(options, "--work-dir", "work", rows=rows, text=text, key=key)
    told = "".join(capfd.readouterr())
    assert code in (2, 3, 4), told
    assert "in.csv" in told
    result_text = (tmp_path / "work/e/result.json").read_text()
    assert "hunter2" not in (told + result_text).replace("v: xhunter2", "")  # a column that nothing says is one
    if options == FILED and code == 2:
        assert "xhunter2" in (tmp_path / "out/dlq.csv").read_text()


def test_what_has_nothing_to_do_with_a_secret_is_shown(run: Ran, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
pipeline: {name: secrets}
error_handling: ERRORS
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {password: string, v: string}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit pin = password.length()\n\nemit n = v.to_int()"}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
    assert run(FILED, rows="password,v\nhunter2,seven\n", text=text) == 2
    assert "conversion failed: cannot convert 'seven' to Int" in "".join(capfd.readouterr())


def test_the_warning_of_a_cut_value_shows_no_secret(run: Ran, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
pipeline: {name: secrets}
error_handling: ERRORS
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {k: string, password: string}}}
  - type: output
    name: o
    input: s
    config:
      type: fixed_width
      path: out/o.dat
      schema:
        fields: [{name: k, type: string, start: 0, width: 1}, {name: password, type: string, start: 1, width: 3}]
"""
    assert run(FILED, rows="k,password\nlong,hunter2\n", text=text) == 0
    told = "".join(capfd.readouterr())
    assert "field 'k': values cut to its 1 byte: 1; the first is 'long' of in.csv, row 1" in told
    assert "field 'password': values cut to its 3 bytes: 1; the first is '***' of in.csv, row 1" in told


@pytest.mark.parametrize("options", ["", "options: {on_unwritable: dlq}"])
def test_a_number_that_is_too_wide_is_told_without_its_digits_where_it_is_a_secret(
    options: str, run: Ran, capfd: pytest.CaptureFixture[str]
) -> None:
    text = f"""
pipeline: {{name: secrets}}
error_handling: ERRORS
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{password: int}}}}}}
  - type: output
    name: o
    input: s
    config:
      type: fixed_width
      path: out/o.dat
      {options}
      schema: {{fields: [{{name: password, type: integer, start: 0, width: 3}}]}}
"""
    assert run(FILED, rows="password\n12345\n", text=text) == (2 if options else 4)
    told = "".join(capfd.readouterr())
    assert "value '***' (5 bytes) exceeds width 3" in told
    assert "12345" not in told


@pytest.mark.parametrize(("kept", "shown"), [(1000, 3), (4, 3), (2, 3), (1000, 1)])
def test_more_reasons_than_there_is_room_for_are_counted(
    kept: int, shown: int, run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "MOST_KEPT", kept)
    monkeypatch.setattr(reasons, "MOST_SHOWN", shown)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "100")
    assert run(FILED, "--work-dir", "work") == 2
    found = record(tmp_path)
    assert len(found.dlq_reasons) == min(kept, shown)
    assert found.dlq_reasons_more > 0
    assert sum(each["count"] for each in found.dlq_reasons) + found.dlq_reasons_more_count == found.dlq_count


@pytest.mark.parametrize("key", ["", "v"])
def test_ids_of_dead_letters_ascend_in_the_file(
    key: str, run: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where tasks write it too, the last part first."""
    pipelines.tune(monkeypatch, driver_dlq_rows=2, dlq_block_rows=3)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "40")
    assert run(FILED, key=key) == 2
    with (tmp_path / "out/dlq.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    ids = [row["_cxl_dlq_id"] for row in rows]
    assert len(ids) == len(set(ids)) > 20
    assert ids == sorted(ids)
    moments = [row["_cxl_dlq_timestamp"] for row in rows]
    assert moments == sorted(moments)
