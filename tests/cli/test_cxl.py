"""The `cxl` command: what it prints where, and with which exit status."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli.cxl import command

if TYPE_CHECKING:
    from pathlib import Path

Captured = pytest.CaptureFixture[str]


def evaluated(capsys: Captured, *argv: str) -> Any:
    assert command.main(["eval", *argv]) == 0
    return json.loads(capsys.readouterr().out)


def test_eval_prints_the_emitted_fields_as_indented_json(capsys: Captured) -> None:
    assert command.main(["eval", "-e", "emit a = 1 + 2", "-e", 'emit b = "two"', "-e", "emit c = #2024-03-15#"]) == 0
    assert capsys.readouterr().out == '{\n  "a": 3,\n  "b": "two",\n  "c": "2024-03-15"\n}\n'


def test_the_books_examples_come_out(capsys: Captured) -> None:
    assert evaluated(capsys, "-e", "let tax = 0.21", "-e", "emit net = price * (1 - tax)", "--field", "price=100") == {
        "net": 79.0
    }
    assert evaluated(capsys, "-e", "emit total = price * qty", "--record", '{"price": 10.5, "qty": 3}') == {
        "total": 31.5
    }
    assert evaluated(capsys, "-e", "emit name = $pipeline.name", "-e", "emit exec = $pipeline.execution_id") == {
        "name": "cxl-eval",
        "exec": "00000000-0000-0000-0000-000000000000",
    }
    assert evaluated(capsys, "-e", "emit r = $pipeline.source_row", "-e", "emit f = $pipeline.source_file") == {
        "r": 1,
        "f": "<inline>",
    }


def test_a_program_may_come_from_a_file_or_standard_input(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.cxl"
    file.write_text("emit a = x * 2\n")
    assert evaluated(capsys, str(file), "--field", "x=2") == {"a": 4}
    monkeypatch.setattr(sys, "stdin", io.StringIO("emit a = x * 3"))
    assert evaluated(capsys, "-", "--field", "x=2") == {"a": 6}


def test_fields_have_the_types_of_their_spelling(capsys: Captured) -> None:
    names = {"i": "42", "p": "+5", "f": "2.5", "e": "1e5", "b": "true", "n": "null", "s": "True", "t": "", "u": "a=b"}
    argv = [part for name, text in names.items() for part in ("--field", f"{name}={text}")]
    program = "\n".join(f"emit {name} = {name}.type_of()" for name in names)
    assert list(evaluated(capsys, "-e", program, *argv).values()) == [
        "Int",
        "Int",
        "Float",
        "Float",
        "Bool",
        "Null",
        "String",
        "String",
        "String",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0" * 25 + "999999999999999999999999", "Decimal"),
        ("0" * 5000 + "7", "Int"),
        ("9" * 5000, "String"),
        ("-9223372036854775808", "Int"),
        ("9223372036854775808", "Decimal"),
        ("+0.10000000000000001", "Decimal"),
        ("0.10", "Float"),
        ("1e400", "String"),
    ],
    ids=lambda text: text[-20:],
)
def test_a_field_that_no_int_or_float_keeps_has_all_its_digits(text: str, expected: str, capsys: Captured) -> None:
    assert evaluated(capsys, "-e", "emit a = x.type_of()", "--field", f"x={text}") == {"a": expected}


@pytest.mark.parametrize(
    "text", ["12345678901234567890", "0.10000000000000001", "1.50", "-7", '"1e400"', '[0.10000000000000001, {"k": 1}]']
)
def test_a_number_of_a_record_keeps_its_digits(text: str, capsys: Captured) -> None:
    assert command.main(["eval", "-e", "emit a = x", "--record", f'{{"x": {text}}}']) == 0
    found = json.loads(capsys.readouterr().out, parse_float=Decimal)
    assert found == {"a": json.loads(text, parse_float=Decimal)}


@pytest.mark.parametrize("number", ["1e400", "1e-400", "1" + "0" * 400, "1" * 5000])
def test_a_number_that_no_decimal_keeps_is_its_text(number: str, capsys: Captured) -> None:
    assert evaluated(capsys, "-e", "emit a = x", "--record", f'{{"x": {number}}}') == {"a": number}


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        ("string", "0.10", "0.10"),
        ("int", "9007199254740993.0", 9007199254740993),
        ("int", "3.0000000000000001", None),
        ("float", "0.10000000000000001", 0.1),
        ("numeric", "12345678901234567890", 1.2345678901234567e19),
        ("bool", "12345678901234567890", None),
    ],
)
def test_a_declared_column_takes_a_long_number_as_a_source_does(
    kind: str, number: str, expected: Any, capsys: Captured
) -> None:
    argv = ["-e", "emit a = x", "--schema", f'{{"x": "{kind}"}}', "--record", f'{{"x": {number}}}']
    if expected is None:
        assert command.main(["eval", *argv]) == 1
        assert f"cannot convert '{number}'" in capsys.readouterr().err
    else:
        assert evaluated(capsys, *argv) == {"a": expected}


def test_a_schema_gives_types_and_converts(capsys: Captured) -> None:
    schema = (
        '{"d": "date", "t": "nullable(date_time)", "x": {"nullable": "float"}, "xs": ["string"], "m": {"a": "int"}}'
    )
    record = '{"d": "2024-01-31", "t": "2024-01-31T10:00:00", "x": 3, "xs": ["a"], "m": {"a": 1}}'
    program = "emit d = d.add_days(1)\nemit t = t.hour()\nemit x = x\nemit xs = xs[0].upper()\nemit m = m.a + 1"
    assert evaluated(capsys, "-e", program, "--schema", schema, "--record", record) == {
        "d": "2024-02-01",
        "t": 10,
        "x": 3.0,
        "xs": "A",
        "m": 2,
    }
    assert evaluated(capsys, "-e", "emit a = q", "--schema", '[{"name": "q", "type": "int"}]') == {"a": None}


@pytest.mark.parametrize("digits", ["12345678901234567890.12", "123456789012345678901234567890", "-0.10", "1e2"])
def test_numbers_for_decimals_keep_all_digits_that_are_written(digits: str, capsys: Captured) -> None:
    wanted = {"12345678901234567890.12": "12345678901234567890.12", "-0.10": "-0.10", "1e2": "100.00",
              "123456789012345678901234567890": "123456789012345678901234567890.00"}[digits]  # fmt: skip
    schema = ("-e", "emit a = q.to_string()", "--schema", '{"q": "decimal(38,2)"}')
    assert evaluated(capsys, *schema, "--record", f'{{"q": {digits}}}') == {"a": wanted}
    assert evaluated(capsys, *schema, "--field", f"q={digits}") == {"a": wanted}
    schema = (*schema[:-1], '{"q": "nullable(numeric(38, 2))"}')
    assert evaluated(capsys, *schema, "--field", f"q={digits}") == {"a": wanted}


def test_fan_out_prints_an_array_and_a_filtered_record_nothing(capsys: Captured) -> None:
    assert evaluated(capsys, "-e", "emit each v in xs { emit a = v }", "--record", '{"xs": [1, 2]}') == [
        {"a": 1},
        {"a": 2},
    ]
    assert command.main(["eval", "-e", "filter x > 1", "--field", "x=1"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "{}\n"
    assert printed.err.endswith("note: record filtered by predicate\n")


def test_both_engines_say_the_same_as_one_json_object(capsys: Captured) -> None:
    for engine in ("interpreter", "arrow"):
        argv = ["eval", "--json", "--engine", engine, "--record", '{"n": 4, "xs": [1, 2]}', "-e"]
        assert command.main([*argv, "emit each v in xs { emit a = v * n }"]) == 0
        assert json.loads(capsys.readouterr().out) == {"status": "ok", "records": [{"a": 4}, {"a": 8}]}
        assert command.main([*argv, "emit a = n / 0"]) == 1
        assert json.loads(capsys.readouterr().out) == {
            "status": "failed",
            "category": "type_coercion_failure",
            "message": "row 1: field 'a': division by zero",
        }
        assert command.main([*argv, "emit a = 1\nemit b = amoutn"]) == 1
        answer = json.loads(capsys.readouterr().out)
        assert answer["status"] == "rejected"
        assert answer["diagnostics"] == [{"code": "E200", "message": "unknown field 'amoutn'", "line": 2, "column": 10}]


@pytest.mark.parametrize(
    ("argv", "status", "error"),
    [
        (["eval", "-e", "emit a = 1 / 0"], 1, "error[eval]: row 1: field 'a': division by zero"),
        (["eval", "-e", "emit a = )"], 1, "error[parse]: expected expression, found ')' (at <inline>:1)"),
        (["eval", "-e", "emit a = amoutn", "--field", "amount=1"], 1, "  help: did you mean 'amount'?"),
        (["eval", "-e", 'emit a = "a" + 1'], 1, "error[typecheck]: cannot apply '+' to String and Int (at <inline>:1)"),
        (["eval", "nowhere.cxl"], 2, "error: cannot read 'nowhere.cxl': No such file or directory"),
        (["eval"], 1, "cxl eval: error: nothing to evaluate"),
        (["eval", "-e", "emit a = 1", "--record", "[1]"], 2, "error: --record must be a JSON object"),
        (["eval", "-e", "emit a = 1", "--record", "{"], 2, "error: invalid JSON record"),
        (["eval", "-e", "emit a = 1", "--field", "x"], 2, "error: --field must be name=value, got 'x'"),
        (["eval", "-e", "emit a = 1", "--schema", '{"x": "integr"}'], 2, "unknown type \"integr\" of column 'x'"),
        (
            ["eval", "-e", "emit a = x", "--schema", '{"x": "int"}', "--record", '{"x": "q"}'],
            1,
            "cannot convert 'q' to Int",
        ),
        (["eval", "-e", "emit a = 1", "nofile.cxl"], 1, "error: two programs: give the FILE 'nofile.cxl' or -e CXL"),
        (["eval", "-e", "emit a = 1", "--schema", '["a"]'], 2, 'error: --schema as a list has objects like {"name"'),
        (["eval", "-e", "emit a = 1", "--schema", '[{"name": ["x"]}]'], 2, 'got {"name": ["x"]}'),
        (["eval", "-e", "emit a = 1", "--schema", '[{"name": "x", "type": ["a", 1]}]'], 2, "unknown type"),
        ([], 1, "usage: cxl"),
        (["nope"], 1, "invalid choice"),
        (["check"], 1, "usage: cxl check"),
        (["eval", "--nope"], 1, "unrecognized arguments: --nope"),
        (["eval", "-e", "emit a = 1", "--engine", "spark"], 1, "invalid choice: 'spark'"),
        (["eval", "-e", "emit a = x", "--record", "{}", "--field", "x=1"], 1, "not allowed with argument"),
        (["fmt"], 1, "usage: cxl fmt"),
        (["check", "nowhere.cxl"], 2, "error: cannot read"),
    ],
)
def test_errors_go_to_standard_error_with_an_exit_status(
    argv: list[str], status: int, error: str, capsys: Captured
) -> None:
    assert command.main(argv) == status
    printed = capsys.readouterr()
    assert error in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("argv", [["--help"], ["eval", "--help"], ["--version"]])
def test_help_and_version_are_no_errors(argv: list[str], capsys: Captured) -> None:
    assert command.main(argv) == 0
    assert "cxl" in capsys.readouterr().out


def test_check_takes_unknown_names_for_fields(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "good.cxl"
    file.write_text("filter amount > 0\nemit a = items[0].price + other\nemit b = items.map(it => it * rate)\n")
    assert command.main(["check", str(file)]) == 0
    assert capsys.readouterr().out == f"ok: {file} is valid\n"


def test_check_reports_every_mistake_with_its_line(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "bad.cxl"
    file.write_text('emit a = "x" + 1\nemit b = name.strip()\nlet unused = 1\nemit c = x == null\n')
    assert command.main(["check", str(file)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error[typecheck]: cannot apply '+' to String and Int (at {file}:1)",
        "  help: convert one operand — use .to_int() or .to_string()",
        f"error[resolve]: unknown method 'strip' (at {file}:2)",
        "  help: write `.trim()`",
        f"warning[typecheck]: `unused` is never read (at {file}:3)",
        "  help: remove the `let`, or begin its name with `_`",
        f"warning[typecheck]: comparison with null is always null: `==` never finds it (at {file}:4)",
        "  help: test for null with `.is_null()`",
    ]


def test_check_knows_schemas_aggregates_and_modules(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "p.cxl"
    file.write_text("emit a = amoutn\n")
    assert command.main(["check", str(file), "--schema", '{"amount": "int"}']) == 1
    assert "did you mean 'amount'?" in capsys.readouterr().err
    file.write_text("emit total = sum(amount) / count(*)\nemit r = region\n")
    assert command.main(["check", str(file), "--group-by", "region"]) == 0
    (tmp_path / "m.cxl").write_text("let rate = 2")
    file.write_text("use m\nemit a = m::rate\n")
    assert command.main(["check", str(file), "--rules-path", str(tmp_path)]) == 0


def test_fmt_prints_checks_diffs_and_writes(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "p.cxl"
    file.write_text("emit   a=1 # one\n")
    assert command.main(["fmt", str(file)]) == 0
    assert capsys.readouterr().out == "emit a = 1  # one\n"
    assert command.main(["fmt", "--check", str(file)]) == 1
    assert capsys.readouterr().out == f"{file}\n"
    assert command.main(["fmt", "--diff", str(file)]) == 1
    assert "-emit   a=1 # one\n+emit a = 1  # one\n" in capsys.readouterr().out
    assert command.main(["fmt", "--write", str(file)]) == 0
    assert file.read_text() == "emit a = 1  # one\n"
    assert command.main(["fmt", "--check", str(file)]) == 0
    file.write_text("emit a = (\n")
    assert command.main(["fmt", "--write", str(file)]) == 1
    assert "error[parse]" in capsys.readouterr().err
    assert file.read_text() == "emit a = (\n"


def repl(lines: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, *argv: str) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    assert command.main(["repl", *argv]) == 0
    return capsys.readouterr().out.splitlines()[1:]


def test_repl_evaluates_keeps_lets_and_goes_on_with_unfinished_lines(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "let a = n + 1\na * 2\nmatch a {\n 2 => 1,\n _ => 0 }\n:type a\nfoo\nemit z = a\n:quit\nnever\n"
    assert repl(lines, capsys, monkeypatch, "--record", '{"n": 1}', "--schema", '{"n": "int"}') == [
        "4",
        "1",
        "Nullable(Int)",
        "error[resolve]: unknown field 'foo'",
        "{",
        '  "z": 2',
        "}",
    ]


def test_repl_loads_records_and_survives_mistakes(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "r.json"
    file.write_text('{"n": 7}')
    lines = f":load {file}\nn / 0\nn + 1\n:record {{}}\n:load nowhere\n:nope\n1 +\n\n:help\n"
    printed = repl(lines, capsys, monkeypatch)
    assert printed[:3] == ["record: n", "error[eval]: division by zero", "8"]
    assert printed[3].startswith("error: cannot read 'nowhere'")
    assert printed[4] == "unknown command :nope; :help shows the commands"
    assert printed[5].startswith("error[parse]: expected expression")


@pytest.mark.slow
def test_the_command_starts_without_arrow_or_yaml() -> None:
    program = (
        "import sys; from spark_jobs.cli.cxl import command; status = command.main(['eval', '-e', 'emit a = 1']);"
        "assert not {'pyarrow', 'numpy', 'yaml', 'pydantic', 'pyspark'} & set(sys.modules); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{\n  "a": 1\n}\n', "")


def test_a_window_function_has_no_value_for_one_record_alone(capsys: Captured) -> None:
    assert command.main(["eval", "-e", "emit n = $window.sum(amount)", "--field", "amount=1"]) == 1
    told = capsys.readouterr().err
    assert "a window function ranges over several records, and here is one alone" in told
    assert "put the program into a transform with `analytic_window:`" in told


def test_eval_tells_the_warnings_that_validate_tells(capsys: Captured) -> None:
    record = '{"qty": 3, "price": 2, "name": "x"}'
    for program, words in (
        ("emit a = qty\nprice", "does nothing"),
        ("emit a = qty (price)", "does nothing"),
        ("let k = qty", "never read"),
        ("emit a = name[0]", "indexing String is always null"),
        ("emit a = qty[0]", "indexing Int is always null"),
    ):
        assert command.main(["eval", "-e", program, "--record", record]) == 0
        captured = capsys.readouterr()
        assert "warning[typecheck]" in captured.err
        assert words in captured.err
        json.loads(captured.out)


def test_two_values_in_a_row_are_no_program(capsys: Captured) -> None:
    for program in ("emit a = qty price", "emit a = 'it''s'"):
        assert command.main(["eval", "-e", program, "--record", '{"qty": 3, "price": 2}']) == 1
        assert "follows a complete value" in capsys.readouterr().err


def test_an_index_that_finds_an_element_is_not_warned_of(capsys: Captured) -> None:
    assert command.main(["eval", "-e", "emit a = xs[0]", "--record", '{"xs": [7], "n": null}']) == 0
    assert capsys.readouterr().err == ""
