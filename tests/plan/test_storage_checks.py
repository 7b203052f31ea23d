"""The folders of `clinker.toml`: what is refused before a run, what is only warned of, and where it says so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.diagnostic import Diagnostic, Diagnostics
from spark_jobs.disk import volumes
from spark_jobs.plan.checks import storage_checks
from spark_jobs.plan.physical import inputs
from spark_jobs.plan.reading.workspace import Storage
from tests.plan.pipelines import ORDERS, planned, problems

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = "\n  - { type: output, name: out, input: orders, config: { type: csv, path: out.csv } }\n"
GROUPED = ORDERS + (
    "\n  - { type: aggregate, name: sums, input: orders, config: { group_by: [customer], cxl: emit n = sum(id) } }"
    "\n  - { type: output, name: out, input: sums, config: { type: csv, path: out.csv } }\n"
)
STAGING = '[storage.staging]\nenabled = true\ndir = "staging"\npatterns = ["*.csv"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace on one disk, whose folder `other` is taken for another device."""
    for name in ("spill", "staging"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders.csv").write_text("id,customer,amount,note\n1,2,3,4\n")
    mounted(monkeypatch, tmp_path, "22 1 254:0 / / rw - ext4 /dev/vda rw")
    monkeypatch.setattr(volumes, "share_device", lambda first, second: False)
    return tmp_path


def mounted(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    (folder / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(volumes, "MOUNTINFO", folder / "mountinfo")


def checked(folder: Path, toml: str, text: str = ORDERS + OUTPUT) -> list[Diagnostic]:
    (folder / "clinker.toml").write_text(toml)
    plan = planned(folder, text)
    found = Diagnostics()
    storage_checks.check(plan, lambda: inputs.discover(plan), found)
    return found.sorted()


def told(found: list[Diagnostic]) -> list[tuple[str, int, str]]:
    """Each code with its line in `clinker.toml` and what is marked there."""
    for item in found:
        assert item.span is not None
        assert item.span.file.name == "clinker.toml"
    return [(i.code.id, i.span.line, i.span.file.text[i.span.start : i.span.end]) for i in found if i.span]


def test_fit_folders_are_silent(folder: Path) -> None:
    assert checked(folder, '[storage.spill]\ndir = "spill"\n' + STAGING) == []
    assert list((folder / "spill").iterdir()) == list((folder / "staging").iterdir()) == []


@pytest.mark.parametrize(("kind", "code"), [("tmpfs", "E330"), ("ramfs", "E330"), ("nfs4", "E331"), ("cifs", "E331")])
def test_a_spill_folder_is_on_a_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: str) -> None:
    mounted(monkeypatch, folder, f"30 22 0:9 / {folder.resolve()}/spill rw - {kind} x rw")
    (found,) = checked(folder, '[storage.spill]\ndir = "spill"\n')
    assert told([found]) == [(code, 2, "dir")]
    assert found.help is not None
    assert found.help.endswith(f"see: clinker explain --code {code}")
    assert checked(folder, "[storage.spill]\n") == []


def test_a_staging_folder_may_be_in_memory_but_not_on_a_share(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, folder, f"30 22 0:9 / {folder.resolve()}/staging rw - tmpfs x rw")
    assert checked(folder, STAGING) == []
    mounted(monkeypatch, folder, f"30 22 0:9 / {folder.resolve()}/staging rw - fuse.sshfs x rw")
    assert told(checked(folder, STAGING)) == [("E332", 3, "dir")]


def test_only_staged_sources_must_be_on_another_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "share_device", lambda first, second: True)
    (found,) = checked(folder, STAGING)
    assert told([found]) == [("E333", 3, "dir")]
    assert f"staged source {folder}/orders.csv" in found.message
    assert checked(folder, STAGING.replace("*.csv", "*.json")) == []
    assert checked(folder, STAGING.replace("true", "false")) == []


def test_devices_are_those_of_the_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert [item.code for item in checked(folder, STAGING)] == [codes.E333]


@pytest.mark.parametrize("spill", ["staging", "link", "staging/../staging"])
def test_spilled_and_staged_data_have_folders_of_their_own(folder: Path, spill: str) -> None:
    (folder / "link").symlink_to(folder / "staging")
    found = checked(folder, f'[storage.spill]\ndir = "{spill}"\n' + STAGING)
    assert told(found) == [("E334", 5, "dir")]
    assert str(folder.resolve() / "staging") in found[0].message


@pytest.mark.parametrize(
    ("table", "before"), [("spill", "[storage.spill]\n"), ("staging", "[storage.staging]\nenabled = true\n")]
)
@pytest.mark.parametrize(
    ("path", "message"), [("missing", "does not exist; create it"), ("orders.csv", "is a file, not a directory")]
)
def test_folders_exist(folder: Path, table: str, before: str, path: str, message: str) -> None:
    (found,) = checked(folder, f'{before}dir = "{path}"\n')
    assert told([found]) == [("E340", before.count("\n") + 1, "dir")]
    assert f"storage.{table}.dir {folder}/{path} {message}" in found.message


def test_folders_are_written_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # /proc takes no new files, whoever asks.
    found = checked(folder, '[storage.spill]\ndir = "/proc/self"\n')
    assert [item.code.id for item in found] == ["E340"]
    assert "storage.spill.dir /proc/self is not writable: " in found[0].message


def test_the_proof_that_a_folder_can_be_written_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill at any moment leaves nothing."""
    try:
        os.close(os.open(tmp_path, os.O_WRONLY | os.O_TMPFILE))
    except OSError:
        pytest.skip("this file system has no files without names")
    seen: list[int] = []
    opened = os.open

    def look(path: object, flags: int, *more: int, **options: int) -> int:
        found = opened(path, flags, *more, **options)  # type: ignore[call-overload]
        seen.append(len(os.listdir(tmp_path)))
        return found

    monkeypatch.setattr(os, "open", look)
    found = Diagnostics()
    checks = storage_checks._Checks(Storage(spill_dir=str(tmp_path)), found)
    assert checks._is_usable("spill.dir", str(tmp_path))
    assert set(seen) == {0}


def test_a_staging_folder_has_to_be_named_and_patterns_mean_something(folder: Path) -> None:
    (folder / "clinker.toml").write_text('[storage.staging]\nenabled = true\npatterns = ["*.csv", "/mnt/[a"]\n')
    found = problems(folder, ORDERS + OUTPUT)
    assert told(found) == [("E340", 2, "enabled"), ("E340", 3, "patterns")]
    assert "storage.staging.enabled is true but storage.staging.dir is not set" in found[0].message
    assert found[1].message == (
        'storage.staging.patterns entry "/mnt/[a" is not a valid glob: a bracket is never closed'
    )
    (folder / "clinker.toml").write_text('[storage.staging]\npatterns = ["/mnt/[a"]\n')
    assert problems(folder, ORDERS + OUTPUT) == []


@pytest.mark.parametrize(
    ("toml", "line", "marked", "meant"),
    [
        ("[stoarge.staging]\nenabled = true\n", 1, "[stoarge.staging]", "storage"),
        ('[chanels]\ndir = "c"\n', 1, "[chanels]", "channels"),
        ('\n[spill]\ndir = "x"\n', 2, "[spill]", "storage.spill"),
        ("Stagging.enabled = true\n", 1, "Stagging", "storage.staging"),
    ],
)
def test_a_table_that_is_called_nearly_like_ours_is_refused(
    folder: Path, toml: str, line: int, marked: str, meant: str
) -> None:
    (folder / "clinker.toml").write_text(toml)
    found = problems(folder, ORDERS + OUTPUT)
    assert told(found) == [("E340", line, marked)]
    assert found[0].message.startswith("invalid clinker.toml: unknown table `")
    assert found[0].message.endswith(f"`; did you mean `{meant}`?")


def test_tables_of_others_are_left_alone(folder: Path) -> None:
    (folder / "clinker.toml").write_text('[workspace]\nname = "x"\n[tool.other]\ndir = 1\n')
    assert problems(folder, ORDERS + OUTPUT) == []


def test_patterns_with_folders_start_where_the_file_is(folder: Path) -> None:
    (folder / "clinker.toml").write_text(STAGING.replace("*.csv", "./*.csv"))
    staging = planned(folder, ORDERS + OUTPUT).storage.staging
    assert staging is not None
    assert staging.patterns == (f"{folder}/*.csv",)


def test_all_problems_are_told_together_and_no_warning_beside_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, folder, f"30 22 0:9 / {folder.resolve()}/staging rw - nfs x rw")
    monkeypatch.setattr(volumes, "share_device", lambda first, second: True)
    monkeypatch.setattr(volumes, "free_bytes", lambda path: 0)
    found = checked(folder, '[storage.spill]\ndir = "staging"\n' + STAGING, GROUPED)
    assert [item.code.id for item in found] == ["E331", "E332", "E333", "E334"]


def test_settings_in_an_inline_table_point_at_it(folder: Path) -> None:
    found = checked(folder, '[storage]\nspill = { dir = "missing" }\n')
    assert told(found) == [("E340", 2, "spill")]


SIZE = len("id,customer,amount,note\n1,2,3,4\n")


@pytest.mark.parametrize(("free", "warned"), [(SIZE - 1, ["W330"]), (SIZE, [])])
def test_too_little_space_is_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch, free: int, warned: list[str]
) -> None:
    monkeypatch.setattr(volumes, "free_bytes", lambda path: free)
    found = checked(folder, '[storage.spill]\ndir = "spill"\n', GROUPED)
    assert [item.code.id for item in found] == warned
    assert not any(item.is_error for item in found)
    if warned:
        assert f"{folder}/spill has {free} bytes free but the run is estimated to spill up to {SIZE} bytes" in str(
            found
        )


@pytest.mark.parametrize(("cap", "warned"), [(SIZE * 10 // 8 + 2, []), (SIZE * 10 // 8, ["W331"]), (0, ["W331"])])
def test_a_cap_that_is_nearly_used_is_a_warning(folder: Path, cap: int, warned: list[str]) -> None:
    found = checked(folder, f"[storage.spill]\ndisk_cap_bytes = {cap}\n", GROUPED)
    assert [item.code.id for item in found] == warned
    assert told(found) == [(code, 2, "disk_cap_bytes") for code in warned]


def test_without_a_stage_that_spills_nothing_is_estimated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "free_bytes", lambda path: 0)
    (folder / "clinker.toml").write_text("[storage.spill]\ndisk_cap_bytes = 1\n")
    plan = planned(folder, ORDERS + OUTPUT)
    found = Diagnostics()

    def unasked() -> dict[str, inputs.Discovered]:
        raise AssertionError("files were looked for")

    storage_checks.check(plan, unasked, found)
    assert len(found) == 0


def test_inputs_that_are_missing_leave_the_estimate_open(folder: Path) -> None:
    (folder / "orders.csv").unlink()
    assert checked(folder, "[storage.spill]\ndisk_cap_bytes = 1\n" + STAGING, GROUPED) == []


@pytest.mark.parametrize(
    ("toml", "marked"),
    [
        ('[storage.spill]\ndir = "out/deep"\n', [("E322", 2)]),
        (STAGING.replace('"staging"', '"out"'), [("E322", 3)]),
        (STAGING, []),
    ],
)
def test_no_folder_of_a_run_is_among_the_parts_of_an_output(
    folder: Path, toml: str, marked: list[tuple[str, int]]
) -> None:
    (folder / "out" / "deep").mkdir(parents=True)
    found = checked(folder, toml, ORDERS + OUTPUT.replace("out.csv", "out, parts: true"))
    assert [(code, line) for code, line, _ in told(found)] == marked
