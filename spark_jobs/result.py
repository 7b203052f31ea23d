"""The result record by which a run reports its outcome to its scheduler.

The job writes `<work dir>/<execution id>/result.json` in one step and prints the same record as one line that starts
with the sentinel. The folder may be one of a store (`spark_jobs/stores/results.py`). Whoever started the job trusts
this record, not the return code of `spark-submit`, which is also 2 for a missing file and 0 for some failed cluster
runs. Standard library only.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The types of metrics values. XCom carries these without conversion.
Scalar = str | int | float | bool | None
#: Values that JSON has as lists and objects.
_COLLECTIONS: dict[str, type[list[Any] | dict[str, Any]]] = {
    "output_files": list,
    "outputs": list,
    "inputs": list,
    "metrics": dict,
    "nodes": dict,
    "dlq_paths": list,
    "dlq_reasons": list,
    "dlq_categories": dict,
    "phases_ms": dict,
    "rules": list,
}


class MalformedResult(ValueError):
    """A result record that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True)
class RunError:
    """Why a run failed: a diagnostic's code (or an exception's name), its message, and `path:line:col` when known."""

    code: str
    message: str
    span: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in (self.span, self.code, self.message) if part)


@dataclass(frozen=True)
class RunResult:
    """The result of one run. Counts are records; paths are as the job sees them; `metrics` holds scalars only.

    `outputs` says of each output its `name`, its `records` and how many `files` it has: those are the next ones of
    `output_files`. `inputs` says the same of the sources whose files are known.
    `nodes` says of each node, in the order of the plan, its `kind` and how many records it got, handed on, filtered,
    deduplicated and found `dead`.
    `taken_from` is the execution id of an earlier attempt that had done everything, so that this one did nothing.
    `dlq_path` is the first of `dlq_paths`: the common dead-letter file, where it has entries. `dlq_reasons` says why
    records died, the commonest reason first: `stage`, `field`, `category`, `count`, and an `example` with `file`,
    `source`, `row`, `is_aggregated`, `value` and `detail`. `dlq_reasons_more` further reasons have
    `dlq_reasons_more_count` dead letters. `dlq_categories` counts all dead letters by their category.
    `started_at` is the start in ISO 8601, and `phases_ms` the milliseconds of each phase, in the order of their first
    beginning.
    `rules` says of each rule on data its `node`, `name`, `kind`, `rule` and
    `severity`, how many records break it (`broken`), and the `value` that a rule on all records is about.
    """

    execution_id: str
    exit_code: int
    pipeline_name: str = ""
    records_total: int = 0
    records_ok: int = 0
    records_written: int = 0
    records_filtered: int = 0
    records_deduplicated: int = 0
    records_dlq: int = 0
    dlq_path: str | None = None
    dlq_paths: tuple[str, ...] = ()
    dlq_count: int = 0
    dlq_reasons: tuple[Mapping[str, Any], ...] = ()
    dlq_reasons_more: int = 0
    dlq_reasons_more_count: int = 0
    dlq_categories: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    output_files: tuple[str, ...] = ()
    outputs: tuple[Mapping[str, Any], ...] = ()
    inputs: tuple[Mapping[str, Any], ...] = ()
    metrics_path: str | None = None
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    started_at: str | None = None
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    application_id: str | None = None
    taken_from: str | None = None
    error: RunError | None = None

    @property
    def status(self) -> contract.Status:
        """The word for the exit code."""
        return contract.status_of(self.exit_code)

    @property
    def records(self) -> dict[str, int]:
        """The record counts under their short names: total, ok, written, filtered, deduplicated, dlq."""
        prefix = "records_"
        return {key.removeprefix(prefix): value for key, value in asdict(self).items() if key.startswith(prefix)}

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON knows it, with its schema version and its status."""
        return {
            "schema_version": contract.RESULT_SCHEMA_VERSION,
            "status": self.status.value,
            **asdict(self),
            "output_files": list(self.output_files),
            "outputs": list(self.outputs),
            "inputs": list(self.inputs),
            "dlq_paths": list(self.dlq_paths),
            "dlq_reasons": list(self.dlq_reasons),
            "dlq_categories": dict(self.dlq_categories),
            "rules": list(self.rules),
            "metrics": dict(self.metrics),
            "nodes": dict(self.nodes),
            "phases_ms": dict(self.phases_ms),
        }


def of_dict(record: object) -> RunResult:
    """The record that JSON gave.

    Unknown keys are passed over, so that an older provider reads a newer job's record of the same schema version.

    Raises:
        MalformedResult: when it is no record, or one of another schema version.
    """
    if not isinstance(record, dict):
        raise MalformedResult(f"a result record is an object, this is {type(record).__name__}")
    version = record.get("schema_version")
    if version != contract.RESULT_SCHEMA_VERSION:
        raise MalformedResult(f"schema_version is {version!r}, this program reads {contract.RESULT_SCHEMA_VERSION}")
    known = {item.name: item for item in fields(RunResult)}
    values = {key: value for key, value in record.items() if key in known}
    if not isinstance(values.get("execution_id"), str) or type(values.get("exit_code")) is not int:
        raise MalformedResult("execution_id (text) and exit_code (integer) are required")
    for key, value in values.items():
        plain = type(known[key].default)
        if plain in (int, str) and type(value) is not plain:
            raise MalformedResult(f"{key} is {type(value).__name__}, not {plain.__name__}")
    for key, kind in _COLLECTIONS.items():
        if not isinstance(values.get(key) or kind(), kind):
            raise MalformedResult(f"{key} is {type(values[key]).__name__}, not {kind.__name__}")
    error = values.get("error")
    if isinstance(error, dict):
        values["error"] = RunError(str(error.get("code", "")), str(error.get("message", "")), error.get("span"))
    for key in ("output_files", "outputs", "inputs", "dlq_paths", "dlq_reasons", "rules"):
        values[key] = tuple(values.get(key) or ())
    if not values["dlq_paths"] and values.get("dlq_path"):
        values["dlq_paths"] = (values["dlq_path"],)  # an older job knows of one
    for key in ("dlq_categories", "metrics", "nodes", "phases_ms"):
        values[key] = dict(values.get(key) or {})
    return RunResult(**values)


def path_of(work_dir: Path, execution_id: str) -> Path:
    """Where the record of an execution is."""
    return work_dir / execution_id / contract.RESULT_FILE


def encoded(result: RunResult) -> bytes:
    """The record as the content of its file."""
    # ASCII only: the name of a file may have bytes that UTF-8 cannot hold.
    return (json.dumps(result.to_dict(), indent=2) + "\n").encode("ascii")


def decoded(content: bytes, execution_id: str, where: object) -> RunResult:
    """The record that a file holds.

    Args:
        content: the file's bytes.
        execution_id: whose record it has to be.
        where: the file, for messages.

    Raises:
        MalformedResult: the content is no record of this execution.
    """
    result = _parse(content.decode("utf-8", "replace"))
    if result.execution_id != execution_id:
        raise MalformedResult(f"{where} belongs to execution {result.execution_id!r}, not {execution_id!r}")
    return result


def write(work_dir: Path, result: RunResult) -> Path:
    """Write the record so that a reader sees all of it or nothing; returns its path.

    Raises:
        OSError: when the folder cannot be written.
    """
    target = path_of(work_dir, result.execution_id)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{contract.RESULT_FILE}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encoded(result))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def read(work_dir: Path, execution_id: str) -> RunResult | None:
    """The record of this execution, or None if there is none.

    Raises:
        MalformedResult: when a file is there but is no record of this execution.
    """
    path = path_of(work_dir, execution_id)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return decoded(content, execution_id, path)


def sentinel_line(result: RunResult) -> str:
    """The record as the one line that the job prints."""
    # ASCII only: the line survives every log encoding on its way.
    return f"{contract.RESULT_SENTINEL} {json.dumps(result.to_dict(), separators=(',', ':'))}"


def parse_line(line: str) -> RunResult | None:
    """The record that a line of output carries, or None when it carries none.

    Raises:
        MalformedResult: when the line starts with the sentinel and goes on with something else than a record.
    """
    word, _, text = line.strip().partition(" ")
    return _parse(text) if word == contract.RESULT_SENTINEL else None


def _parse(text: str) -> RunResult:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedResult(f"not JSON: {error}") from error
    return of_dict(record)
