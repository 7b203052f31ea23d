"""The command line's frame: arguments, exit codes, streams, and the commands that need no Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan as planning
from spark_jobs import result
from spark_jobs.cli import clinker, run
from spark_jobs.disk import volumes
from spark_jobs.execute.run import progress
from spark_jobs.plan import planner
from spark_jobs.plan.options import RunOptions
from tests.execute import without_spark

if TYPE_CHECKING:
    from spark_jobs.cli.report import Reporter
    from spark_jobs.plan.plan import Plan

    Captured = pytest.CaptureFixture[str]

GOOD = """
pipeline: { name: shop }
nodes:
  - { type: source, name: orders, config: { type: csv, path: orders.csv, schema: { id: int, amount: float } } }
  - { type: transform, name: t, input: orders, config: { cxl: emit twice = amount * 2.0 } }
  - { type: output, name: out, input: t, config: { type: csv, path: out.csv } }
"""
BAD = GOOD.replace("amount *", "amuont *")
PENDING = GOOD.replace("path: out.csv", "path: out.csv.zip")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLINKER_ENV", raising=False)
    for name, text in {"good.yaml": GOOD, "bad.yaml": BAD, "pending.yaml": PENDING}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "orders.csv").write_text("id,amount\n1,2.5\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, RunOptions]]:
    """What would have been executed."""
    calls: list[tuple[Plan, RunOptions]] = []

    def execute(plan: Plan, options: RunOptions, reporter: Reporter) -> int:
        calls.append((plan, options))
        return 2

    monkeypatch.setattr(run, "execute", execute)
    return calls


def test_run_plans_and_gives_the_exit_code_of_execution(here: Path, executed: list[tuple[Plan, RunOptions]]) -> None:
    assert clinker.main(["run", "good.yaml"]) == 2
    ((plan, options),) = executed
    assert plan.name == "shop"
    assert (options.error_threshold, options.force, options.preview) == (None, False, None)


def test_every_option_of_run_reaches_execution(here: Path, executed: list[tuple[Plan, RunOptions]]) -> None:
    words = (
        "run good.yaml --memory-limit 64M --threads 3 --error-threshold 7 --batch-id b --execution-id e --work-dir w "
        "-n 5 --dry-run-output p.csv --force --quiet --log-level debug --log-format json --metrics-spool-dir m "
        "--remote sc://h:1 --master local[1] --conf a=b --base-dir . --rules-path r --env prod --allow-absolute-paths"
    )
    assert clinker.main(words.split()) == 2
    ((_, options),) = executed
    assert options == RunOptions(
        base_dir=Path(),
        allow_absolute_paths=True,
        rules_path=Path("r"),
        environment="prod",
        memory_limit_bytes=64 << 20,
        threads=3,
        error_threshold=7,
        batch_id="b",
        execution_id="e",
        work_dir=Path("w"),
        dry_run=True,
        preview=5,
        dry_run_output=Path("p.csv"),
        force=True,
        quiet=True,
        log_level="debug",
        log_format="json",
        metrics_spool_dir="m",
        remote="sc://h:1",
        master="local[1]",
        spark_conf={"a": "b"},
    )


@pytest.mark.parametrize("text", ["67108864", "64M", "64MiB", "64 mb", "65536k", "0.0625G"])
def test_memory_is_written_as_in_a_pipeline(text: str, here: Path, executed: list[tuple[Plan, RunOptions]]) -> None:
    (here / "p.yaml").write_text(GOOD.replace("name: shop", f"name: shop, memory: {{ limit: {text} }}"))
    assert clinker.main(["run", "good.yaml", "--memory-limit", text]) == 2
    assert clinker.main(["run", "p.yaml"]) == 2
    assert executed[0][1].memory_limit_bytes == executed[1][0].memory_limit_bytes == 64 << 20


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["walk"],
        ["run"],
        ["run", "good.yaml", "--nope"],
        ["run", "good.yaml", "--threads", "many"],
        ["run", "good.yaml", "--threads", "0"],
        ["run", "good.yaml", "-n", "-1"],
        ["run", "good.yaml", "--memory-limit", "lots"],
        ["run", "good.yaml", "--memory-limit", ""],
        ["run", "good.yaml", "--memory-limit", "1e9"],
        ["run", "good.yaml", "--memory-limit", "99999999999999999999G"],
        ["run", "good.yaml", "--explain", "pdf"],
        ["run", "good.yaml", "--conf", "a"],
        ["metrics"],
        ["metrics", "collect", "--spool-dir", "x"],
        ["explain", "--field", "a.b"],
        ["explain", "--code", "E999"],
        ["run", "gone.yaml"],
        ["run", "bad.yaml"],
        ["run", "bad.yaml", "--dry-run"],
        ["run", "bad.yaml", "--explain"],
        ["run", "pending.yaml"],
        ["validate", "good.yaml", "bad.yaml"],
        ["lineage", "bad.yaml"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_exit_1_and_says_so(
    argv: list[str], here: Path, executed: list[tuple[Plan, RunOptions]], capsys: Captured
) -> None:
    assert clinker.main(argv) == 1
    assert capsys.readouterr().err
    assert executed == []


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["run", "good.yaml", "--dry-run"],
        ["run", "good.yaml", "--explain", "json"],
        ["run", "--explain", "good.yaml"],
        ["run", "pending.yaml", "--dry-run"],
        ["run", "pending.yaml", "--explain"],
        ["validate", "good.yaml", "pending.yaml"],
        ["explain", "good.yaml", "--format", "dot"],
        ["explain", "good.yaml", "--field", "out.twice"],
        ["explain", "--code", "E004"],
        ["lineage", "good.yaml", "--format", "json"],
        ["schema"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_what_is_right_is_exit_0_on_standard_output(
    argv: list[str], here: Path, executed: list[tuple[Plan, RunOptions]], capsys: Captured
) -> None:
    assert clinker.main(argv) == 0
    assert capsys.readouterr().out
    assert executed == []
    assert not (here / "out.csv").exists()


def test_a_dry_run_asks_for_inputs_and_a_run_leaves_that_to_execution(
    here: Path, executed: list[tuple[Plan, RunOptions]], capsys: Captured
) -> None:
    (here / "orders.csv").unlink()
    assert clinker.main(["run", "good.yaml", "--dry-run"]) == 1
    assert "good.yaml:4:" in capsys.readouterr().err
    assert clinker.main(["validate", "good.yaml", "--no-inputs"]) == 0
    assert clinker.main(["run", "good.yaml"]) == 2


def test_machines_get_reports(here: Path, capsys: Captured) -> None:
    assert clinker.main(["validate", "bad.yaml", "--diagnostics", "json"]) == 1
    (item,) = json.loads(capsys.readouterr().err)["diagnostics"]
    assert (item["code"], item["line"]) == ("E200", 5)
    assert clinker.main(["validate", "good.yaml", "--diagnostics", "sarif"]) == 0
    assert json.loads(capsys.readouterr().err)["version"] == "2.1.0"


def test_init_makes_a_pipeline_that_is_valid(here: Path, capsys: Captured) -> None:
    assert clinker.main(["init", "shop"]) == 0
    assert clinker.main(["validate", "shop/pipeline.yaml"]) == 0
    assert clinker.main(["init", "shop"]) == 1
    assert clinker.main(["init", "shop", "--force"]) == 0


def metrics(folder: Path, name: str, **values: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"schema_version": 1, "execution_id": name, **values}))


def test_collecting_appends_and_deletes_what_it_understands(here: Path, capsys: Captured) -> None:
    spool, archive = here / "spool", here / "deep" / "all.ndjson"
    metrics(spool, "b", pipeline_name="second")
    metrics(spool, "a", pipeline_name="first")
    metrics(spool, "old", schema_version=0)
    (spool / "half.json").write_text("{")
    (spool / "notes.txt").write_text("x")
    argv = ["metrics", "collect", "--spool-dir", str(spool), "--output-file", str(archive)]
    assert clinker.main([*argv, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("Would collect 2 file(s)")
    assert "(first)" in shown.out
    assert "half.json is skipped" in shown.err
    assert not archive.exists()
    assert clinker.main([*argv, "--delete-after-collect"]) == 0
    assert [json.loads(line)["execution_id"] for line in archive.read_text().splitlines()] == ["a", "b"]
    assert sorted(path.name for path in spool.iterdir()) == ["half.json", "notes.txt", "old.json"]
    assert clinker.main([*argv, "--delete-after-collect"]) == 0
    assert len(archive.read_text().splitlines()) == 2


def test_collecting_never_glues_metrics_onto_a_torn_line(here: Path) -> None:
    metrics(here / "spool", "a")
    (here / "all.ndjson").write_text('{"execution_id":"torn')
    argv = ["metrics", "collect", "--spool-dir", "spool", "--output-file", "all.ndjson", "--delete-after-collect"]
    assert clinker.main(argv) == 0
    assert json.loads((here / "all.ndjson").read_text().splitlines()[1])["execution_id"] == "a"


def test_a_spool_folder_that_is_missing_is_exit_1(here: Path, capsys: Captured) -> None:
    assert clinker.main(["metrics", "collect", "--spool-dir", "gone", "--output-file", "a"]) == 1
    assert "gone" in capsys.readouterr().err


def test_completion_scripts_are_valid_shell(here: Path, capsys: Captured) -> None:
    assert clinker.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    subprocess.run(["bash", "-n"], input=script.encode(), check=True)
    assert "--dry-run-output" in script
    assert "collect" in script


def test_completion_for_fish_has_a_line_for_each_option(here: Path, capsys: Captured) -> None:
    assert clinker.main(["completion", "fish"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("complete -c clinker ") for line in lines)
    assert (
        "complete -c clinker -n __fish_use_subcommand -f -a validate -d 'check pipelines without reading data'" in lines
    )
    base = "complete -c clinker -n '__fish_seen_subcommand_from replay' -l base-dir -d "
    assert base + "'base of relative paths; default: the pipeline\\'s folder'" in lines
    levels = "-l log-level -x -a 'error warn info debug trace' -d 'how much is logged (default: info)'"
    assert f"complete -c clinker -n '__fish_seen_subcommand_from run' {levels}" in lines


WARNED = GOOD.replace("emit twice = amount * 2.0", "filter amount != null")


@pytest.mark.parametrize("options", [["--dry-run"], [], ["-n", "1"]], ids=" ".join)
@pytest.mark.parametrize("is_there", [True, False])
def test_run_tells_programs_everything_in_one_document(
    options: list[str],
    is_there: bool,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setattr(progress, "_FIRST_LINE_S", 0.0)
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.001)
    (here / "warned.yaml").write_text(WARNED)
    if not is_there:
        (here / "orders.csv").unlink()
    status = clinker.main(["run", "warned.yaml", *options, "--diagnostics", "json"])
    assert status == (0 if is_there else 1 if options else 4)  # a preview is a dry run
    report = json.loads(capsys.readouterr().err)
    assert [item["code"] for item in report["diagnostics"]] == ["W200"] + ([] if is_there else ["E216"])
    assert all(item["file"] == "warned.yaml" for item in report["diagnostics"])


def test_what_nobody_complains_about_is_an_empty_document(here: Path, capsys: Captured) -> None:
    for command in (
        ["run", "good.yaml", "--dry-run"],
        ["explain", "good.yaml", "--format", "text"],
        ["lineage", "good.yaml"],
    ):
        assert clinker.main([*command, "--diagnostics", "json"]) == 0
        assert json.loads(capsys.readouterr().err)["diagnostics"] == []


def test_an_interrupt_is_in_the_document(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(planning, "load", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert clinker.main(["run", "good.yaml", "--diagnostics", "sarif"]) == 130
    (found,) = json.loads(capsys.readouterr().err)["runs"][0]["results"]
    assert found["ruleId"] == "interrupted"


@pytest.mark.parametrize(
    "argv", [["validate", "good.yaml"], ["explain", "good.yaml", "--format", "text"]], ids=" ".join
)
def test_sigterm_is_exit_130_in_every_command(argv: list[str], here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((planning, "load"), (planner, "plan")):
        monkeypatch.setattr(module, name, lambda *_: signal.raise_signal(signal.SIGTERM))
    assert clinker.main(argv) == 130


@pytest.mark.parametrize(
    ("file", "code", "place"),
    [("bad.yaml", "E200", "bad.yaml:5:76"), ("pending.yaml", "E400", "pending.yaml:6:"), ("none.yaml", "E000", "")],
)
def test_a_run_that_ends_at_planning_leaves_its_record(
    file: str, code: str, place: str, here: Path, capsys: Captured
) -> None:
    assert clinker.main(["run", file, "--work-dir", "work", "--execution-id", "x1"]) == 1
    record = result.read(Path("work"), "x1")
    assert record is not None
    assert (record.exit_code, record.pipeline_name, record.output_files) == (1, Path(file).stem, ())
    assert record.error is not None
    assert record.error.code == code
    assert (record.error.span or "").startswith(place)
    assert [result.parse_line(line) for line in capsys.readouterr().out.splitlines()] == [record]


def test_a_run_that_is_interrupted_before_it_began_leaves_its_record(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "load", lambda *_: signal.raise_signal(signal.SIGTERM))
    assert clinker.main(["run", "good.yaml", "--work-dir", "work", "--execution-id", "x1"]) == 130
    record = result.read(Path("work"), "x1")
    assert record is not None
    assert record.exit_code == 130


@pytest.mark.parametrize("name", ["", "..", "a/b", "é" * 101, "a" * 201, "a\nb"])
def test_an_execution_id_has_to_name_a_file(
    name: str, here: Path, executed: list[tuple[Plan, RunOptions]], capsys: Captured
) -> None:
    assert clinker.main(["run", "good.yaml", "--execution-id", name]) == 1
    assert "200 bytes" in capsys.readouterr().err
    assert clinker.main(["run", "good.yaml", "--execution-id", "é" * 100]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "argv", "status"),
    [
        ("spark_jobs.cli.clinker", ["validate", "good.yaml"], 4),
        ("spark_jobs.cli.clinker", ["explain", "--code", "E101"], 4),
        ("spark_jobs.cli.cxl.command", ["eval", "-e", "emit a = 1"], 2),
    ],
)
def test_a_full_standard_output_is_told_in_one_line(module: str, argv: list[str], status: int, here: Path) -> None:
    program = f"import sys, {module} as command; sys.exit(command.main({argv!r}))"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == status
    name = module.split(".")[2]
    assert ended.stderr == f"{name} error: standard output: No space left on device\n"


def test_an_interrupt_is_exit_130(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "execute", interrupted)
    assert clinker.main(["run", "good.yaml"]) == 130


PLANNING = ["pydantic", "yaml", "lark"]
LIGHT = """
import sys
{statement}
heavy = {{"pyarrow", "numpy", "pandas", "pyspark", "airflow"}} | set({also!r})
print(sorted(heavy & set(sys.modules)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "also"),
    [
        (
            "from spark_jobs.plan import planner; from spark_jobs.nodes import registry; registry.node_types()",
            [],
        ),
        ("from spark_jobs.cli import clinker; clinker.main(['--help'])", PLANNING),
    ],
)
def test_starting_up_loads_little(statement: str, also: list[str]) -> None:
    command = [sys.executable, "-c", LIGHT.format(statement=statement, also=also)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


def test_a_spill_folder_that_is_missing_stops_the_run_before_any_work(
    here: Path, executed: list[tuple[Plan, RunOptions]], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "kind", lambda _: volumes.Kind.OTHER)  # wherever the tests have their files
    (here / "clinker.toml").write_text('[storage.spill]\ndir = "scratch"\n')
    assert clinker.main(["run", "good.yaml", "--explain"]) == 0
    assert "[storage.spill.dir]" in capsys.readouterr().out
    assert clinker.main(["run", "good.yaml"]) == 1
    assert "clinker.toml:2:1" in capsys.readouterr().err
    assert executed == []
    (here / "scratch").mkdir()
    assert clinker.main(["run", "good.yaml"]) == 2
