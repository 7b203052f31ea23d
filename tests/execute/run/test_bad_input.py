"""Bad input: a clear message with code and place, the documented exit status, nothing lost, no litter.

Everything goes through the command line, with jobs run in this process.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats import splits
from tests.execute import pipelines, without_spark
from tests.execute.bad_runs import PIPELINE, prepare, run

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_file(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    refused(4, "error[E216]: source 'rows': ", "in/rows.csv", "pipeline.yaml:6:43")


def test_a_folder_in_place_of_a_file(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    (tmp_path / "in/rows.csv").mkdir()
    refused(4, "source 'rows': in/rows.csv: ", "pipeline.yaml:6:43")


def test_a_file_in_place_of_a_folder(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "in/rows.csv").unlink()
    (tmp_path / "in").rmdir()
    (tmp_path / "in").write_text("no folder")
    refused(4, "source 'rows': in/rows.csv: ", "pipeline.yaml:6:43")


@pytest.mark.parametrize("matcher", ["path: in/link.csv", "paths: [in/link.csv]", "glob: in/l*.csv"])
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("-n", "1")], ids=" ".join)
def test_a_link_out_of_the_folder(
    matcher: str, options: tuple[str, ...], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, refused: Any
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "rows.csv"
    outside.write_text("a,b\n1,x\n")
    prepare(tmp_path, pipeline=PIPELINE.replace("path: in/rows.csv", matcher))
    (tmp_path / "in/link.csv").symlink_to(outside)
    refused(1, "error[E-SEC-001]: ", "via symlink", "pipeline.yaml:6:", options=(*options, "--force"))


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_permissions(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    file = tmp_path / "in/rows.csv"
    file.chmod(0)
    try:
        refused(4, "source 'rows': in/rows.csv: permission denied", "pipeline.yaml:6:43")
    finally:
        file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def test_a_file_that_may_not_be_opened(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.scan import files

    class Closed:
        def open_input_file(self, path: str) -> None:
            raise PermissionError(
                errno.EACCES, f"Failed to open local file '{path}'. Detail: [errno 13] Permission denied"
            )

    prepare(tmp_path)
    monkeypatch.setattr(files, "_local", Closed)
    refused(4, "error[E900]: source 'rows': in/rows.csv: permission denied", "pipeline.yaml:6:43")


def test_a_folder_that_may_not_be_listed(tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, pipeline=PIPELINE.replace("path: in/rows.csv", "glob: in/*.csv"))
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path).rstrip("/").endswith("/in"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    refused(4, "error[E900]: source 'rows': in/: ", "Permission denied", "pipeline.yaml:6:43", unchanged=False)
    assert pipelines.outputs(tmp_path) == {"copy.csv": b"old\n"}


@pytest.mark.parametrize("content", ["", "\n", "a,b\n", "a,b"], ids=["empty", "a line end", "header", "open header"])
def test_no_records_are_no_error(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    prepare(tmp_path, content)
    assert run(tmp_path, "--force") == 0
    assert pipelines.outputs(tmp_path) == {"copy.csv": b"a,b\n"}
    assert "0 total, 0 ok, 0 written, 0 dlq" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("header", "says"),
    [("b,a,tip", "has an undeclared column 'tip' (expected a, b)"), ("a,b,b", "names column 'b' twice")],
)
def test_a_second_file_with_columns_that_do_not_fit(header: str, says: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path, pipeline=PIPELINE.replace("path: in/rows.csv,", "glob: in/*.csv, on_unmapped: reject,"))
    pipelines.write(tmp_path, {"in/second.csv": f"{header}\n1,2,3\n"})
    refused(4, "error[E217]: source 'rows': in/second.csv: ", says, "pipeline.yaml:6:43")


#: What stands in the file's second record, and what is said of it.
MALFORMED = {
    "too few": (b"a,b\n1,x\n2\n3,z\n", "record has 1 fields, expected 2"),
    "too many": (b"a,b\n1,x\n2,y,?\n3,z\n", "record has 3 fields, expected 2"),
    "undecodable": (b"a,b\n1,x\n2,\xff\xfe\n3,z\n", "bytes are no utf-8 text"),
    "unterminated quote": (b'a,b\n1,x\n3,z\n2,"y\n', "quote"),
}


@pytest.mark.parametrize("split_bytes", [10**9, 8], ids=["one split", "many splits"])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_stops_a_strict_run(
    name: str, split_bytes: int, tmp_path: Path, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, detail = MALFORMED[name]
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    prepare(tmp_path, content)
    row = 3 if name == "unterminated quote" else 2
    refused(4, f"in/rows.csv, row {row}: ", detail, "stage source:rows")


@pytest.mark.parametrize("split_bytes", [10**9, 8], ids=["one split", "many splits"])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_record_is_a_dead_letter_of_a_patient_run(
    name: str, split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    content, detail = MALFORMED[name]
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    prepare(tmp_path, content, "continue")
    assert run(tmp_path, "--force", "--quiet") == 2
    published = pipelines.outputs(tmp_path)
    assert published["copy.csv"] == b"a,b\n1,x\n3,z\n"
    letters = published["dead.csv"].decode()
    assert len(letters.splitlines()) == 2
    assert "malformed_record" in letters
    assert detail in letters


@pytest.mark.slow
@pytest.mark.parametrize("split_bytes", [10**9, 4 << 20], ids=["one split", "splits inside the cell"])
def test_a_cell_of_ten_megabytes(split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    cell = '"' + ("wide, with quotes " * 1000 + "and\nlines;") * (10 * 1024 * 1024 // 18_000) + '"'
    content = f"a,b\n1,x\n2,{cell}\n3,z\n".encode()
    prepare(tmp_path, content)
    assert run(tmp_path, "--force", "--quiet") == 0
    assert pipelines.outputs(tmp_path) == {"copy.csv": content}


# ---- pipelines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "E000"),
        ("- just\n- a list\n", "pipeline.yaml:1:1"),
        ("hello: [1, 2\n", "E000"),
        ("\x00\x01\x02", "E000"),
        ("pipeline: {name: x}\n", "nodes"),
    ],
    ids=["empty", "a list", "broken", "binary", "without nodes"],
)
def test_yaml_that_is_no_pipeline(text: str, says: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").write_text(text)
    refused(1, "error", says, "pipeline.yaml")


def test_a_pipeline_of_other_bytes(tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").write_bytes(b"pipeline: {name: \xff\xfe}\n")
    refused(1, "E000", "pipeline.yaml")


@pytest.mark.parametrize("kind", ["missing", "a folder"])
def test_a_pipeline_that_cannot_be_read(kind: str, tmp_path: Path, refused: Any) -> None:
    prepare(tmp_path)
    (tmp_path / "pipeline.yaml").unlink()
    if kind == "a folder":
        (tmp_path / "pipeline.yaml").mkdir()
    refused(1, "error", "pipeline.yaml")


def test_a_cycle(tmp_path: Path, refused: Any) -> None:
    nodes = (
        "  - {type: transform, name: one, input: two, config: {cxl: emit c = 1}}\n"
        "  - {type: transform, name: two, input: one, config: {cxl: emit d = 1}}\n"
    )
    prepare(tmp_path, pipeline=PIPELINE + nodes)
    refused(1, "error[E003]", "one", "two", "pipeline.yaml:")
