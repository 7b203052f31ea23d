"""Log rules: a directive that names one has the rule's keys under its own; problems are told where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs.cli import clinker
from spark_jobs.diagnostics.diagnostic import DiagnosticError
from spark_jobs.plan.options import PlanOptions
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: ruled, log_rules: conf/rules.yaml}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {n: int, s: string}}}
  - type: transform
    name: t
    input: s
    config:
      cxl: emit n = n * 10
      log: LOG
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""
RULES = """
rules:
  each: {level: info, when: per_record, every: 2, message: "row {n}", fields: [s], condition: n > 10}
  shout: {level: error}
  nothing: {}
"""
INPUT = "n,s\n1,a\n2,b\n3,c\n4,d\n5,e\n"


def write(folder: Path, log: str, rules: str | None = RULES) -> None:
    files = {"pipeline.yaml": PIPELINE.replace("LOG", log), "in.csv": INPUT}
    pipelines.write(folder, files if rules is None else {**files, "conf/rules.yaml": rules})


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("[{log_rule: each}]", ["INFO row 30 s=c", "INFO row 50 s=e"]),
        ("[{log_rule: each, message: '{s}!', fields: []}]", ["INFO c!", "INFO e!"]),
        ("[{log_rule: each, every: 1, condition: n == 20}]", ["INFO row 20 s=b"]),
        ("[{log_rule: shout, when: after_transform, message: done}]", ["ERROR done"]),
        ("[{log_rule: nothing, level: warn, when: before_transform, message: go}]", ["WARNING go"]),
        (
            "[{log_rule: each, level: warn}, {log_rule: each, every: 4, condition: null}]",
            ["INFO row 10 s=a", "WARNING row 30 s=c", "INFO row 50 s=e", "WARNING row 50 s=e"],
        ),
    ],
)
def test_the_keys_of_a_rule_stand_under_those_of_the_directive(
    log: str, expected: list[str], here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    write(here, log)
    assert clinker.main(["run", "pipeline.yaml", "--quiet", "--threads", "1"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("INFO", "WARNING", "ERROR"))]
    assert sorted(told) == sorted(expected)


@pytest.mark.parametrize(
    ("log", "rules", "place", "message"),
    [
        ("[{log_rule: each}]", None, "pipeline.yaml:1:36", "E000 log rules: cannot read"),
        ("[{log_rule: eahc}]", RULES, "pipeline.yaml:9:24", "E007 `log_rule`: `conf/rules.yaml` has no rule `eahc`"),
        ("[{log_rule: shout, message: x}]", RULES, "pipeline.yaml:9:13", "E006 the key `when` is required here, or in"),
        ("[{when: per_record, message: x}]", RULES, "pipeline.yaml:9:13", "E006 the key `level` is required here"),
        ("[{log_rule: a}]", "rules: {a: {level: loud}}", "rules.yaml:1:20", "E007 log rules: `level`"),
        ("[{log_rule: a}]", "rules: {a: {levle: info}}", "rules.yaml:1:13", "E005 log rules: unknown key `levle`"),
        ("[{log_rule: a}]", "rules: {a: {log_rule: a}}", "rules.yaml:1:13", "E005 log rules: unknown key `log_rule`"),
        ("[{log_rule: a}]", "[a]", "rules.yaml:1:1", "E007 log rules: a file of log rules is a mapping"),
        (
            "[{log_rule: a, level: info, message: m}]",
            "rules: {a: {when: per_record, condition: m > 1}}",
            "rules.yaml:1:42",
            "E200",
        ),
        (
            "[{log_rule: a, level: info, message: m, when: on_error}]",
            "rules: {a: {every: 3}}",
            "rules.yaml:1:20",
            "E011",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_where_it_stands(
    log: str, rules: str | None, place: str, message: str, tmp_path: Path
) -> None:
    write(tmp_path, log, rules)
    with pytest.raises(DiagnosticError) as caught:
        planning.load(tmp_path / "pipeline.yaml", PlanOptions())
    (problem,) = [each for each in caught.value.diagnostics if each.is_error]
    assert f"{problem.code.id} {problem.message}".startswith(message)
    assert str(problem.span).endswith(place)


def test_a_rule_needs_a_file_and_a_file_needs_no_rule(tmp_path: Path) -> None:
    write(tmp_path, "[{log_rule: each}]")
    text = (tmp_path / "pipeline.yaml").read_text()
    (tmp_path / "pipeline.yaml").write_text(text.replace(", log_rules: conf/rules.yaml", ""))
    with pytest.raises(DiagnosticError, match="needs a file of rules"):
        planning.load(tmp_path / "pipeline.yaml", PlanOptions())
    write(tmp_path, "[]", rules="")
    assert planning.load(tmp_path / "pipeline.yaml", PlanOptions()).by_name["t"].step.log == ()
