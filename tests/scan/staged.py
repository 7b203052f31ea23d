"""A file to stage, for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.scan.files import InputFile
from spark_jobs.scan.staging.staged_copy import Settings
from spark_jobs.scan.staging.staging import SourceStaging

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"id,amount\n" + b"1,2.5\n" * 1000


def described(path: Path) -> InputFile:
    status = path.stat()
    return InputFile(str(path), f"in/{path.name}", status.st_size, status.st_mtime_ns)


def settings(tmp_path: Path, **others: Any) -> Settings:
    return Settings(**{"folder": str(tmp_path / "staging"), "patterns": ("*.csv",), **others})


def opened(tmp_path: Path, **others: Any) -> SourceStaging:
    return SourceStaging(settings(tmp_path, **others), datetime.now(UTC))


def names(tmp_path: Path) -> list[str]:
    """The files in the staging folder, by suffix."""
    return sorted(path.name.partition(".")[2] for path in (tmp_path / "staging").iterdir())


WHOLE = ["lock", "manifest.json", "staged"]
