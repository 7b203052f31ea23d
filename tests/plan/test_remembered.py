"""Valid pipelines are planned once, until something changes that they depend on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.plan import planner, remembered
from spark_jobs.plan.options import PlanOptions

PIPELINE = """
pipeline: {name: orders}
nodes:
  - {type: source, name: orders, config: {type: csv, path: "${IN:-in.csv}", schema: {qty: int}}}
  - {type: transform, name: twice, input: orders, config: {cxl: "use prices\\nemit twice = prices.twice(qty)"}}
  - {type: composition, name: tidy, input: twice, use: tidy.comp.yaml}
  - {type: output, name: all, input: tidy, config: {type: csv, path: all.csv}}
"""
COMPOSITION = """
_compose: {name: tidy, inputs: {rows: {}}, outputs: {rows: kept}}
nodes:
  - {type: transform, name: kept, input: rows, config: {cxl: filter twice > 0}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pipeline, and a cache folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    here = tmp_path / "here"
    (here / "rules").mkdir(parents=True)
    (here / "p.yaml").write_text(PIPELINE)
    (here / "tidy.comp.yaml").write_text(COMPOSITION)
    (here / "rules" / "prices.cxl").write_text("fn twice(n) = n * 2\n")
    return here


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pipelines that were planned, each time."""
    found: list[Path] = []
    plan = planner.plan

    def noted(path: Path, options: PlanOptions) -> Any:
        found.append(path)
        return plan(path, options)

    monkeypatch.setattr(planner, "plan", noted)
    return found


def verdict(folder: Path, **given: Any) -> remembered.Verdict:
    return remembered.verdict(folder / "p.yaml", PlanOptions(**{"variables": {}, **given}))


def test_a_valid_pipeline_is_planned_once(folder: Path, planned: list[Path]) -> None:
    first = verdict(folder)
    assert [str(problem) for problem in first.problems if problem.is_error] == []
    assert first.datasets is not None
    assert first.datasets.outputs[0].uri == (folder / "all.csv").as_uri()
    again = verdict(folder)
    assert (again.datasets, len(planned)) == (first.datasets, 1)


def test_who_wants_no_memory_plans_each_time(folder: Path, planned: list[Path]) -> None:
    for _ in range(2):
        remembered.verdict(folder / "p.yaml", PlanOptions(variables={}), remembers=False)
    assert len(planned) == 2
    assert not (folder.parent / "cache").exists()


CHANGES: dict[str, Any] = {
    "the pipeline": lambda here: (here / "p.yaml").write_text(PIPELINE + "# more\n"),
    "a module": lambda here: (here / "rules" / "prices.cxl").write_text("fn twice(n) = n + n\n"),
    "a composition": lambda here: (here / "tidy.comp.yaml").write_text(COMPOSITION.replace("> 0", "> 1")),
    "a workspace file that was not there": lambda here: (here / "clinker.toml").write_text(""),
    "one further up": lambda here: (here.parent / "clinker.toml").write_text(""),
    "a module that is gone": lambda here: (here / "rules" / "prices.cxl").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_planned_again(change: str, folder: Path, planned: list[Path]) -> None:
    verdict(folder)
    CHANGES[change](folder)
    found = verdict(folder)
    assert len(planned) == 2
    assert any(problem.is_error for problem in found.problems) == ("gone" in change)


@pytest.mark.parametrize(
    "options",
    [
        {"variables": {"IN": "other.csv"}},
        {"base_dir": "/"},
        {"environment": "prod"},
        {"allow_absolute_paths": True},
        {"channel": "acme"},
    ],
)
def test_other_options_are_another_question(options: dict[str, Any], folder: Path, planned: list[Path]) -> None:
    verdict(folder)
    verdict(folder, **options)
    assert len(planned) == 2


def test_variables_that_nobody_mentions_change_nothing(folder: Path, planned: list[Path]) -> None:
    verdict(folder, variables={"TOKEN": "LEAK-1", "IN": "LEAK-2.csv"})
    verdict(folder, variables={"TOKEN": "LEAK-3", "IN": "LEAK-2.csv"})
    assert len(planned) == 1
    (kept,) = (folder.parent / "cache" / "clinker" / "valid").glob("*.json")
    assert "LEAK-1" not in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_errors_are_found_anew_each_time(folder: Path, planned: list[Path]) -> None:
    (folder / "p.yaml").write_text(PIPELINE.replace("twice(qty)", "twice(nothing)"))
    for _ in range(2):
        assert any(problem.is_error for problem in verdict(folder).problems)
    assert len(planned) == 2


def test_what_others_could_have_written_is_not_believed(folder: Path, planned: list[Path]) -> None:
    verdict(folder)
    (kept,) = (folder.parent / "cache" / "clinker" / "valid").glob("*.json")
    kept.chmod(0o666)
    verdict(folder)
    kept.write_text("{")
    verdict(folder)
    assert len(planned) == 3


def test_what_nobody_asks_for_goes(folder: Path) -> None:
    verdict(folder)
    valid = folder.parent / "cache" / "clinker" / "valid"
    old = time.time() - 40 * 86_400
    for each in (valid / "old.json", valid / ".swept"):
        each.touch()
        os.utime(each, (old, old))
    verdict(folder, environment="prod")
    assert not (valid / "old.json").exists()
    assert len([*valid.glob("*.json")]) == 2


# ---- `clinker validate`


@pytest.fixture
def inputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a pipeline without any problem, whose input file is there."""
    monkeypatch.delenv("IN", raising=False)
    monkeypatch.chdir(folder)
    (folder / "in.csv").write_text("qty\n1\n")
    return folder


def validate(*more: str) -> int:
    return clinker.main(["validate", "p.yaml", *more])


def test_a_pipeline_without_problems_is_checked_once(
    inputs: Path, planned: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    codes = [validate(), validate()]
    out, err = capsys.readouterr()
    assert (codes, out, err, len(planned)) == ([0, 0], "p.yaml: valid\n" * 2, "", 1)


CHECKED_AGAIN: dict[str, Any] = {
    **CHANGES,
    "an input file that is gone": lambda here: (here / "in.csv").unlink(),
    "an input file that is a folder": lambda here: ((here / "in.csv").unlink(), (here / "in.csv").mkdir()),
    "an input file of another size": lambda here: (here / "in.csv").write_text("qty\n1\n2\n"),
    "a link that leads out of the base folder": lambda here: (here / "all.csv").symlink_to(here.parent / "else.csv"),
    "two links to one file": lambda here: (here / "all.csv").symlink_to(here / "in.csv"),
}


@pytest.mark.parametrize("change", CHECKED_AGAIN)
def test_what_changes_is_checked_again(
    change: str, inputs: Path, planned: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    validate()
    CHECKED_AGAIN[change](inputs)
    capsys.readouterr()
    found = validate(), *capsys.readouterr()
    assert len(planned) == 2
    shutil.rmtree(inputs.parent / "cache")
    assert found == (validate(), *capsys.readouterr()), "as if nothing had been remembered"


@pytest.mark.parametrize(
    ("variable", "value"), [("IN", "other.csv"), ("CLINKER_ENV", "prod"), ("CLINKER_ALLOW_ABSOLUTE_PATHS", "1")]
)
def test_variables_are_asked_for_again(
    variable: str, value: str, inputs: Path, planned: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert validate() == 0
    monkeypatch.setenv(variable, value)
    assert validate() == (1 if variable == "IN" else 0)
    assert len(planned) == 2


def test_whether_inputs_are_looked_for_is_another_question(inputs: Path, planned: list[Path]) -> None:
    (inputs / "in.csv").unlink()
    assert [validate("--no-inputs"), validate(), validate("--no-inputs")] == [0, 1, 0]
    assert len(planned) == 2


def test_warnings_are_shown_each_time(inputs: Path, planned: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    (inputs / "p.yaml").write_text(f"{PIPELINE}error_handling: {{correlation_key: [qty]}}\n")
    first = validate(), *capsys.readouterr()
    assert "W005" in first[2]
    assert (validate(), *capsys.readouterr()) == first
    assert len(planned) == 2


def test_an_age_of_files_is_counted_anew_each_time(inputs: Path, planned: list[Path]) -> None:
    (inputs / "p.yaml").write_text(PIPELINE.replace("type: csv,", "type: csv, modified_after: 7d,", 1))
    assert [validate("--no-inputs"), validate("--no-inputs")] == [0, 0]
    assert len(planned) == 2


def test_a_file_that_changes_while_it_is_planned_is_not_remembered(
    inputs: Path, planned: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planner.plan

    def changing(path: Path, options: PlanOptions) -> Any:
        found = plan(path, options)
        (inputs / "p.yaml").write_text(PIPELINE.replace("twice(qty)", "twice(nothing)"))
        return found

    monkeypatch.setattr(planner, "plan", changing)
    assert [validate(), validate()] == [0, 1]


def test_what_is_remembered_needs_no_planner(inputs: Path) -> None:
    """The time of a short command is the time of its imports."""
    program = (
        "import sys\nfrom spark_jobs.cli import clinker\n"
        "assert clinker.main(['validate', 'p.yaml']) == 0\n"
        "print(*(name for name in ('pydantic', 'lark', 'yaml', 'numpy', 'pandas', 'pyarrow', 'pyspark',"
        " 'spark_jobs.plan.planner', 'spark_jobs.nodes') if name in sys.modules))"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(Path(planner.__file__).parents[2])}
    loaded = [
        subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()[1]
        for _ in range(2)
    ]
    assert loaded == ["pydantic lark yaml spark_jobs.plan.planner spark_jobs.nodes", ""]
