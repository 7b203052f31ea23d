"""Command lines that people mistype: what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker

if TYPE_CHECKING:
    from pathlib import Path

_CASES = [
    (["vlaidate", "p.yaml"], "did you mean `validate`?"),
    (["version"], "did you mean `--version`?"),
    (["cxl", "eval"], "; `cxl` is a command of its own"),
    (["preview", "p.yaml", "n", "--recods", "5"], "; did you mean `--records`?"),
    (["run", "p.yaml", "--dryrun"], "error: unrecognized arguments: --dryrun; did you mean `--dry-run`?"),
    (["run", "p.yaml", "--thread=2"], "error: unrecognized arguments: --thread=2; did you mean `--threads`?"),
    (["dlq", "shwo", "d.csv"], "did you mean `show`?"),
    (["run", "p.yaml", "--log-level", "debgu"], "did you mean `debug`?"),
    (["explain", "E2OO"], "clinker explain error: unknown diagnostic code 'E2OO'"),
    (
        ["explain", "E201x"],
        "clinker explain error: unknown diagnostic code 'E201x'; did you mean `E201`? Valid codes: ",
    ),
    (["explain", "e201.yaml"], "no such file"),
    (["explain", "E999"], "clinker explain error: unknown diagnostic code 'E999'; did you mean `E"),
    (["help", "rond_to"], "clinker help error: 'rond_to' is no topic; did you mean `round_to`?"),
    (["help", "dlq", "banana"], "clinker help error: 'dlq banana' is no topic; `clinker help` lists commands, "),
    (["explain"], "clinker explain error: say a code or a pipeline (usage: clinker explain CODE"),
    (["validate", "p.yaml", "--var", "region"], "expected KEY=VALUE, found 'region'"),
]


@pytest.mark.parametrize(("arguments", "said"), _CASES, ids=str)
def test_what_is_meant_is_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(arguments) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["preview", "p.yaml", "--node", "x"], ["doctor", "--nope"]], ids=str)
def test_flags_of_other_commands_are_not_proposed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(arguments) == 1
    assert "did you mean" not in capsys.readouterr().err


def test_a_folder_that_is_a_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("")
    assert clinker.main(["init", str(tmp_path / "a")]) == 4
    assert capsys.readouterr().err == f"clinker init error: {tmp_path / 'a'} is a file; name a folder\n"


def test_a_code_needs_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["explain", "--code", "E200"]) == 0
    page = capsys.readouterr().out
    assert clinker.main(["explain", "e200"]) == 0
    assert capsys.readouterr().out == page
    assert "E200" in page
    assert clinker.main(["explain", "e150B"]) == 0
    assert capsys.readouterr().out.startswith("# E150b")


def test_a_pipeline_needs_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = "examples/orders/pipeline.yaml"
    assert clinker.main(["explain", pipeline, "--format", "text"]) == 0
    plan = capsys.readouterr().out
    assert clinker.main(["explain", pipeline]) == 0
    assert capsys.readouterr().out == plan


@pytest.mark.parametrize(
    ("topic", "begin"),
    [
        (["run"], "usage: clinker run "),
        (["dlq", "replay"], "usage: clinker dlq replay "),
        (["e200"], "# E200: "),
        (["round_to"], "Numeric.round_to(decimals) -> Float\n\nThe number rounded half away from zero"),
        (["row_number"], "row_number: window function\n\n"),
    ],
    ids=str,
)
def test_help_explains_commands_codes_and_functions(
    topic: list[str], begin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinker.main(["help", *topic]) == 0
    assert capsys.readouterr().out.startswith(begin)


def test_help_alone_lists_commands_and_topics(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["help"]) == 0
    shown = capsys.readouterr().out
    assert "    run       run a pipeline\n" in shown
    assert "  clinker help FUNCTION " in shown
    assert "  clinker help SUBJECT    a subject: correlation, decimals, formats, rules, stores, variables\n" in shown


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        ("rules", "`freshness: { column, max_age }`\n    holds if: the latest day or moment is at most this old"),
        ("decimals", "A Decimal has up to 38 digits"),
        ("Formats", "\nparquet (Parquet)\n    Columns in row groups."),
        ("stores", "`s3://bucket/key`\n    an object"),
        ("correlation", "- No key, no group. A record whose key is null"),
        ("variables", "`$vars.<name>`"),
    ],
)
def test_help_shows_a_subject_as_plain_text(subject: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["help", subject]) == 0
    shown = capsys.readouterr().out
    assert says in shown
    assert not any(mark in shown for mark in ("](", "\n|", "```", "spark_jobs/"))


def test_a_subject_with_a_slip_has_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["help", "decimal"]) == 1
    assert "did you mean `decimals`?" in capsys.readouterr().err
