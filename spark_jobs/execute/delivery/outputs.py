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
from spark_jobs.disk import durable
from spark_jobs.execute import logs, verdict
from spark_jobs.execute.delivery import chunks, joining, journal, merging, targets
from spark_jobs.execute.run import work
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import IfExists

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.run.products import Products
    from spark_jobs.execute.tasks.report import Part
    from spark_jobs.execute.tasks.spec import RunSpec
    from spark_jobs.formats.format import Writer
    from spark_jobs.nodes.output.step import Split
    from spark_jobs.plan import plan as plans


@dataclass(frozen=True)
class Material:
    """What the outputs of a run are put together from.

    Args:
        plan: the plan.
        identity: the run's ids, for sidecars.
        run: what its tasks were told: the undeclared columns of outputs, and what a task may hold.
        products: what came of its jobs.
    """

    plan: plans.Plan
    identity: Identity
    run: RunSpec
    products: Products


@dataclass
class Assembled:
    """The files of outputs, and the names they will get."""

    renames: list[journal.Rename] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def assemble(
    material: Material,
    spark: SparkSession,
    wanted: targets.Targets,
    folder: Callable[[Path], Path],
    *,
    is_shown: bool = False,
) -> Assembled:
    """Put the parts of each output together, in staging folders.

    Args:
        material: the parts.
        spark: merges what has to be sorted.
        wanted: the outputs.
        folder: gives the staging folder beside the files of a folder.
        is_shown: whether the files are only looked at, each in one piece.
    """
    done = Assembled()
    for target in wanted.outputs:
        assembly = _Assembly(material, target, folder, is_shown, done)
        try:
            assembly.put_together(spark)
        except OSError as error:
            path = error.filename or target.deliveries[0].path
            raise verdict.broken(material.plan, "E900", durable.describe(error, str(path)), target.name) from error
        except chunks.OversizeGroup as error:
            raise verdict.broken(material.plan, "E906", str(error), target.name) from error
    return done


@dataclass
class _Assembly:
    """One output's files on their way."""

    material: Material
    target: targets.Target
    folder: Callable[[Path], Path]
    is_shown: bool
    done: Assembled

    def put_together(self, spark: SparkSession) -> None:
        """Write all files of the output, and note the names that they will get."""
        found = [part for part in self.material.products.parts_of(self.target.name) if part.bytes]
        of_file: dict[str | None, list[Part]] = {each.source_file: [] for each in self.target.deliveries}
        for part in found:
            of_file.setdefault(part.source_file, []).append(part)
        of_each = [of_file.pop(each.source_file) for each in self.target.deliveries]
        if of_file:
            text = f"output '{self.target.name}': records of {', '.join(map(str, of_file))} have no file to go to"
            raise verdict.RunFailed(ExitCode.EVALUATION, "E903", f"{text}; nothing is published")
        pieces = [[joining.whole(part.path, part.bytes) for part in parts] for parts in of_each]
        step, share = self.target.step, self.material.run.memory_share
        if step.sort_order and found:
            columns = [records.GROUP] if step.split and step.split.group_key else []
            most = min(share // 4, work.split_bytes())
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
        run = self.material.run
        return output_run.writer(self.target.step, run.widened[self.target.name], run.widened_type)

    def _staged(self, path: Path, ending: str) -> Path:
        """Where a file is until it is published; not under its own name, which with an ending could be too long."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.target.name}/{path}").hex
        return self.folder(path.parent) / f"{name}{ending}"

    def _publish(self, staged: Path, path: Path) -> None:
        self.done.renames.append(journal.Rename(str(staged), str(path)))
        self.done.files.append(str(path))

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
            self.done.renames += [journal.Rename(None, str(each)) for each in sorted(older)]

    def _sidecar(self, path: Path, parts: Sequence[Part]) -> None:
        """`<file>.meta.json` beside an output: the facts of the run that wrote it (spec/formats.md 11.8)."""
        plan, identity, now = self.material.plan, self.material.identity, datetime.now(UTC)
        facts = {
            "pipeline_path": str(plan.path),
            "pipeline_hash": plan.source_hash,
            "pipeline_hash_short": plan.source_hash[:8],
            "clinker_version": _version(),
            "run_started_at": identity.started.isoformat(),
            "run_finished_at": now.isoformat(),
            "elapsed_total_ms": int((now - identity.started).total_seconds() * 1000),
            "execution_id": identity.execution_id,
            "batch_id": identity.batch_id,
            "output_name": self.target.step.label or self.target.name,
            "resolved_path": str(path),
            "record_count": sum(part.records for part in parts),
            "bytes_written": sum(part.bytes for part in parts),
            "dlq_counts": self.material.products.tally.dead_per_category,
        }
        staged = self._staged(path, ".meta")
        with durable.about(staged):
            staged.write_text(json.dumps(facts, indent=2) + "\n")
        self.done.renames.append(journal.Rename(str(staged), str(targets.sidecar(path))))


def _version() -> str:
    """The installed version; a cluster gets the package as a zip, without the distribution's record."""
    try:
        return metadata.version("airflow-provider-clinker")
    except metadata.PackageNotFoundError:
        return "unknown"
