"""Inputs that change while a run reads them: one version of each file is in the outputs, or there are none."""

from __future__ import annotations

import gzip
import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from spark_jobs.contract import ExitCode
from spark_jobs.disk import volumes
from spark_jobs.execute import inputs
from spark_jobs.execute.dlq import files
from spark_jobs.execute.run import unpacked, work
from spark_jobs.formats import splits
from spark_jobs.scan import changes
from spark_jobs.scan.staging import staging
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from spark_jobs.result import RunResult

ROWS = 2_000
PIPELINE = """
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
nodes:
  - {type: source, name: s, config: {type: FORMAT, path: in.data, options: OPTIONS, schema: {id: string, pad: string}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit row = ROW"}}
  - {type: output, name: o, input: t, config: {type: csv, path: out/o.csv}}
"""


FIELDS = "{}, format_schema: {fields: [{name: id, start: 0, width: 7}, {name: pad, start: 7, width: 6}]}"


@dataclass(frozen=True)
class Kind:
    """A way to write records of one length."""

    format: str
    options: str
    is_lines: bool = False
    encoding: str = "utf-8"
    is_packed: bool = False

    def data(self, word: str = "old", rows: int = ROWS) -> bytes:
        found = self._text(word, rows).encode(self.encoding)
        return gzip.compress(found, compresslevel=0, mtime=0) if self.is_packed else found

    def _text(self, word: str, rows: int) -> str:
        if self.format == "csv":
            lines = ["id,pad", *(f"{row:07},{word}" for row in range(rows)), ""]
        elif self.format == "fixed_width":
            lines = [*(f"{row:07}{word:6}" for row in range(rows)), ""]
        elif self.format == "xml":
            lines = ["<a>", *(f"<r><id>{row:07}</id><pad>{word}</pad></r>" for row in range(rows)), "</a>"]
        else:
            lines = [json.dumps({"id": f"{row:07}", "pad": word}) for row in range(rows)]
            lines = [*lines, ""] if self.is_lines else ["[" + ",\n".join(lines) + "]"]
        return "\n".join(lines)


KINDS = {
    "csv": Kind("csv", "{}"),
    "utf-16": Kind("csv", "{encoding: utf-16}", encoding="utf-16"),
    "ndjson": Kind("json", "{format: ndjson}", is_lines=True),
    "array": Kind("json", "{format: array}"),
    "xml": Kind("xml", "{record_path: a/r}"),
    "fixed_width": Kind("fixed_width", FIELDS),
    "gzip": Kind("csv", "{compression: gzip}", is_packed=True),
    "packed lines": Kind("json", "{format: ndjson, compression: gzip}", is_lines=True, is_packed=True),
}


@pytest.fixture(autouse=True)
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "10000")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    kind = KINDS[request.param]
    if kind.is_packed:
        # Larger ones are unpacked first: a copy is read then.
        monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "10000000")
    return kind


def prepare(folder: Path, kind: Kind, row: str = "1") -> Path:
    text = PIPELINE.replace("FORMAT", kind.format).replace("OPTIONS", kind.options).replace("ROW", row)
    pipelines.write(folder, {"pipeline.yaml": text, "in.data": kind.data()})
    return folder / "in.data"


def run(folder: Path, **options: Any) -> RunResult:
    return pipelines.run(folder, **options).result


def changed(folder: Path, why: str, **options: Any) -> None:
    """The run ends with the code of a changed input, and publishes nothing."""
    found = run(folder, **options)
    assert found.error is not None
    assert (found.exit_code, found.error.code) == (ExitCode.IO, "E907"), found.error
    assert why in found.error.message
    assert "in.data" in found.error.message
    assert not (folder / "out").exists() or pipelines.outputs(folder) == {}


def once(monkeypatch: pytest.MonkeyPatch, where: object, name: str, act: Callable[[], object], turn: int = 1) -> None:
    """Act before the given call of a function."""
    real, calls = getattr(where, name), [0]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == turn:
            act()
        return real(*arguments, **options)

    monkeypatch.setattr(where, name, wrapped)


def before_jobs(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    once(monkeypatch, work.Work, "all_jobs", act)


def while_read(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], turn: int = 1) -> None:
    """Act in the middle of the jobs, before some bytes are read."""
    before_jobs(monkeypatch, lambda: once(monkeypatch, changes.Stream, "read", act, turn))


def replaced(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    os.replace(other, path)


def test_one_that_stays_is_read(tmp_path: Path, kind: Kind) -> None:
    prepare(tmp_path, kind)
    assert run(tmp_path).error is None
    assert pipelines.outputs(tmp_path)["o.csv"].count(b"old") == ROWS


def test_truncated_while_it_is_read(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    while_read(monkeypatch, lambda: os.truncate(path, 7_000))
    changed(tmp_path, "became shorter")


@pytest.mark.parametrize("turn", range(2, 9))
def test_truncated_in_any_split(tmp_path: Path, turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["csv"])
    while_read(monkeypatch, lambda: os.truncate(path, 7_000), turn)
    changed(tmp_path, "became shorter")


def test_replaced_by_one_of_the_same_size(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    status = path.stat()

    def act() -> None:
        replaced(path, kind.data("NEW"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    while_read(monkeypatch, act)
    changed(tmp_path, "replaced")


def test_written_again_in_place_with_its_time_set_back(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(tmp_path, kind)
    status = path.stat()

    def act() -> None:
        time.sleep(0.02)  # the system's clock for files has ticks
        with path.open("r+b") as file:
            file.write(kind.data("NEW"))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (path.stat().st_ino, path.stat().st_size) == (status.st_ino, status.st_size)

    while_read(monkeypatch, act)
    changed(tmp_path, "its time set back")


def test_replaced_by_a_longer_one(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    before_jobs(monkeypatch, lambda: replaced(path, kind.data("old", 2 * ROWS)))
    changed(tmp_path, "replaced")


@pytest.mark.parametrize("word", ["NEW", "LONGER"])
def test_written_again_in_place(tmp_path: Path, kind: Kind, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    while_read(monkeypatch, lambda: path.write_bytes(kind.data(word)))
    changed(tmp_path, "written again")


def test_written_again_between_the_counting_and_the_reading(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = prepare(tmp_path, kind, "$source.row")
    once(monkeypatch, inputs.Inputs, "with_rows", lambda: path.write_bytes(kind.data("LONGER")))
    changed(tmp_path, "written again")


def test_written_again_between_discovery_and_the_first_reading(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the names of JSON records are read before they are."""
    path = prepare(tmp_path, kind)
    once(monkeypatch, inputs, "_scan", lambda: path.write_bytes(kind.data("NEW")))
    changed(tmp_path, "written again")


@pytest.mark.parametrize("moment", ["read", "done"])
def test_removed(tmp_path: Path, kind: Kind, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    if moment == "read":
        while_read(monkeypatch, path.unlink)
    else:
        once(monkeypatch, files, "deliver", path.unlink)
    changed(tmp_path, "removed")


def test_written_again_when_all_was_read(tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, kind)
    once(monkeypatch, files, "deliver", lambda: path.write_bytes(kind.data("NEW")))
    changed(tmp_path, "written again")


def test_what_is_appended_is_left_out_with_a_warning(
    tmp_path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = prepare(tmp_path, kind)

    def append() -> None:
        with path.open("ab") as file:
            file.write(kind.data("NEW", 500))

    while_read(monkeypatch, append)
    found = run(tmp_path)
    assert (found.exit_code, found.error) == (ExitCode.SUCCESS, None)
    written = pipelines.outputs(tmp_path)["o.csv"]
    assert (written.count(b"old"), written.count(b"NEW")) == (ROWS, 0)
    assert f"W211: in.data grew by {len(kind.data('NEW', 500))} bytes" in caplog.text


def test_a_record_that_was_half_written_stays_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its splits are cut: the rest of the record is behind the end that the run knows."""
    path = prepare(tmp_path, KINDS["csv"])
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    before_jobs(monkeypatch, lambda: path.write_bytes(whole + b"9999999,NEW\n" * 9))
    for size in (len(whole) - 8, len(whole) - 3, 1000, 200):
        monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(size))
        assert run(tmp_path, force=True).error is None
        assert pipelines.outputs(tmp_path)["o.csv"].endswith(f"{ROWS - 1:07},ol,1\n".encode())
        path.write_bytes(whole[:-2])
        before_jobs(monkeypatch, lambda: path.write_bytes(whole + b"9999999,NEW\n" * 9))


def test_a_packed_file_must_stay_until_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["gzip"])

    def write_again() -> None:
        path.write_bytes(KINDS["gzip"].data("NEW"))

    once(monkeypatch, unpacked, "unpack", lambda: once(monkeypatch, changes.Stream, "read", write_again))
    changed(tmp_path, "written again")


def test_a_packed_file_may_change_behind_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["gzip"])
    before_jobs(monkeypatch, lambda: path.write_bytes(KINDS["gzip"].data("NEW")))
    assert run(tmp_path).error is None
    assert pipelines.outputs(tmp_path)["o.csv"].count(b"old") == ROWS


def test_a_build_side_is_an_input_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["csv"])
    text = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: b, config: {type: csv, path: in.data, schema: {id: string, pad: string}}}
      - {type: source, name: d, config: {type: csv, path: keys.csv, schema: {id: string}}}
      - type: combine
        name: c
        input: {d: d, b: b}
        config: {where: d.id == b.id, drive: d, cxl: "emit pad = b.pad"}
      - {type: output, name: o, input: c, config: {type: csv, path: out/o.csv}}
    """
    pipelines.write(tmp_path, {"pipeline.yaml": text, "keys.csv": "id\n0000003\n"})
    while_read(monkeypatch, lambda: os.truncate(path, 7_000))
    changed(tmp_path, "became shorter")


def test_what_dead_letters_read_again_is_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["csv"])
    text = """
    pipeline: {name: p}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    nodes:
      - {type: source, name: s, config: {type: csv, path: in.data, schema: {id: string, pad: string}}}
      - {type: aggregate, name: a, input: s, config: {group_by: [pad], cxl: "emit n = sum(id.to_int()) / 0"}}
      - {type: output, name: o, input: a, config: {type: csv, path: out/o.csv}}
    """
    pipelines.write(tmp_path, {"pipeline.yaml": text})
    once(monkeypatch, files, "write", lambda: path.write_bytes(KINDS["csv"].data("NEW")))
    changed(tmp_path, "written again")


def stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the sources copied to a folder that is taken for another device."""
    monkeypatch.setattr(volumes, "share_device", lambda *_: False)
    (folder / "staging").mkdir()
    settings = '[storage.staging]\nenabled = true\ndir = "staging"\npatterns = ["**"]\n'
    (folder / "clinker.toml").write_text(settings)


def test_a_source_that_changes_while_it_is_staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["csv"])
    stage(tmp_path, monkeypatch)
    once(monkeypatch, staging, "_copied", lambda: path.write_bytes(KINDS["csv"].data("NEW")))
    changed(tmp_path, "written again")


def test_a_staged_source_may_change_behind_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(tmp_path, KINDS["csv"])
    stage(tmp_path, monkeypatch)
    before_jobs(monkeypatch, lambda: path.write_bytes(KINDS["csv"].data("NEW")))
    assert run(tmp_path).error is None
    assert pipelines.outputs(tmp_path)["o.csv"].count(b"old") == ROWS


def test_a_staged_copy_is_compared_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, KINDS["csv"])
    stage(tmp_path, monkeypatch)

    def cut() -> None:
        for copy in (tmp_path / "staging").glob("*.staged"):
            os.truncate(copy, 100)

    while_read(monkeypatch, cut)
    changed(tmp_path, "became shorter")
