"""The result record: written in one step, read by the right reader only."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs import contract, result

if TYPE_CHECKING:
    from pathlib import Path

FULL = result.RunResult(
    execution_id="orders.1",
    exit_code=2,
    pipeline_name="orders",
    records_total=12,
    records_ok=9,
    records_written=9,
    records_filtered=1,
    records_dlq=2,
    dlq_path="/o/tôt.csv",
    dlq_paths=("/o/tôt.csv", "/o/b.csv"),
    dlq_count=2,
    dlq_reasons=({"stage": "transform:t", "count": 2, "example": {"row": 1}},),
    dlq_categories={"validation_failure": 2},
    output_files=("/o/a.csv", "/o/b.ndjson"),
    outputs=({"name": "a", "records": 4, "files": 1}, {"name": "b", "records": 5, "files": 1}),
    inputs=({"name": "s", "records": 12, "files": 3},),
    metrics_path="/o/m.json",
    metrics={"duration_ms": 12, "mode": "batch", "rate": 0.5, "none": None},
    nodes={"s": {"kind": "source", "records_in": 12}},
    started_at="2026-01-02T03:04:05+00:00",
    phases_ms={"inputs": 5, "job 0": 7},
    application_id="local-17",
    error=result.RunError("E304", "no such field", "p.yaml:1:2"),
)


def test_record_survives_the_file(tmp_path: Path) -> None:
    path = result.write(tmp_path, FULL)
    assert path == tmp_path / "orders.1" / contract.RESULT_FILE
    assert result.read(tmp_path, "orders.1") == FULL
    assert [item.name for item in path.parent.iterdir()] == [contract.RESULT_FILE]


def test_record_survives_the_line() -> None:
    line = result.sentinel_line(FULL)
    assert "\n" not in line
    assert line.isascii()
    assert result.parse_line(f"  {line}\r\n") == FULL


def test_record_carries_what_the_contract_lists() -> None:
    document = FULL.to_dict()
    assert document["schema_version"] == 1
    assert document["status"] == "partial_success"
    assert set(document) == {
        *("schema_version", "execution_id", "exit_code", "status", "pipeline_name", "records_total", "records_ok"),
        *("records_written", "records_filtered", "records_deduplicated", "records_dlq", "dlq_path", "dlq_count"),
        *("dlq_paths", "dlq_reasons", "dlq_reasons_more", "dlq_reasons_more_count", "rules", "taken_from"),
        *("dlq_categories", "started_at", "phases_ms"),
        *("output_files", "outputs", "inputs", "metrics_path", "metrics", "nodes", "application_id", "error"),
    }


def test_missing_record_is_none(tmp_path: Path) -> None:
    assert result.read(tmp_path, "other") is None


def test_record_of_another_execution_is_refused(tmp_path: Path) -> None:
    result.write(tmp_path, FULL)
    (tmp_path / "orders.1").rename(tmp_path / "orders.2")
    with pytest.raises(result.MalformedResult, match=r"belongs to execution 'orders\.1'"):
        result.read(tmp_path, "orders.2")


def test_later_keys_are_passed_over() -> None:
    assert result.of_dict({**FULL.to_dict(), "spilled_bytes": 7}) == FULL


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "is an object"),
        ({}, "schema_version is None"),
        ({**FULL.to_dict(), "schema_version": 2}, "schema_version is 2"),
        ({**FULL.to_dict(), "exit_code": "0"}, "exit_code"),
        ({**FULL.to_dict(), "exit_code": True}, "exit_code"),
        ({**FULL.to_dict(), "execution_id": None}, "execution_id"),
        ({**FULL.to_dict(), "records_total": "5"}, "records_total is str, not int"),
        ({**FULL.to_dict(), "pipeline_name": 5}, "pipeline_name is int, not str"),
        ({**FULL.to_dict(), "output_files": 5}, "output_files is int, not list"),
        ({**FULL.to_dict(), "metrics": ["a"]}, "metrics is list, not dict"),
    ],
)
def test_malformed_records_are_refused(record: object, message: str) -> None:
    with pytest.raises(result.MalformedResult, match=message):
        result.of_dict(record)


def test_the_record_of_an_older_job_has_one_dead_letter_file() -> None:
    document = {key: value for key, value in FULL.to_dict().items() if key not in ("dlq_paths", "dlq_reasons")}
    found = result.of_dict(document)
    assert (found.dlq_paths, found.dlq_reasons) == (("/o/tôt.csv",), ())


def test_torn_line_is_refused_and_other_lines_are_none() -> None:
    assert result.parse_line("26/11/21 INFO SparkContext: CLINKER_RESULT {}") is None
    assert result.parse_line("") is None
    with pytest.raises(result.MalformedResult, match="not JSON"):
        result.parse_line('CLINKER_RESULT {"schema_version":1,')
    for bottomless in ("[" * 100_000, "9" * 10_000):
        with pytest.raises(result.MalformedResult):
            result.parse_line(f"CLINKER_RESULT {bottomless}")


def test_failed_write_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result.write(tmp_path, FULL)

    def refuse(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        result.write(tmp_path, FULL)
    monkeypatch.undo()
    assert [item.name for item in (tmp_path / "orders.1").iterdir()] == [contract.RESULT_FILE]
    assert result.read(tmp_path, "orders.1") == FULL


def test_record_names_files_that_utf_8_cannot(tmp_path: Path) -> None:
    record = replace(FULL, error=result.RunError("E900", "cannot read dir\udcff/a.csv"))
    result.write(tmp_path, record)
    assert result.read(tmp_path, "orders.1") == record
