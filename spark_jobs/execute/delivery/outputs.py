"""Putting the part files of each output together: as they are, in order, or cut into numbered files."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute import logs, verdict
from spark_jobs.execute.delivery import chunks, destination, merging, targets
from spark_jobs.execute.delivery.destination import Content
from spark_jobs.execute.run import work
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output.step import IfExists

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Destination, Draft, Piece
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


def parts(wanted: targets.Targets, draft: Draft) -> destination.Parts:
    """Where tasks put the parts of each output: beside the first of its files."""
    folders = {each.name: draft.parts(each.deliveries[0].path) for each in wanted.outputs if each.deliveries}
    return destination.Parts(draft.depot, folders)


def assemble(
    material: Material, spark: SparkSession, wanted: targets.Targets, draft: Draft, *, is_shown: bool = False
) -> tuple[str, ...]:
    """Put the parts of each output together; gives the paths of the files, without those of facts.

    Args:
        material: the parts.
        spark: merges what has to be sorted.
        wanted: the outputs.
        draft: gets the files.
        is_shown: whether the files are only looked at, each in one piece.
    """
    written: list[str] = []
    for target in wanted.outputs:
        assembly = _Assembly(material, target, wanted.there, draft, is_shown)
        try:
            assembly.put_together(spark)
        except OSError as error:
            path = error.filename or target.deliveries[0].path
            raise verdict.broken(material.plan, "E900", durable.describe(error, str(path)), target.name) from error
        except chunks.OversizeGroup as error:
            raise verdict.broken(material.plan, "E906", str(error), target.name) from error
        written += assembly.written
    return tuple(written)


@dataclass
class _Assembly:
    """One output's files on their way."""

    material: Material
    target: targets.Target
    there: Destination
    draft: Draft
    is_shown: bool
    written: list[str] = field(default_factory=list)

    def put_together(self, spark: SparkSession) -> None:
        """Write all files of the output, and note their names."""
        found = [part for part in self.material.products.parts_of(self.target.name) if part.bytes]
        of_file: dict[str | None, list[Part]] = {each.source_file: [] for each in self.target.deliveries}
        for part in found:
            of_file.setdefault(part.source_file, []).append(part)
        of_each = [of_file.pop(each.source_file) for each in self.target.deliveries]
        if of_file:
            text = f"output '{self.target.name}': records of {', '.join(map(str, of_file))} have no file to go to"
            raise verdict.RunFailed(ExitCode.EVALUATION, "E903", f"{text}; nothing is published")
        pieces = [[destination.whole(part.path, part.bytes) for part in parts] for parts in of_each]
        step, share = self.target.step, self.material.run.memory_share
        if step.sort_order and found:
            columns = [records.GROUP] if step.split and step.split.group_key else []
            most = min(share // 4, work.split_bytes())
            folder = self.draft.parts(self.target.deliveries[0].path)
            pieces = merging.merge(spark, self.draft.depot, pieces, columns, folder, most)
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

    def _put(self, path: Path, content: Content) -> None:
        self.draft.assemble(path, content)
        self.written.append(str(path))

    def _whole(self, path: Path, parts: Sequence[Piece]) -> None:
        writer = self._writer
        if not parts:
            content = Content(start=writer.empty)
        elif self.target.step.is_indexed:
            trailing = len(writer.separator)
            content = Content(tuple(parts), writer.start, end=writer.end, trailing=trailing, uses_up=True)
        else:
            content = Content(tuple(parts), writer.start, writer.separator, writer.end, uses_up=True)
        self._put(path, content)

    def _chunks(self, path: Path, parts: Sequence[Piece], split: Split) -> None:
        """Numbered files; those of an earlier run that are not written again go (decision 54)."""
        writer, step = self._writer, self.target.step
        later = writer.start if split.repeat_header else writer.continued
        found, warnings = chunks.cut(self.draft.depot, parts, split, len(writer.start), len(later))
        for warning in warnings:
            logs.LOG.warning("output '%s': %s", self.target.name, warning)
        taken: set[Path] = set()
        for number, chunk in enumerate(found, 1):
            final = chunks.named(path, split.naming, number)
            if step.if_exists is IfExists.UNIQUE_SUFFIX:
                final = targets.free(self.there, final, step, taken)
            taken.add(final)
            content = Content(start=writer.empty)
            if chunk.records:
                start = writer.start if number == 1 else later
                content = Content(tuple(chunk.pieces), start, end=writer.end, trailing=len(writer.separator))
            self._put(final, content)
        if step.if_exists is not IfExists.UNIQUE_SUFFIX:
            for each in sorted(set(chunks.existing(self.there, path, split.naming)) - taken):
                self.draft.remove(each)

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
        self.draft.assemble(targets.sidecar(path), Content(start=(json.dumps(facts, indent=2) + "\n").encode()))


def _version() -> str:
    """The installed version; a cluster gets the package as a zip, without the distribution's record."""
    try:
        return metadata.version("airflow-provider-clinker")
    except metadata.PackageNotFoundError:
        return "unknown"
