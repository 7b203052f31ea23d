"""The zip for `--py-files`: the same bytes from the same files, importable, complete."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from spark_jobs import bundle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.build(tmp_path_factory.mktemp("package") / "deep" / "spark_jobs.zip")


def python(code: str, **environ: str) -> str:
    """What isolated Python code prints: without the checkout and its site-packages."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.environ["PATH"], **environ},
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_zip_holds_every_module_and_page_and_nothing_else(package: Path) -> None:
    root = bundle.package_root()
    modules = {f"spark_jobs/{path.relative_to(root).as_posix()}" for path in root.rglob("*.py")}
    data = {
        f"spark_jobs/{path.relative_to(root).as_posix()}"
        for path in root.rglob("*")
        if path.suffix in bundle.DATA_SUFFIXES
    }
    with zipfile.ZipFile(package) as archive:
        names = archive.namelist()
    assert set(names) == modules | {f"{name}c" for name in modules} | data
    assert len(set(names)) == len(names)
    assert not any("__pycache__" in name for name in names)


@pytest.mark.slow
def test_same_files_give_the_same_bytes_in_other_processes(package: Path, tmp_path: Path) -> None:
    code = "from pathlib import Path; from spark_jobs import bundle; bundle.build(Path({!r}))"
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.zip"
        # One build finds no cache of compiled modules and compiles, the other reads what was compiled.
        cache = ["-X", f"pycache_prefix={tmp_path}/cache"] if seed == "1" else []
        subprocess.run(
            [sys.executable, *cache, "-c", code.format(str(target))],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC{seed}"},
        )
        assert target.read_bytes() == package.read_bytes()


def test_zip_depends_on_contents_not_on_places_or_times(tmp_path: Path) -> None:
    contents = []
    for place in ("one", "two/deeper"):
        root = tmp_path / place
        (root / "sub").mkdir(parents=True)
        (root / "__init__.py").write_text('"""Doc."""\n')
        (root / "sub" / "__init__.py").write_text(
            "NAMES = frozenset({'a', 'b', 'c'})\ndef f(x):\n    return x in {1, 2}\n"
        )
        (root / "sub" / "grammar.lark").write_text("start: A\n")
        (root / "sub" / "notes.txt").write_text("stays at home")
        os.utime(root / "__init__.py", (len(place) * 1e8, len(place) * 1e8))
        contents.append(bundle.content_of(root))
    assert contents[0] == contents[1]
    assert b"grammar.lark" in contents[0]
    assert b"stays at home" not in contents[0]


def test_engine_is_imported_from_the_zip_and_from_its_compiled_modules(package: Path) -> None:
    code = (
        "import spark_jobs.contract as c, sys; "
        "print(c.__file__); print(c.__cached__ or '-'); print(c.status_of.__code__.co_filename)"
    )
    file, _, source = python(code, PYTHONPATH=str(package)).splitlines()
    assert file == f"{package}/spark_jobs/contract.pyc"
    assert source == "spark_jobs/contract.py"


def test_another_python_takes_the_source(package: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(package) as source, zipfile.ZipFile(foreign, "w") as target:
        for entry in source.infolist():
            content = source.read(entry)
            # What another minor version finds: compiled modules with a magic number that is not its own.
            target.writestr(entry, b"\0\0\r\n" + content[4:] if entry.filename.endswith(".pyc") else content)
    assert python("import spark_jobs.contract as c; print(c.ExitCode.IO.value)", PYTHONPATH=str(foreign)) == "4"


def test_traceback_from_the_zip_shows_the_source_line(package: Path) -> None:
    code = (
        "import traceback\n"
        "from spark_jobs import result\n"
        "try: result.of_dict([])\n"
        "except ValueError: print(traceback.format_exc())"
    )
    assert 'File "spark_jobs/result.py", line' in python(code, PYTHONPATH=str(package))


def test_failed_build_keeps_the_previous_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "spark_jobs.zip"
    target.write_bytes(b"previous")

    def refuse(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        bundle.build(target)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["spark_jobs.zip"]
    assert target.read_bytes() == b"previous"


def test_temporary_zip_goes_with_its_process() -> None:
    code = (
        "from spark_jobs import bundle; path = bundle.build_temporary(); "
        "assert path == bundle.build_temporary(); print(path, path.stat().st_size)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    path, size = done.stdout.split()
    assert int(size) > 1000
    assert not Path(path).parent.exists()


def test_application_is_a_file_of_the_package() -> None:
    assert bundle.application().parent == bundle.package_root()
