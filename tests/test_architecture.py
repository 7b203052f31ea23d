"""The walls: who may import whom, proven on the text of every file and again in clean processes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.formats import registry
from tests import dotted_names
from tests.dotted_names import parsed

ROOT = Path(__file__).resolve().parent.parent
RANKS = {
    "diagnostics": 0,
    "disk": 1,
    "stores": 1,
    "cxl": 2,
    "scan": 3,
    "formats": 4,
    "nodes": 5,
    "plan": 6,
    "execute": 7,
    "cli": 8,
    "run_pipeline": 9,
    "__main__": 9,
}
#: Standard library only; everybody may import them.
FREE = {
    "__version__",
    "contract",
    "discovery",
    "limits",
    "result",
    "bundle",
    "ownership",
    "engine_files",
    "spool",
    "credentials",
    "reasons",
    "tuning",
}
#: From this rank on modules may import pyspark.
PYSPARK_RANK = RANKS["execute"]
#: What the provider may import of the engine (DESIGN.md, the tree).
PROVIDER_MAY = {
    "contract",
    "credentials",
    "reasons",
    "result",
    "bundle",
    "spool",
    "plan",
    "diagnostics",
    "cli",
    "stores",
}

FILES = sorted(ROOT.glob("spark_jobs/**/*.py"))
PROVIDER_FILES = sorted(ROOT.glob("clinker_provider/**/*.py"))
TESTS = sorted(ROOT.glob("tests/**/*.py"))


def imports(path: Path, *, with_types: bool = True) -> list[str]:
    """All modules that a file imports, anywhere in it; those under `TYPE_CHECKING` only when asked for."""
    found = []
    waiting = [parsed(path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and not with_types and getattr(node.test, "id", "") == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        waiting += ast.iter_child_nodes(node)
    return found


def package(path: Path) -> str:
    part = path.relative_to(ROOT / "spark_jobs").parts[0]
    return part.removesuffix(".py")


@pytest.mark.parametrize("mine", sorted({package(path) for path in FILES}))
def test_imports_point_down(mine: str) -> None:
    for path in FILES:
        if package(path) == mine:
            check_imports(mine, path)


def check_imports(mine: str, path: Path) -> None:
    for name in imports(path, with_types=False):
        parts = name.split(".")
        if parts[0] == "airflow" or parts[0] == "clinker_provider":
            pytest.fail(f"{path} imports {name}: the engine never knows Airflow")
        if parts[0] in ("pyspark", "py4j"):
            assert RANKS.get(mine, 0) >= PYSPARK_RANK, f"{path} imports {name}"
        if parts[0] != "spark_jobs" or len(parts) < 2:
            continue
        target = parts[1]
        if mine in FREE:
            assert target in FREE, f"{path} imports {name}: {mine} is free of the engine"
        elif target not in FREE and mine != "__init__":
            assert RANKS[target] <= RANKS[mine], f"{path} (rank {RANKS[mine]}) imports {name} (rank {RANKS[target]})"


def test_the_provider_needs_little_of_the_engine() -> None:
    for path in PROVIDER_FILES:
        for name in imports(path):
            parts = name.split(".")
            assert parts[0] != "pyspark", f"{path} imports {name}"
            if parts[0] == "spark_jobs" and len(parts) > 1:
                assert parts[1] in PROVIDER_MAY, f"{path} imports {name}"


def test_no_module_beside_the_entry_point_hides_a_standard_one() -> None:
    """spark-submit puts the script's folder first on the path."""
    names = {path.stem for path in (ROOT / "spark_jobs").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not names & set(sys.stdlib_module_names)


def loaded(statement: str, *watched: str) -> set[str]:
    """Which of some modules are loaded after a statement, in a clean process."""
    program = f"import sys\n{statement}\nprint(' '.join(m for m in {watched!r} if m in sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(run.stdout.split())


PACKAGES = sorted(path.parent for path in ROOT.glob("spark_jobs/**/__init__.py"))


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_package_says_what_belongs_there(folder: Path) -> None:
    about = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    # Each node type and each format is one package of the same shape.
    if folder.parent.name not in ("nodes", "formats"):
        assert re.search(r"^Here: .*^Not here: ", about, re.MULTILINE | re.DOTALL), f"{folder}: {about}"


MODULES = {".".join(path.with_suffix("").relative_to(ROOT).parts): path for path in FILES}


def imported(name: str) -> set[str]:
    """The modules of the engine that one imports when it runs, at once or later."""
    found = set()
    for one in imports(MODULES[name], with_types=False):
        # `from package import name`: the name may be a module or something in one.
        found.add(one if one in MODULES else one.rpartition(".")[0])
    return found & MODULES.keys()


def test_no_modules_import_each_other() -> None:
    """A circle is two modules that are one, or a third that is missing."""
    waiting = {name: imported(name) - {name} for name in MODULES}
    while free := {name for name, needs in waiting.items() if not needs & waiting.keys()}:
        waiting = {name: needs for name, needs in waiting.items() if name not in free}
    assert {name: sorted(needs & waiting.keys()) for name, needs in waiting.items()} == {}


def siblings(name: str, other: str) -> tuple[str, str] | None:
    """The packages beside one another that two modules are in; None if one of the modules is in a package of both."""
    mine, its = name.split(".")[:-1], other.split(".")[:-1]
    same = 0
    while same < min(len(mine), len(its)) and mine[same] == its[same]:
        same += 1
    if same == min(len(mine), len(its)):
        return None
    return ".".join(mine[: same + 1]), ".".join(its[: same + 1])


def test_packages_beside_one_another_do_not_import_each_other() -> None:
    pairs = {pair for name in MODULES for other in imported(name) if (pair := siblings(name, other))}
    circles = {pair for pair in pairs if pair[0] < pair[1] and pair[::-1] in pairs}
    assert circles == set()


def test_packages_beside_one_another_are_found() -> None:
    assert siblings("spark_jobs.execute.dlq.buffer", "spark_jobs.execute.tasks.task") == (
        "spark_jobs.execute.dlq",
        "spark_jobs.execute.tasks",
    )
    assert siblings("spark_jobs.execute.logs", "spark_jobs.execute.tasks.task") is None
    assert siblings("spark_jobs.execute.run.work", "spark_jobs.execute.run.passes") is None


#: What asks a destination, and so touches no file by itself.
ASKING = [
    *ROOT.glob("spark_jobs/execute/delivery/*.py"),
    *ROOT.glob("spark_jobs/nodes/output/*.py"),
    *(ROOT / f"spark_jobs/execute/dlq/{name}.py" for name in ("files", "writer")),
]
#: The run chooses the destination; what stays inside a run is on a file system that all its machines share.
MAY_KNOW_LOCAL_FILES = {"recover.py", "executor.py", "places.py", "scratch.py", "scratch_location.py"}
_OF_FILES = {
    *("exists", "getsize", "is_dir", "is_file", "iterdir", "lexists", "listdir", "lstat", "scandir", "stat"),
    *("link", "makedirs", "mkdir", "rename", "rmdir", "unlink"),
    *("memory_map", "read_bytes", "read_text", "sendfile", "write_bytes", "write_text"),
}


@pytest.mark.parametrize("path", ASKING, ids=lambda path: str(path.relative_to(ROOT / "spark_jobs")))
def test_outputs_are_written_and_looked_at_through_their_destination(path: Path) -> None:
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    named = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    asked = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
    assert "open" not in named
    assert not asked & _OF_FILES


def test_nobody_but_a_run_knows_local_files() -> None:
    local = "spark_jobs.execute.delivery.local"
    known = {
        path.name
        for path in FILES
        if "delivery/local" not in str(path) and any(name.startswith(local) for name in imports(path))
    }
    assert known == MAY_KNOW_LOCAL_FILES


def test_planning_loads_neither_spark_nor_arrow() -> None:
    statement = "import spark_jobs.plan, spark_jobs.plan.planner, spark_jobs.cli.clinker, spark_jobs.cli.cxl.command"
    assert loaded(statement, "pyspark", "airflow", "pyarrow", "numpy", "pandas") == set()


def test_executors_need_no_driver_packages() -> None:
    kinds = sorted(path.parent.name for path in (ROOT / "spark_jobs/nodes").glob("*/run.py"))
    statement = "import importlib, spark_jobs.execute.tasks.task\n"
    statement += "import spark_jobs.cxl.kernels.kernels, spark_jobs.cxl.interpreter.interpreter\n"
    statement += "from spark_jobs.cxl.builtins import declare; declare.registry()\n"
    statement += "\n".join(f"import spark_jobs.nodes.{kind}.run" for kind in kinds)
    assert loaded(statement, "pydantic", "lark", "yaml", "urllib3", "babel", "airflow") == set()


#: What changes the process that calls it, and the tests that run in it later.
CHANGES_THE_PROCESS = {"setrlimit", "umask", "chdir", "nice", "setpriority", "setpgrp", "setsid", "dup2"}


def test_tests_change_no_limits_or_surroundings_of_their_own_process() -> None:
    """The programs that they start may: those are texts here. `monkeypatch.chdir` puts things back."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.attr}"
        for path in sorted(ROOT.glob("tests/**/*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CHANGES_THE_PROCESS
        and getattr(node.func.value, "id", "") in ("os", "resource")
    ]
    assert found == []


#: Where a word is no format of sources and outputs, or the engine itself writes or reads one: dead letters are CSV, and
#: the token for a network source's next page stands in JSON. Tables are committed to, beside being written.
KNOWN_FORMATS = {
    "spark_jobs/execute/delivery/delta/commit.py": {"spark_jobs.formats.delta"},
    "spark_jobs/execute/delivery/delta/output.py": {"spark_jobs.formats.delta"},
    "spark_jobs/execute/delivery/iceberg/commit.py": {"spark_jobs.formats.iceberg"},
    "spark_jobs/execute/delivery/iceberg/output.py": {"spark_jobs.formats.iceberg"},
    "spark_jobs/plan/explain/explain.py": {"json"},
    "spark_jobs/execute/logs.py": {"json"},
    "spark_jobs/execute/dlq/reading_again.py": {"json", "spark_jobs.formats.json"},
    "spark_jobs/execute/dlq/writer.py": {"spark_jobs.formats.csv"},
    "spark_jobs/formats/pages.py": {"spark_jobs.formats.json"},
}


def test_only_its_package_knows_a_format() -> None:
    """No module beside them names a format or imports one; what they want of one, they ask its `FORMAT`."""
    names = set(registry.formats())
    found: dict[str, set[str]] = {}
    for path in FILES:
        inside = path.relative_to(ROOT / "spark_jobs").parts
        if inside[0] in ("cli", "cxl", "diagnostics") or (inside[0] == "formats" and len(inside) > 2):
            continue
        nodes = ast.walk(parsed(path))
        words = {node.value for node in nodes if isinstance(node, ast.Constant) and node.value in names}
        parts = (name.split(".") for name in imports(path))
        words |= {".".join(part[:3]) for part in parts if part[1:2] == ["formats"] and names.intersection(part[2:3])}
        if words:
            found[str(path.relative_to(ROOT))] = words
    assert found == KNOWN_FORMATS


def test_formats_are_planned_without_arrow_and_read_without_models() -> None:
    statement = "from spark_jobs.formats import registry; registry.formats()"
    assert loaded(statement, "pyarrow", "numpy", "pydantic") == set()
    statement += "\nfor one in registry.formats().values(): one.load()"
    assert loaded(statement, "pydantic", "lark", "yaml", "urllib3", "airflow") == set()


#: The packages of node types, and how many places outside of them may ask which one a node is of.
KINDS = {path.parent.name for path in (ROOT / "spark_jobs/nodes").glob("*/config.py")}
MOST_PLACES = 15


def asks_for_kinds(tree: ast.AST) -> list[int]:
    """The lines that compare a node's kind with a word, or test for the class of its step or configuration."""
    classes: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spark_jobs.nodes."):
            parts = (node.module or "").split(".")
            if len(parts) > 3 and parts[2] in KINDS:
                classes |= {alias.asname or alias.name for alias in node.names if alias.name[0].isupper()}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=ast.Attribute(attr="kind"), comparators=[compared]):
                words = {each.value for each in ast.walk(compared) if isinstance(each, ast.Constant)}
                asks = bool(words & KINDS)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, asked]):
                asks = bool({each.id for each in ast.walk(asked) if isinstance(each, ast.Name)} & classes)
            case ast.MatchClass(cls=ast.Name(id=name)):
                asks = name in classes
            case ast.match_case(pattern=ast.MatchValue(value=ast.Constant(value=word))):
                asks = word in KINDS
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Attribute(attr="kind"), *_]):
                asks = True
            case _:
                asks = False
        if asks:
            found.append(node.lineno if hasattr(node, "lineno") else node.pattern.lineno)
    return sorted(found)


def test_hardly_anybody_asks_of_which_kind_a_node_is() -> None:
    """A node says what it is like; who asks for its kind has to learn each new one (see `nodes/terms/shape.py`)."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in FILES
        if RANKS.get(package(path), 0) > RANKS["nodes"]
        for line in asks_for_kinds(parsed(path))
    ]
    assert len(found) <= MOST_PLACES, "\n".join(found)


def test_places_that_ask_for_kinds_are_found() -> None:
    asking = """
from spark_jobs.nodes.route.step import RouteStep
if node.kind == "route" or node.kind in ("merge", "output"): pass
isinstance(step, RouteStep)
match step:
    case RouteStep(): pass
match node.kind:
    case "source": pass
table.get(node.kind)
value.kind == "date"
"""
    assert asks_for_kinds(ast.parse(asking)) == [3, 3, 4, 6, 8, 9]


#: Parts of PySpark that its documentation does not have, and that start-up depends on.
PRIVATE_MODULES = ("accumulators", "daemon", "java_gateway", "sql.pandas", "testing")
PRIVATE_MEMBERS = {"_ensure_initialized", "_gateway", "_jvm", "_jsc", "handle_error"}


def test_private_parts_of_pyspark_are_known_in_one_module() -> None:
    modules = tuple(f"pyspark.{name}" for name in PRIVATE_MODULES)
    known = {
        str(path.relative_to(ROOT / "spark_jobs"))
        for path in FILES
        if any(name.startswith(modules) for name in imports(path))
        or any(isinstance(node, ast.Attribute) and node.attr in PRIVATE_MEMBERS for node in ast.walk(parsed(path)))
    }
    assert known == {"execute/spark/internals.py"}


#: What declares flags, and turns what argparse found into options that have types.
KNOW_ARGPARSE = {
    "cli/clinker.py",
    "cli/command_line.py",
    "cli/completion.py",
    "cli/cxl/command.py",
    "cli/topics.py",
}


def test_commands_get_options_and_not_what_argparse_found() -> None:
    found = {str(path.relative_to(ROOT / "spark_jobs")) for path in FILES if "argparse" in imports(path)}
    assert found == KNOW_ARGPARSE


def test_stores_are_loaded_for_uris_alone() -> None:
    statement = "import spark_jobs.plan.planner, spark_jobs.plan.physical.inputs, spark_jobs.execute.tasks.task"
    assert loaded(statement, "botocore", "spark_jobs.stores.s3", "spark_jobs.stores.reading") == set()


def test_what_tests_patch_and_have_other_processes_import_is_there() -> None:
    """A name in a string is not seen by who renames it, and many such tests run rarely."""
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in [*TESTS, *ROOT.glob("benchmarks/**/*.py"), *ROOT.glob("scripts/**/*.py")]
        if path != Path(__file__)
        for line, name in dotted_names.named(parsed(path))
        if not dotted_names.exists(name)
    ]
    assert found == []


def test_names_in_strings_are_found() -> None:
    program = """
from spark_jobs.nodes import spill, nowhere
monkeypatch.setattr(spill, "NOTHING", 1)
monkeypatch.setattr(spill.Space, "put", 1)
monkeypatch.setattr("spark_jobs.nodes.spill.Space.no_such_name", 1)
run([python, "-m", "spark_jobs.no_program"])
run([python, "-c", "import sys; from spark_jobs.disk import locks, gone; locks.nothing(); locks.NoLocksError"])
run([python, "-c", f"import spark_jobs.plan.gone, sys; {program}"])
"spark_jobs.zip", "spark_jobs.nodes", f"spark_jobs.nodes.{kind}.run"
"""
    found = [(line, name) for line, name in dotted_names.named(ast.parse(program)) if not dotted_names.exists(name)]
    assert sorted(set(found)) == [
        (3, "spark_jobs.nodes.spill.NOTHING"),
        (5, "spark_jobs.nodes.spill.Space.no_such_name"),
        (6, "spark_jobs.no_program"),
        (7, "spark_jobs.disk.gone"),
        (7, "spark_jobs.disk.locks.nothing"),
        (8, "spark_jobs.plan.gone"),
    ]
