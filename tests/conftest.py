"""What holds for all tests: an Airflow home of their own, made before anything imports Airflow."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# A process that a shell starts in the background ignores interrupts, and child processes of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where an environment forbids to keep compiled modules, each process that tests start would compile them anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# PySpark says goodbye when the streams that tests captured are closed.
logging.getLogger("py4j").setLevel(logging.WARNING)

# `.ci/run` asks for many more examples. Which ones is a function of the test, so that a tree that was green stays so;
# `make explore` tries others each time. Filtering too much stays an error.
hypothesis.settings.register_profile(
    "clinker",
    max_examples=int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", "10")),
    derandomize="HYPOTHESIS_EXPLORE" not in os.environ,
    deadline=None,
    suppress_health_check=[
        hypothesis.HealthCheck.function_scoped_fixture,
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
    ],
)
hypothesis.settings.load_profile("clinker")

REPOSITORY = Path(__file__).resolve().parent.parent

_home = tempfile.mkdtemp(prefix="clinker-tests-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)

# A test run must not see, let alone change, the Airflow of the person who runs it.
for _name in [name for name in os.environ if name.startswith(("AIRFLOW_", "AIRFLOW__"))]:
    del os.environ[_name]
os.environ.update(
    {
        "AIRFLOW_HOME": _home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_home}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{_home}/logs",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
)

from tests.cluster import spark_cluster  # noqa: E402  # a fixture for whoever names it; Airflow's settings come first
from tests.mariadb import mariadb, mariadb_server  # noqa: E402
from tests.memory_folder import memory_folder  # noqa: E402
from tests.object_store import (  # noqa: E402
    azure,
    azure_server,
    bucket,
    gcs,
    gcs_server,
    hdfs,
    hdfs_server,
    lake_bucket,
    s3,
    s3_server,
)
from tests.postgres import postgres, postgres_server  # noqa: E402
from tests.yarn import yarn  # noqa: E402

__all__ = [
    "azure",
    "azure_server",
    "bucket",
    "gcs",
    "gcs_server",
    "hdfs",
    "hdfs_server",
    "lake_bucket",
    "mariadb",
    "mariadb_server",
    "postgres",
    "postgres_server",
    "s3",
    "s3_server",
    "spark_cluster",
    "yarn",
]


#: What runs whole pipelines, or tries very much: the quick lane leaves it out.
_THOROUGH = (
    "tests/attack/", "tests/execute/", "tests/formats/avro/test_reading_avro.py", "tests/formats/database/",
    "tests/formats/json/test_quick.py",
    "tests/formats/json/test_ways.py", "tests/formats/json/test_ways_of_arrays.py",
    "tests/formats/parquet/test_passing_over.py", "tests/formats/test_long_lines.py",
    "tests/formats/test_wide_files.py", "tests/formats/xml/test_stretches.py", "tests/nodes/test_cases.py",
    "tests/nodes/test_state.py", "tests/plan/test_limits.py", "tests/scan/test_endless_servers.py",
    "tests/scan/test_matching.py", "tests/scan/test_unpacking.py", "tests/test_architecture.py",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files of the quick lane into memory; other lanes write them to disk."""
    # Imported modules and collected tests live until the end, so collecting garbage among them finds nothing.
    gc.disable()
    if _leaves_out(config, "thorough") and (folder := memory_folder()):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)


@pytest.fixture(scope="session", autouse=True)
def _memory_is_given_back(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield
    made = tmp_path_factory.getbasetemp()
    if request.session.testsfailed == 0 and (folder := memory_folder()) and made.is_relative_to(folder):
        shutil.rmtree(made, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark slow tests like tests with Spark, so that the quick lanes leave them out."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker("spark")
        if item.nodeid.startswith(_THOROUGH):
            item.add_marker("thorough")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep the quick lane from importing the tests that it leaves out."""
    if not _leaves_out(config, "thorough") or not collection_path.is_relative_to(REPOSITORY):
        return None
    name = collection_path.relative_to(REPOSITORY).as_posix()
    return True if (name if collection_path.is_file() else f"{name}/").startswith(_THOROUGH) else None


def pytest_collection_finish() -> None:
    """Exclude all tests and imported modules from garbage collection: they live until the end.

    Garbage of tests is collected less often than by default, which took a sixth of the quick lane's time. DuckDB counts
    its objects when the process ends, so it is not loaded before (`tests.lazily`).
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes where tests are chosen by their marks; files that are named alone run in this one."""
    return min(2, os.cpu_count() or 1) if config.getoption("markexpr", "") else 0


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Each process has a Spark session and an Airflow of its own: the tests of a file share one."""
    if not (_leaves_out(config, "spark") and _leaves_out(config, "airflow")):
        config.option.dist = "loadfile"


def _leaves_out(config: pytest.Config, mark: str) -> bool:
    """Whether the command line certainly leaves out the tests with a mark."""
    chosen = config.getoption("markexpr", "") or ""
    return f"not {mark}" in chosen.split(" and ")
