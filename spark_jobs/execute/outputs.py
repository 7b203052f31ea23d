"""Putting the part files of each output together: as they are, in order, or cut into numbered files."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.execute import chunks, durable, inputs, joining, journal, logs, merging, targets, verdict, work
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import IfExists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.executor import Run
    from spark_jobs.execute.report import Part
    from spark_jobs.formats.format import Writer
    from spark_jobs.nodes.output.step import Split


def assemble(
    run: Run, spark: SparkSession, wanted: targets.Targets, folder: Callable[[Path], Path], *, is_shown: bool = False
) -> list[journal.Rename]:
    """Put the parts of each output together, in staging folders.

    Args:
        run: the run, its jobs done.
        spark: merges what has to be sorted.
        wanted: the outputs.
        folder: gives the staging folder beside the files of a folder.
        is_shown: whether the files are only looked at, each in one piece.
    """
    renames: list[journal.Rename] = []
    for target in wanted.outputs:
        assembly = _Assembly(run, target, folder, is_shown)
        try:
            assembly.put_together(spark)
        except OSError as error:
            path = error.filename or target.deliveries[0].path
            raise verdict.broken(run.plan, "E900", durable.describe(error, str(path)), target.name) from error
        except chunks.OversizeGroup as error:
            raise verdict.broken(run.plan, "E906", str(error), target.name) from error
        renames += assembly.renames
    return renames


@dataclass
class _Assembly:
    """One output's files on their way."""

    run: Run
    target: targets.Target
    folder: Callable[[Path], Path]
    is_shown: bool
    renames: list[journal.Rename] = field(default_factory=list)

    def put_together(self, spark: SparkSession) -> None:
        """Write all files of the output, and note the names that they will get."""
        found = [part for part in self.run.tally.parts_of(self.target.name) if part.bytes]
        of_file: dict[str | None, list[Part]] = {each.source_file: [] for each in self.target.deliveries}
        for part in found:
            of_file.setdefault(part.source_file, []).append(part)
        of_each = [of_file.pop(each.source_file) for each in self.target.deliveries]
        if of_file:
            text = f"output '{self.target.name}': records of {', '.join(map(str, of_file))} have no file to go to"
            raise verdict.RunFailed(ExitCode.EVALUATION, "E903", f"{text}; nothing is published")
        pieces = [[joining.whole(part.path, part.bytes) for part in parts] for parts in of_each]
        step, run = self.target.step, self.run
        if step.sort_order and found:
            columns = [records.GROUP] if step.split and step.split.group_key else []
            most = min(run.plan.memory_limit_bytes // run.threads // 4, work.split_bytes())
            pieces = merging.merge(spark, pieces, columns, str(Path(found[0].path).parent), most)
        for delivery, own, parts in zip(self.target.deliveries, pieces, of_each, strict=True):
            if step.split and not self.is_shown:
                self._chunks(delivery.path, own, step.split)
            else:
                self._whole(delivery.path, own)
            if step.write_meta:
                self._sidecar(delivery.path, parts)

    @property
    def _writer(self) -> Writer:
        assert self.run.inputs is not None
        widened = inputs.widened(self.run.plan, self.run.inputs)[self.target.name]
        return output_run.writer(self.target.step, widened, inputs.widened_type(self.run.inputs))

    def _staged(self, path: Path, ending: str) -> Path:
        """Where a file is until it is published; not under its own name, which with an ending could be too long."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.target.name}/{path}").hex
        return self.folder(path.parent) / f"{name}{ending}"

    def _publish(self, staged: Path, path: Path) -> None:
        self.renames.append(journal.Rename(str(staged), str(path)))
        self.run.output_files.append(str(path))

    def _whole(self, path: Path, parts: Sequence[joining.Piece]) -> None:
        staged, writer = self._staged(path, ".whole"), self._writer
        if not parts:
            with durable.about(staged):
                staged.write_bytes(writer.empty)
        elif self.target.step.is_indexed:
            trailing = len(writer.separator)
            joining.join(parts, staged, start=writer.start, separator=b"", end=writer.end, trailing=trailing)
        else:
            joining.join(parts, staged, start=writer.start, separator=writer.separator, end=writer.end)
        self._publish(staged, path)

    def _chunks(self, path: Path, parts: Sequence[joining.Piece], split: Split) -> None:
        """Numbered files; those of an earlier run that are not written again go (decision 54)."""
        writer, step = self._writer, self.target.step
        later = writer.start if split.repeat_header else writer.continued
        found, warnings = chunks.cut(parts, split, len(writer.start), len(later))
        for warning in warnings:
            logs.LOG.warning("output '%s': %s", self.target.name, warning)
        taken: set[Path] = set()
        for number, chunk in enumerate(found, 1):
            final = chunks.named(path, split.naming, number)
            if step.if_exists is IfExists.UNIQUE_SUFFIX:
                final = targets.free(final, step, taken)
            taken.add(final)
            staged = self._staged(final, ".chunk")
            if chunk.records:
                start = writer.start if number == 1 else later
                trailing = len(writer.separator)
                joining.copy(chunk.pieces, staged, start=start, end=writer.end, trailing=trailing)
            else:
                with durable.about(staged):
                    staged.write_bytes(writer.empty)
            self._publish(staged, final)
        if step.if_exists is not IfExists.UNIQUE_SUFFIX:
            older = set(chunks.existing(path, split.naming)) - taken
            self.renames += [journal.Rename(None, str(each)) for each in sorted(older)]

    def _sidecar(self, path: Path, parts: Sequence[Part]) -> None:
        """`<file>.meta.json` beside an output: the facts of the run that wrote it (spec/formats.md 11.8)."""
        run, now = self.run, datetime.now(UTC)
        facts = {
            "pipeline_path": str(run.plan.path),
            "pipeline_hash": run.plan.source_hash,
            "pipeline_hash_short": run.plan.source_hash[:8],
            "clinker_version": _version(),
            "run_started_at": run.identity.started.isoformat(),
            "run_finished_at": now.isoformat(),
            "elapsed_total_ms": int((now - run.identity.started).total_seconds() * 1000),
            "execution_id": run.identity.execution_id,
            "batch_id": run.identity.batch_id,
            "output_name": self.target.step.label or self.target.name,
            "resolved_path": str(path),
            "record_count": sum(part.records for part in parts),
            "bytes_written": sum(part.bytes for part in parts),
            "dlq_counts": run.tally.dead_per_category,
        }
        staged = self._staged(path, ".meta")
        with durable.about(staged):
            staged.write_text(json.dumps(facts, indent=2) + "\n")
        self.renames.append(journal.Rename(str(staged), str(targets.sidecar(path))))


def _version() -> str:
    """The installed version; a cluster gets the package as a zip, without the distribution's record."""
    try:
        return metadata.version("airflow-provider-clinker")
    except metadata.PackageNotFoundError:
        return "unknown"
