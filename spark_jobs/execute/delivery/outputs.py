"""Assembles the part files of each output: as they are, in order, or split into numbered files."""

from __future__ import annotations

import errno
import itertools
import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from spark_jobs import __version__
from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute import logs, verdict
from spark_jobs.execute.delivery import chunks, converting, destination, merging, packing, parts, targets
from spark_jobs.execute.delivery.destination import Content
from spark_jobs.formats import format, registry, splits
from spark_jobs.nodes.output import records
from spark_jobs.nodes.output import run as output_run
from spark_jobs.nodes.output import shape as output_shape
from spark_jobs.nodes.output.step import IfExists
from spark_jobs.nodes.records import guarded
from spark_jobs.scan.compression import Compression
from spark_jobs.stores import location
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_jobs.execute.delivery.destination import Destination, Draft, PartRange
    from spark_jobs.execute.delivery.tables.output import Target
    from spark_jobs.execute.identity import Identity
    from spark_jobs.execute.report import Part
    from spark_jobs.execute.run.pass_results import PassResults
    from spark_jobs.execute.tasks.spec import RunSpec
    from spark_jobs.formats.format import ColumnWriter, Writer
    from spark_jobs.formats.frame import Joined
    from spark_jobs.nodes.output.step import ChunkRule
    from spark_jobs.plan import plan as plans
    from spark_jobs.stores.location import FilePath


@dataclass(frozen=True)
class Material:
    """The material from which the outputs of a run are assembled.

    Args:
        plan: the plan.
        identity: the run's ids, for sidecars.
        run: the specification of its tasks: undeclared columns of outputs, and the memory of a task.
        products: the results of its jobs.
    """

    plan: plans.Plan
    identity: Identity
    run: RunSpec
    products: PassResults


def places(wanted: targets.Targets, draft: Draft[FilePath]) -> destination.Parts:
    """The folder of each output's parts, which is next to the first of its files."""
    folders = _folders(wanted, draft)
    waiting = _waiting(wanted, draft)
    folders |= {each.name: waiting for each in wanted.outputs if not each.step.has_path}
    return destination.Parts(draft.part_store, folders)


def _folders(wanted: targets.Targets, draft: Draft[FilePath]) -> dict[str, str]:
    return {each.name: draft.parts(each.first(each.deliveries[0])) for each in wanted.outputs if each.deliveries}


def _waiting(wanted: targets.Targets, draft: Draft[FilePath]) -> str:
    """The folder of records for tables without a folder: in a store if there is one, so that all tasks reach it."""
    return next(filter(location.is_uri, _folders(wanted, draft).values()), str(draft.home))


def assemble(
    material: Material,
    spark: SparkSession,
    wanted: targets.Targets,
    draft: Draft[FilePath],
    tables: Mapping[str, Target] = MappingProxyType({}),
    *,
    is_shown: bool = False,
) -> dict[str, tuple[str, ...]]:
    """Assemble the outputs. Returns the paths of each output's files, without sidecars.

    Args:
        material: the parts.
        spark: runs tasks that merge sorted outputs.
        wanted: the outputs.
        draft: receives the files.
        tables: the tables among the outputs, whose files are written into their own folders.
        is_shown: the files are only displayed, each as one range.
    """
    written: dict[str, tuple[str, ...]] = {}
    for target in wanted.outputs:
        if not target.step.has_path and (is_shown or target.step.is_in_database):
            written[target.name] = ()  # see `databases.py`
            if is_shown:
                draft.assemble(Path(target.name), _of_table(material, target, draft.part_store))
            continue
        waiting = _waiting(wanted, draft)
        assembly = _Assembly(material, target, wanted.there, draft, waiting, is_shown, tables.get(target.name))
        try:
            assembly.put_together(spark)
        except StoreError as error:
            raise verdict.broken(material.plan, error.code, str(error), target.name) from error
        except OSError as error:
            path = error.filename or target.step.place
            raise verdict.broken(material.plan, "E900", durable.describe(error, str(path)), target.name) from error
        except format.UnwritableFile as error:
            raise verdict.broken(material.plan, "E900", str(error), target.name) from error
        except chunks.OversizeGroup as error:
            raise verdict.broken(material.plan, "E906", str(error), target.name) from error
        written[target.name] = tuple(assembly.written)
    return written


def _of_table(material: Material, target: targets.OutputFiles, part_store: destination.PartStore) -> Content:
    """The records of a table, for display."""
    run = material.run
    writer = cast("ColumnWriter", output_run.writer(target.step, run.undeclared[target.name], run.undeclared_type))
    parts = [destination.whole(part.path, part.bytes) for part in material.products.take(target.name) if part.records]
    return Content(start=converting.displayed_bytes(part_store, writer, parts))


@dataclass
class _Assembly:
    """The files of one output while they are assembled."""

    material: Material
    target: targets.OutputFiles
    there: Destination[FilePath]
    draft: Draft[FilePath]
    #: The folder of records for tables without a folder.
    waiting: str
    is_shown: bool
    table: Target | None = None
    written: list[str] = field(default_factory=list)
    #: The files of a compressed output, collected to be compressed together.
    _files: dict[FilePath, Content] = field(default_factory=dict)
    #: The bytes of each file that the draft has received.
    _sizes: dict[str, int] = field(default_factory=dict)

    def put_together(self, spark: SparkSession) -> None:
        """Write all files of the output, and record their names."""
        ranges, counts = self._ranges()
        if not ranges:
            return  # The output has a file for each input file, and there was none.
        step, share = self.target.step, self.material.run.memory_share
        if step.sort_order and any(ranges):
            columns = [records.GROUP] if step.split and step.split.group_key else []
            most = min(share // 4, splits.configured_bytes())
            folder = self._folder
            runs = [[each.part_range for each in own] for own in ranges]
            ranges = merging.merge(
                spark, self.draft.part_store, runs, columns, folder, most, self.material.run.tuning, step.frame
            )
        if self.table is not None and not self.is_shown:
            self._to_table(spark, self.table, [each.part_range for own in ranges for each in own])
            return
        if self._is_converted and not self.is_shown and not step.split:
            made = self._converted(spark, [[each.part_range for each in own] for own in ranges])
            ranges = [[merging.SortedPart(part_range) for part_range in own] for own in made]
        firsts = []
        for delivery, own in zip(self.target.deliveries, ranges, strict=True):
            firsts.append(len(self.written))
            if step.split and not self.is_shown:
                self._chunks(spark, delivery.path, [each.part_range for each in own], step.split)
            elif step.parts and not self.is_shown:
                self._parts(delivery.path, own)
            else:
                self._whole(delivery.path, own)
        self._deliver(spark)
        if step.write_meta:
            for delivery, count, (first, end) in zip(
                self.target.deliveries, counts, itertools.pairwise((*firsts, len(self.written))), strict=True
            ):
                self._sidecar(delivery.path, count, sum(self._sizes[path] for path in self.written[first:end]))

    def _ranges(self) -> tuple[list[list[merging.SortedPart]], list[int]]:
        """The ranges of each file, and their numbers of records. For very many parts nothing else is kept in memory."""
        if not self.target.step.has_path:
            found = [part for part in self.material.products.take(self.target.name) if part.bytes or part.records]
            ranges = [merging.SortedPart(destination.whole(part.path, part.bytes), part.note) for part in found]
            return [ranges], [sum(part.records for part in found)]
        of_file: dict[str | None, list[Part]] = {each.source_file: [] for each in self.target.deliveries}
        for part in self.material.products.take(self.target.name):
            if part.bytes or part.records:
                of_file.setdefault(part.source_file, []).append(part)
        of_each = [of_file.pop(each.source_file) for each in self.target.deliveries]
        if of_file:
            text = f"output '{self.target.name}': records of {', '.join(map(str, of_file))} have no file to go to"
            raise verdict.RunFailed(ExitCode.EVALUATION, "E903", f"{text}; nothing is published")
        all_pieces = [
            [merging.SortedPart(destination.whole(part.path, part.bytes), part.note) for part in parts]
            for parts in of_each
        ]
        return all_pieces, [sum(part.records for part in parts) for parts in of_each]

    @property
    def _folder(self) -> str:
        """The folder of the output's parts."""
        if not self.target.step.has_path:
            return self.waiting
        return self.draft.parts(self.target.first(self.target.deliveries[0]))

    @property
    def _is_converted(self) -> bool:
        return registry.named(self.target.step.format).is_typed

    def _to_table(self, spark: SparkSession, table: Target, ranges: list[PartRange]) -> None:
        """Write files into the folder of a table. They are invisible before the commit."""
        from spark_jobs.execute.delivery.tables.output import (  # other runs need no Arrow for tables
            Records,
            WriteResources,
        )

        run, step = self.material.run, self.target.step
        written = output_shape.file_schema(
            output_shape.written_columns(step, run.undeclared[self.target.name], run.undeclared_type)
        )
        room = WriteResources(self._folder, run.memory_share // 4, run.guards.get(self.target.name, guarded.OPEN))
        records = Records(
            self.draft.part_store,
            self._writer,
            written,
            ranges,
            step.is_indexed,
            room,
            self.material.identity.execution_id,
            run.tuning,
        )
        table.commit = table.write(spark, records)
        self.written += [str(each.path) for each in self.target.deliveries]

    def _converted(self, spark: SparkSession, ranges: list[list[PartRange]]) -> list[list[PartRange]]:
        """Convert ranges to files, each of which is one range."""
        folder, part_store = self._folder, self.draft.part_store
        writer, moved = cast("ColumnWriter", self._writer), self.target.step.is_indexed
        tuning = self.material.run.tuning
        if not self.target.step.parts:
            checked = self.target.step.split is not None  # `chunks.cut` has checked them
            return converting.convert(spark, part_store, writer, ranges, folder, tuning, moved=moved, checked=checked)
        alone = [[one] for own in ranges for one in own]
        made = iter(converting.convert(spark, part_store, writer, alone, folder, tuning, moved=moved))
        return [[next(made)[0] for _ in own] for own in ranges]

    @cached_property
    def _writer(self) -> Writer:
        run = self.material.run
        return output_run.writer(self.target.step, run.undeclared[self.target.name], run.undeclared_type)

    def _put(self, path: FilePath, content: Content) -> None:
        self.written.append(str(path))
        if self.target.step.compression is Compression.NONE:
            self._give(path, content)
        else:
            self._files[path] = content

    def _deliver(self, spark: SparkSession) -> None:
        """Hand the collected files to the draft."""
        if not self._files:
            return
        contents, compression = [*self._files.values()], self.target.step.compression
        folder = self._folder
        contents = packing.compress_files(
            spark, self.draft.part_store, contents, compression, folder, self.material.run.tuning
        )
        for path, content in zip(self._files, contents, strict=True):
            self._give(path, content)

    def _give(self, path: FilePath, content: Content) -> None:
        self._sizes[str(path)] = content.size
        self.draft.assemble(path, content)

    def _whole(self, path: FilePath, noted: Sequence[merging.SortedPart]) -> None:
        writer, frame = self._writer, self.target.step.frame
        parts = [each.part_range for each in noted]
        if not parts:
            content = Content(start=writer.empty)
        elif self._is_converted and self.is_shown:
            columns, moved = cast("ColumnWriter", writer), self.target.step.is_indexed
            content = Content(start=converting.displayed_bytes(self.draft.part_store, columns, parts, moved=moved))
        elif self._is_converted:
            content = Content(tuple(parts), uses_up=True)
        elif frame:
            content = _framed(parts, frame.joined([each.note for each in noted]))
        elif self.target.step.is_indexed:
            trailing = len(writer.separator)
            content = Content(tuple(parts), writer.start, end=writer.end, trailing=trailing, uses_up=True)
        elif self.target.step.begins_parts:
            content = self._of_begun(parts)
        else:
            content = Content(tuple(parts), writer.start, writer.separator, writer.end, uses_up=True)
        self._put(path, content)

    def _of_begun(self, parts: Sequence[PartRange]) -> Content:
        """A file from parts that already begin like the file. Several are joined only for display."""
        first, *others = parts
        begun = len(self._writer.start)
        rest = [replace(part, start=begun, size=part.size - begun) for part in others]
        return Content((first, *rest), b"", self._writer.separator, self._writer.end, uses_up=not rest)

    def _chunks(self, spark: SparkSession, path: FilePath, parts: Sequence[PartRange], split: ChunkRule) -> None:
        """Write numbered files, and remove numbered files of an earlier run, so that all belong to one run."""
        writer, step = self._writer, self.target.step
        later = writer.start if split.repeat_header else writer.continued
        around = (0, 0) if self._is_converted else (len(writer.start), len(later))
        found, warnings = chunks.cut(self.draft.part_store, parts, split, *around)
        made = self._converted(spark, [chunk.ranges for chunk in found]) if self._is_converted else None
        for warning in warnings:
            logs.LOG.warning("output '%s': %s", self.target.name, warning)
        taken = set[str]()
        stale = {each.name for each in chunks.existing(self.there, path, split.naming)}
        for number, chunk in enumerate(found, 1):
            final = chunks.chunk_path(path, split.naming, number)
            if step.if_exists is IfExists.UNIQUE_SUFFIX:
                final = targets.free(self.there, final, step, taken)
            stale.discard(final.name)
            content = Content(start=writer.empty)
            if chunk.records and made is not None:
                content = Content(tuple(made[number - 1]), uses_up=True)
            elif chunk.records:
                start = writer.start if number == 1 else later
                content = Content(tuple(chunk.ranges), start, end=writer.end, trailing=len(writer.separator))
            self._put(final, content)
        if step.if_exists is not IfExists.UNIQUE_SUFFIX:
            for name in sorted(stale):
                self.draft.remove(path.with_name(name))

    def _parts(self, folder: FilePath, own: Sequence[merging.SortedPart]) -> None:
        """Publish a file for each part. Files of an earlier run that are not replaced are removed."""
        stale = {each.name for each in parts.existing(self.there, folder)}
        for number in range(max(len(own), 1)):
            path = parts.part_path(folder, self.target.step, number)
            self._whole(path, own[number : number + 1])  # without records, one empty file is written
            stale.discard(path.name)
        for name in sorted(stale):
            self.draft.remove(folder / name)

    def _sidecar(self, path: FilePath, count: int, size: int) -> None:
        """`<file>.meta.json` beside an output: the facts of the run that wrote it."""
        plan, identity, now = self.material.plan, self.material.identity, datetime.now(UTC)
        facts = {
            "pipeline_path": str(plan.path),
            "pipeline_hash": plan.source_hash,
            "pipeline_hash_short": plan.source_hash[:8],
            "clinker_version": __version__,
            "run_started_at": identity.started.isoformat(),
            "run_finished_at": now.isoformat(),
            "elapsed_total_ms": int((now - identity.started).total_seconds() * 1000),
            "execution_id": identity.execution_id,
            "batch_id": identity.batch_id,
            "output_name": self.target.step.label or self.target.name,
            "resolved_path": str(path),
            "record_count": count,
            "bytes_written": size,
            "dlq_counts": self.material.products.tally.dead_per_category,
        }
        self.draft.assemble(targets.sidecar(path), Content(start=(json.dumps(facts, indent=2) + "\n").encode()))


def _framed(parts: Sequence[PartRange], joined: Joined) -> Content:
    """The ranges of parts with the surrounding text."""
    ranges: list[PartRange] = []
    for part, segments in zip(parts, joined.parts, strict=True):
        at = 0
        for before, known in segments:
            size = part.size - at if known is None else known
            ranges.append(replace(part, start=at, size=size, before=before))
            at += size
        if at != part.size:
            raise OSError(errno.EIO, f"has {part.size} bytes, but {at} were noted of it; run again", part.path)
    return Content(tuple(ranges), joined.start, end=joined.end, uses_up=True)
