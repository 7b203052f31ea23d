"""The scripts behind `make`, and the lock files."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPTS = [*REPOSITORY.glob("scripts/*.sh"), REPOSITORY / ".ci" / "run", REPOSITORY / "docker" / "prepare.sh"]


def need_java(home: Path, says: str | None) -> subprocess.CompletedProcess[str]:
    """What `need-java.sh` does when `java -version` prints that; None: there is no `java`."""
    if says is not None:
        java = home / "bin" / "java"
        java.parent.mkdir()
        # Java prints its version to standard error.
        java.write_text(f"#!/bin/sh\ncat >&2 <<'TEXT'\n{says}\nTEXT\n{'exit 1' if 'Unable' in says else ''}\n")
        java.chmod(0o755)
    return subprocess.run(
        [str(REPOSITORY / "scripts" / "need-java.sh")],
        env={**os.environ, "JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "says",
    [
        'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment',
        'java version "21" 2023-09-19 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.1" 2025-10-21',
    ],
)
def test_new_enough_java_is_taken_silently(tmp_path: Path, says: str) -> None:
    done = need_java(tmp_path, says)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        (None, "Java is missing"),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", "Java is missing"),
        ('openjdk version "1.8.0_402"', "is Java 8, which is too old"),
        ('openjdk version "11.0.22" 2024-01-16', "is Java 11, which is too old"),
        ("hello", "says nothing that reads as a version"),
    ],
)
def test_other_java_is_refused_with_what_to_install(tmp_path: Path, says: str | None, complaint: str) -> None:
    done = need_java(tmp_path, says)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "openjdk-17" in done.stderr
    assert "JAVA_HOME" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_executable_strict_and_parse(script: Path) -> None:
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_help_lists_every_target_of_the_makefile() -> None:
    done = subprocess.run(["make", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    listed = set(re.findall(r"^  make (\S+)", done.stdout, re.MULTILINE))
    phony = re.findall(r"^\.PHONY: (.+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert listed == {target for targets in phony for target in targets.split()} - {"java"}
    assert {"setup", "run", "test", "check", "lint", "docs", "build", "bench", "lock"} <= listed


def test_the_lock_file_pins_everything_by_hash_and_names_no_place() -> None:
    text = (REPOSITORY / "requirements.lock").read_text()
    assert "://" not in text
    assert not re.search(r"^--", text, re.MULTILINE)
    requirements = re.split(r"^(?=\S)", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert requirements
    for requirement in requirements:
        assert re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", requirement), requirement
        assert "--hash=sha256:" in requirement, requirement


def test_locked_versions_are_those_the_project_asks_for() -> None:
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    text = (REPOSITORY / "requirements.lock").read_text()
    locked = {
        name.lower(): version for name, version in re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE)
    }
    for item in map(Requirement, wanted):
        assert item.specifier.contains(locked[item.name.lower()]), f"{item}: run `make lock`"


def test_conformance_patterns_are_one_a_line() -> None:
    lines = (REPOSITORY / ".ci" / "conformance.txt").read_text().splitlines()
    patterns = [line.partition("#")[0].strip() for line in lines]
    for pattern in filter(None, patterns):
        assert re.fullmatch(r"\*|(cxl:)?[\w*?\[\]!.-]+/[\w*?\[\]!.-]+", pattern), pattern


@pytest.mark.parametrize(
    ("codes", "status"),
    [("0 0", 0), ("0 5", 0), ("5 0", 0), ("1 0", 1), ("0 1", 1), ("1 5", 1), ("5 5", 5), ("2 0", 2)],
)
def test_all_tests_run_in_two_lanes(tmp_path: Path, codes: str, status: int) -> None:
    fake = """#!/usr/bin/env bash
codes=($CODES)
count=$(wc -l < calls)
echo "${*:3}" >> calls
exit "${codes[$count]}"
"""
    script = (REPOSITORY / "scripts" / "test.sh").read_text()
    for name, text in {"scripts/test.sh": script, ".venv/bin/python": fake, "calls": ""}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    command = [tmp_path / "scripts" / "test.sh", "-q", "one file"]
    done = subprocess.run(command, env={**os.environ, "CODES": codes}, check=False)
    assert done.returncode == status
    lanes = ["-m not spark and not airflow -q one file", "-m spark or airflow -q one file"]
    # Whoever interrupts one wants no other.
    assert (tmp_path / "calls").read_text().splitlines() == lanes[: 1 if codes == "2 0" else 2]
