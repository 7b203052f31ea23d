"""Runs pipelines in this process, from YAML and files written into a folder."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.execute import identity
from spark_jobs.execute.run import executor, partitions
from spark_jobs.formats import splits
from spark_jobs.plan.options import RunOptions
from spark_jobs.tuning import Tuning

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from spark_jobs.execute.run.metrics import Outcome


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes(textwrap.dedent(content).lstrip("\n").encode())


def run(folder: Path, **options: Any) -> Outcome:
    chosen = replace(RunOptions(threads=2), **options)
    loaded = plan.load(folder / "pipeline.yaml", chosen)
    return executor.execute(loaded, chosen, identity.Identity.new(None, None))


def tune(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Have runs of the command line work with these sizes."""
    real = clinker._run_options
    monkeypatch.setattr(clinker, "_run_options", lambda arguments: replace(real(arguments), tuning=Tuning(**sizes)))


def outputs(folder: Path) -> dict[str, bytes]:
    """All published files, hidden ones too: a run must leave nothing else."""
    found = folder / "out"
    return {str(p.relative_to(found)): p.read_bytes() for p in sorted(found.rglob("*")) if p.is_file()}


def cut_by(monkeypatch: pytest.MonkeyPatch, split_bytes: int, partition_bytes: int | None = None) -> None:
    """Have runs make splits of so many bytes, and partitions of as many or others."""
    monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, str(split_bytes))
    monkeypatch.setenv(
        partitions.PARTITION_BYTES_VARIABLE, str(split_bytes if partition_bytes is None else partition_bytes)
    )


def with_splits(monkeypatch: pytest.MonkeyPatch, folder: Path, data: str, splits: int) -> None:
    """Cut an input into about this many splits, and groups over several partitions when there is more than one."""
    cut_by(monkeypatch, max((folder / data).stat().st_size // splits, 1) + 1)
