"""What happens when Airflow parses a DAG file with Clinker operators, with the real planner."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ORDERS = REPOSITORY / "examples" / "orders" / "pipeline.yaml"

DAG_FILE = """
from airflow.providers.common.compat.sdk import dag
from clinker_provider.operators.spark import ClinkerSparkOperator

@dag(dag_id="parsed", schedule=None)
def parsed():
    ClinkerSparkOperator(task_id="run", {arguments})

parsed()
"""


def parse(folder: Path, arguments: str) -> Any:
    """The DagBag of a DAG file that stands beside `p.yaml`."""
    from tests.provider.airflow_of import DagBag

    (folder / "dag_file.py").write_text(DAG_FILE.format(arguments=arguments))
    return DagBag(dag_folder=str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A DAG folder with the orders pipeline as `p.yaml`."""
    shutil.copy(ORDERS, tmp_path / "p.yaml")
    return tmp_path


def break_pipeline(folder: Path, before: str = "unit_price\n", after: str = "unit_prize\n") -> None:
    path = folder / "p.yaml"
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


def test_valid_pipeline_beside_the_dag_file_is_parsed(folder: Path) -> None:
    bag = parse(folder, 'pipeline="p.yaml"')
    assert bag.import_errors == {}
    assert list(bag.dags) == ["parsed"]


def test_broken_pipeline_is_an_import_error_with_place_and_code(folder: Path) -> None:
    break_pipeline(folder)
    bag = parse(folder, 'pipeline="p.yaml"')
    ((_, text),) = bag.import_errors.items()
    line = next(
        number for number, line in enumerate((folder / "p.yaml").read_text().splitlines(), 1) if "prize" in line
    )
    column = (folder / "p.yaml").read_text().splitlines()[line - 1].index("unit_prize") + 1
    assert re.search(rf"^.*p\.yaml:{line}:{column} E\d+ .*unit_prize", text, re.MULTILINE)
    # With the line itself and a caret below it, for those who read it in the browser.
    assert "let gross = quantity * unit_prize" in text
    assert "^" in text.split("let gross = quantity * unit_prize")[1]
    assert not bag.dags


def test_an_import_error_names_the_task_of_fifty(folder: Path) -> None:
    break_pipeline(folder)
    for arguments in ('pipeline="p.yaml"', 'pipeline="p.yaml", run_args=["--frobnicate"], env_vars={"A": "{{ ds }}"}'):
        ((_, text),) = parse(folder, arguments).import_errors.items()
        assert f"{folder}/dag_file.py: DAG 'parsed', task 'run', pipeline 'p.yaml':\n" in text


TEMPLATED = """
pipeline: { name: shop }
nodes:
  - type: source
    name: orders
    config: { type: csv, path: "${IN}/orders.csv", schema: { id: int, amount: float, region: string } }
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        filter region == "${REGION}"
        emit net = amount / 1.2
  - { type: output, name: out, input: priced, config: { type: csv, path: "out/{channel:_:}net.csv" } }
"""
TEMPLATES = [
    """env_vars={"IN": "/data/{{ ds }}", "REGION": "{{ params.region }}"}""",
    """env_vars="{{ params.variables }}" """,
    """env_vars={"IN": "in", "REGION": "eu"}, base_dir="/data/{{ ds }}\"""",
    """env_vars={"IN": "in", "REGION": "eu"}, rules_path="/rules/{{ ds }}\"""",
    """env_vars={"IN": "in", "REGION": "eu"}, channel="{{ params.client }}\"""",
    """env_vars={"IN": "in", "REGION": "eu"}, environment="{{ var.value.environment }}\"""",
]


@pytest.mark.parametrize("arguments", TEMPLATES)
@pytest.mark.parametrize(
    ("right", "wrong", "code"),
    [
        ('path: "${IN}', 'pathh: "${IN}', "E005"),
        ("amount / 1.2", "amuont / 1.2", "E200"),
        ("amount / 1.2", "amount / / 1.2", "E200"),
        ("input: priced", "input: prized", "E004"),
        ("amount: float", "amount: flaot", "E007"),
    ],
)
def test_a_templated_value_turns_off_only_the_checks_that_need_it(
    arguments: str, right: str, wrong: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(TEMPLATED)
    assert parse(tmp_path, f'pipeline="p.yaml", {arguments}').import_errors == {}
    assert right in TEMPLATED
    (tmp_path / "p.yaml").write_text(TEMPLATED.replace(right, wrong))
    ((_, text),) = parse(tmp_path, f'pipeline="p.yaml", {arguments}').import_errors.items()
    assert f" {code} " in text
    assert "unknown_until" not in text


def test_what_a_templated_value_may_mend_is_no_import_error(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(TEMPLATED.replace("amount / 1.2", "amount / ${RATE}"))
    arguments = """pipeline="p.yaml", env_vars={"IN": "in", "REGION": "eu", "RATE": "RATE_OF"}"""
    assert parse(tmp_path, arguments.replace("RATE_OF", "{{ params.rate }}")).import_errors == {}
    assert parse(tmp_path, arguments.replace("RATE_OF", "rate")).import_errors != {}


def test_a_templated_root_counts_for_relative_paths_alone(folder: Path) -> None:
    break_pipeline(folder)
    root = 'pipeline_root="/data/{{ ds }}"'
    assert parse(folder, f'pipeline="p.yaml", {root}').import_errors == {}
    assert parse(folder, f'pipeline="{folder}/p.yaml", {root}').import_errors != {}


def test_all_problems_are_reported_together(folder: Path) -> None:
    break_pipeline(folder)
    break_pipeline(folder, "weight_kg / quantity", "weight_kg / quantiti")
    ((_, text),) = parse(folder, 'pipeline="p.yaml"').import_errors.items()
    assert len(set(re.findall(r"p\.yaml:\d+:\d+ E\d+", text))) == 2


def test_missing_pipeline_is_an_import_error(folder: Path) -> None:
    ((_, text),) = parse(folder, 'pipeline="elsewhere.yaml"').import_errors.items()
    assert "elsewhere.yaml" in text


def test_missing_input_files_are_no_concern_of_the_parser(folder: Path) -> None:
    assert not (folder / "input").exists()
    assert parse(folder, 'pipeline="p.yaml"').import_errors == {}


@pytest.mark.parametrize(
    "arguments",
    [
        'pipeline="p.yaml", validate="execute"',
        'pipeline="p.yaml", validate="off"',
        'pipeline="{{ params.name }}.yaml"',
        'pipeline="s3://bucket/p.yaml"',
    ],
)
def test_what_is_not_static_or_not_wanted_is_not_checked(folder: Path, arguments: str) -> None:
    break_pipeline(folder)
    assert parse(folder, arguments).import_errors == {}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('memory_limit="lots"', "argument --memory-limit: expected an amount of memory like `512M` or `2G`"),
        ('memory_limit=""', "argument --memory-limit: "),
        ('log_level="INFO"', "argument --log-level: invalid choice: 'INFO'"),
        ("threads=0", "argument --threads: expected a whole number of at least 1"),
        ("error_threshold=-1", "argument --error-threshold: "),
        ('run_args=["--quite"]', "unrecognized arguments: --quite"),
        ('run_args="--quiet --force"', "run_args is a list of arguments"),
        ('on_dlq="nomodule.f"', "on_dlq: there is no module 'nomodule'"),
    ],
)
def test_options_that_a_run_would_refuse_are_import_errors(folder: Path, arguments: str, reason: str) -> None:
    ((_, text),) = parse(folder, f'pipeline="p.yaml", {arguments}').import_errors.items()
    assert reason in text
    assert parse(folder, f'pipeline="p.yaml", {arguments}, validate="execute"').import_errors == {}


@pytest.mark.parametrize(
    "arguments",
    [
        'memory_limit="{{ params.limit }}", run_args=["--threads", "{{ params.threads }}"]',
        'run_args="{{ params.arguments }}"',
        'memory_limit="2G", threads=2, log_level="debug", run_args=["--quiet"], on_dlq="json.dumps"',
    ],
)
def test_options_that_are_right_or_not_known_yet_are_parsed(folder: Path, arguments: str) -> None:
    assert parse(folder, f'pipeline="p.yaml", {arguments}').import_errors == {}


def test_paths_may_be_paths(folder: Path) -> None:
    path = f"__import__('pathlib').Path({str(folder)!r})"
    arguments = f"pipeline={path} / 'p.yaml', base_dir={path}, work_dir={path}, metrics_spool_dir={path}"
    bag = parse(folder, arguments)
    assert bag.import_errors == {}
    assert bag.dags["parsed"].task_dict["run"].pipeline == str(folder / "p.yaml")


def test_setting_of_the_installation_decides_for_operators_that_do_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_pipeline(folder)
    monkeypatch.setenv("AIRFLOW__CLINKER__VALIDATE", "execute")
    assert parse(folder, 'pipeline="p.yaml"').import_errors == {}
    assert parse(folder, 'pipeline="p.yaml", validate="parse"').import_errors != {}


def test_worker_does_not_check_again_when_it_parses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_pipeline(folder)
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "parsed")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "run")
    assert parse(folder, 'pipeline="p.yaml"').import_errors == {}


@pytest.mark.parametrize(("remembers", "count"), [("True", 1), ("False", 2)])
def test_a_valid_pipeline_is_not_planned_again(
    remembers: str, count: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.plan import planner

    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("AIRFLOW__CLINKER__REMEMBER_VALID", remembers)
    planned = []
    plan = planner.plan
    monkeypatch.setattr(planner, "plan", lambda *given: (planned.append(given), plan(*given))[1])
    for _ in range(2):
        assert parse(folder, 'pipeline="p.yaml"').import_errors == {}
    assert len(planned) == count
    break_pipeline(folder)
    assert "E200" in str(parse(folder, 'pipeline="p.yaml"').import_errors)


def test_unknown_mode_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, text),) = parse(folder, 'pipeline="p.yaml", validate="sometimes"').import_errors.items()
    assert "validate: 'sometimes' is none of parse, execute, off" in text
    monkeypatch.setenv("AIRFLOW__CLINKER__VALIDATE", "never")
    ((_, text),) = parse(folder, 'pipeline="p.yaml"').import_errors.items()
    assert "[clinker] validate: 'never' is none of parse, execute, off" in text


@pytest.mark.parametrize("word", ["", " ", "PARSE", " Parse "])
def test_a_mode_that_is_blank_or_written_large_is_the_word_that_it_means(
    word: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CLINKER__VALIDATE", word)
    assert parse(folder, 'pipeline="p.yaml"').import_errors == {}
    break_pipeline(folder)
    assert parse(folder, 'pipeline="p.yaml"').import_errors != {}


def test_what_does_not_run_yet_is_an_import_error(folder: Path) -> None:
    text = (folder / "p.yaml").read_text(encoding="utf-8")
    (folder / "p.yaml").write_text(re.sub(r"path: (output/\S+)", r"path: \1.zip", text, count=1), encoding="utf-8")
    ((_, told),) = parse(folder, 'pipeline="p.yaml"').import_errors.items()
    assert "E400" in told


def test_mapped_operator_is_parsed_unseen(folder: Path) -> None:
    from tests.provider.airflow_of import DagBag

    break_pipeline(folder)
    (folder / "dag_file.py").write_text(
        DAG_FILE.format(arguments="").replace(
            'ClinkerSparkOperator(task_id="run", )',
            'ClinkerSparkOperator.partial(task_id="run").expand(pipeline=["p.yaml", "q.yaml"])',
        )
    )
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    assert type(bag.dags["parsed"].task_dict["run"]).__name__ == "MappedOperator"


def test_parsing_operators_needs_no_spark(tmp_path: Path) -> None:
    code = f"""
import json, sys
from airflow.providers.common.compat.sdk import DAG
from clinker_provider.operators.spark import ClinkerSparkOperator
with DAG("many", schedule=None):
    ClinkerSparkOperator(task_id="run", pipeline={str(ORDERS)!r})
loaded = [name for name in sys.modules if name.split(".")[0] in ("pyspark", "pyarrow", "numpy", "pandas")]
print(json.dumps(loaded))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize(
    ("folder_of_dags", "known"),
    [
        ("dags", {"clinker_orders", "clinker_invoices", "clinker_assets_write", "clinker_assets_read"}),
        ("tests/system/clinker", {"example_clinker", "example_clinker_mapped", "example_clinker_taskflow"}),
    ],
)
def test_example_dags_are_read_without_errors_and_warnings(
    folder_of_dags: str, known: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.provider.airflow_of import DagBag

    monkeypatch.syspath_prepend(str(REPOSITORY))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    # As unit tests of DAGs name the folder, so that the paths of DAG files are relative as well.
    monkeypatch.chdir(REPOSITORY)
    bag = DagBag(dag_folder=folder_of_dags)
    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert set(bag.dags) == known


def test_dags_are_serialized_alike_every_time(folder: Path) -> None:
    """A value that changes from parse to parse would make a new version of the DAG each time."""
    from tests.provider.airflow_of import serialized

    seen = {
        json.dumps(
            serialized(parse(folder, 'pipeline="p.yaml", force=True').dags["parsed"])["dag"]["tasks"],
            sort_keys=True,
            default=str,
        )
        for _ in range(2)
    }
    assert len(seen) == 1
