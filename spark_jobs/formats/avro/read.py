"""The Avro files of a source: their schemas give the columns, blocks are read in parallel.

A split has the blocks that begin in its bytes. Its beginning is a guess, by the marker that follows each block; the
guess is proved if the blocks of the split before end exactly there.
"""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from spark_jobs import limits
from spark_jobs.formats.avro import container, shapes
from spark_jobs.formats.avro.shapes import Leaf, Shape
from spark_jobs.formats.typed import reader
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.cxl import types
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.format import ArrayPath, Reading
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: The most records that are decoded at a time: as objects they take far more memory than in the file.
_MOST_RECORDS = 1 << 15
#: The memory of a value as a Python object and in a column, in bytes.
_PLACE_BYTES = 100


@dataclass(frozen=True)
class AvroReader(reader.TypedReader):
    """Reads Avro files."""

    title: ClassVar[str] = "Avro"

    def head(self, file: InputFile, declared: Sequence[str]) -> reader.TypedHead | None:
        """The columns of the schema."""
        if not file.size:
            return None
        with changes.opened(file) as stream:
            edges = stream.edges()
            header = container.header(stream, file.name, self.record_bytes)
        leaves = _shape(header.schema, file.name, self.declared).leaves
        reader.refuse_doubles((leaf.name for leaf in leaves), file, "the schema")
        _decoder(header.schema, file.name, None)
        return reader.TypedHead(
            file=replace(file, edges=edges),
            names=tuple(leaf.name for leaf in leaves),
            data_start=header.end,
            unknown={leaf.name: reader.Unknown(leaf.title) for leaf in leaves if leaf.make is None},
        )

    def decoded(
        self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome, needed: Sequence[int]
    ) -> Iterator[reader.Records]:
        """The records of the blocks that begin in a split."""
        file = file_plan.file
        with changes.opened(file) as stream:
            head = container.header(stream, file.name, wanted.record_bytes)
            known = _shape(head.schema, file.name, self.declared)
            chosen = [known.leaves[at] for at in needed]
            decode = _decoder(head.schema, file.name, tuple({leaf.path[0]: None for leaf in chosen}))
            try:
                blocks = self._blocks(split, head, stream, file.name, outcome)
                for records in _pieces(blocks, head, stream, file.name, wanted, decode):
                    found = {at: _made(leaf, records, file.name) for at, leaf in zip(needed, chosen, strict=True)}
                    yield reader.Records(len(records), found)
            except FormatError:
                # Reading may have begun at something that only looks like the end of a block.
                if split.is_exact or split.index == 0:
                    raise
                outcome.is_consistent = False

    def counts(self, split: Split, file_plan: FilePlan, outcome: SplitOutcome) -> bool:
        """Blocks tell how many records they have."""
        with changes.opened(file_plan.file) as stream:
            head = container.header(stream, file_plan.file.name, self.record_bytes)
            found = self._blocks(split, head, stream, file_plan.file.name, outcome)
            try:
                outcome.records = sum(block.records for block in found)
            except FormatError:
                if split.is_exact or split.index == 0:
                    raise
                outcome.is_consistent = False
        return True

    def exact_splits(self, file_plan: FilePlan, cut: Sequence[Split]) -> list[Split]:
        """Found by going from block to block."""
        with changes.opened(file_plan.file) as stream:
            head = container.header(stream, file_plan.file.name, self.record_bytes)
            size = stream.size()
            starts = []
            waiting = [split.start for split in cut[1:]]
            for block in container.blocks(stream, head.end, size, head, file_plan.file.name):
                while waiting and block.start >= waiting[0]:
                    starts.append(block.start)
                    waiting.pop(0)
        borders = [head.end, *starts, *(size for _ in waiting), size]
        return [
            replace(split, start=start, end=end, is_exact=True)
            for split, start, end in zip(cut, borders, borders[1:], strict=False)
        ]

    def _blocks(
        self, split: Split, head: container.Header, stream: Stream, name: str, outcome: SplitOutcome
    ) -> Iterator[container.Block]:
        outcome.start, outcome.end = split.start, split.end
        if not split.is_exact:
            outcome.start = container.next_start(stream, split.start, head) if split.index else head.end
            outcome.end = stream.size() if split.is_last else container.next_start(stream, split.end, head)
        end = outcome.start
        for block in container.blocks(stream, outcome.start, outcome.end, head, name):
            end = block.end
            yield block
        outcome.is_consistent &= end == outcome.end


def _pieces(
    found: Iterator[container.Block],
    head: container.Header,
    stream: Stream,
    name: str,
    wanted: Reading,
    decode: _Decode,
) -> Iterator[list[dict[str, Any]]]:
    """The records of some blocks, as many at a time as are worth a block of ours."""
    shape = _shape(head.schema, name)
    most_records = max(1, min(_MOST_RECORDS, wanted.record_bytes // (_PLACE_BYTES * shape.places)))
    held: list[dict[str, Any]] = []
    size = count = 0
    most = max(limits.EMPTY_RECORDS, limits.EMPTY_RECORDS_PER_BYTE * stream.size())
    for block in found:
        count += block.records
        if count > most:
            text = f"it has more than {most} records in {stream.size()} bytes, which are not read; write several files"
            raise FormatError(text, name, "E310")
        data = container.data_of(stream, block, head, name, wanted.record_bytes)
        if block.records > len(data) // shape.least:
            raise container.broken(f"the block at byte {block.start} cannot have {block.records} records", name)
        if shape.list_forms > 1 and len(data) * shape.list_forms > wanted.record_bytes:
            # Values in lists take far more memory than their bytes, and a single record may have any number of them.
            if held:
                yield held
                held, size = [], 0
            yield from _counted(decode(data, block.records, is_counted=True), block, name, wanted)
            continue
        size += len(data)
        records = decode(data, block.records)
        while some := _taken(records, most_records - len(held), block, name):
            held += some
            if len(held) == most_records:
                yield held
                held, size = [], 0
        if size >= wanted.block_bytes and held:
            yield held
            held, size = [], 0
    if held:
        yield held


def _counted(
    records: Iterator[dict[str, Any]], block: container.Block, name: str, wanted: Reading
) -> Iterator[list[dict[str, Any]]]:
    """The records of a large block with arrays or maps, as many at a time as their values have room."""
    step = max(wanted.block_bytes, wanted.record_bytes // 4)
    held: list[dict[str, Any]] = []
    taken = 0
    while True:
        shapes.allowance.left = wanted.record_bytes
        try:
            some = _taken(records, 1, block, name)
        except shapes.TooMany:
            text = (
                f"a record in the block at byte {block.start} has values that take more than {wanted.record_bytes} "
                "bytes, a third of what memory.limit leaves to each task; raise memory.limit, or use fewer threads"
            )
            raise FormatError(text, name, "E310") from None
        mine = wanted.record_bytes - shapes.allowance.left
        if held and (not some or taken + mine > step or len(held) == _MOST_RECORDS):
            yield held
            held, taken = [], 0
        if not some:
            return
        held += some
        taken += mine


def _taken(records: Iterator[dict[str, Any]], most: int, block: container.Block, name: str) -> list[dict[str, Any]]:
    """The next records of a block."""
    try:
        return [*itertools.islice(records, most)]
    except _UNREADABLE as problem:
        why = "it ends too early" if isinstance(problem, EOFError) else problem
        raise container.broken(
            f"the block at byte {block.start} has no records of its schema: {why}", name
        ) from problem


#: The errors that the decoder raises for bytes that do not fit the schema.
_UNREADABLE = (ArithmeticError, EOFError, LookupError, TypeError, ValueError, AttributeError, RecursionError)


_NO_MARKER = b"\0" * container.MARKER_BYTES


class _Left(ValueError):
    """A block has more bytes than records."""


class _Decode(Protocol):
    """Makes records of the bytes of a block; where they are counted, each value is taken out of `shapes.allowance`."""

    def __call__(self, data: bytes, count: int, *, is_counted: bool = False) -> Iterator[dict[str, Any]]: ...


@lru_cache(maxsize=8)
def _decoder(schema: str, name: str, wanted: tuple[str, ...] | None) -> _Decode:
    """A function that decodes the records of a block. Members that are not `wanted` may have any values.

    Raises:
        FormatError: the schema is none.
    """
    import fastavro
    from fastavro import read
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        fastavro.parse_schema(json.loads(schema))
        known = fastavro.parse_schema(_bare(json.loads(schema), name, wanted))
    except (SchemaParseException, UnknownType, *_UNREADABLE) as problem:
        raise container.broken(f"its schema is none: {problem}", name) from problem
    for kind in ("bytes-decimal", "fixed-decimal"):
        if read.LOGICAL_READERS[kind].__module__ != shapes.__name__:
            read.LOGICAL_READERS[kind] = shapes.bounded(read.LOGICAL_READERS[kind])

    @lru_cache(maxsize=2)
    def beginning(is_counted: bool) -> bytes:
        block_header = io.BytesIO()
        kind = fastavro.parse_schema(shapes.counted(_bare(json.loads(schema), name, wanted))) if is_counted else known
        fastavro.writer(block_header, kind, [], sync_marker=_NO_MARKER)
        return block_header.getvalue()

    def decode(data: bytes, count: int, *, is_counted: bool = False) -> Iterator[dict[str, Any]]:
        if not count:
            if data:
                raise _Left("it has no record, and bytes")
            return
        head = beginning(is_counted)
        stream = io.BytesIO(head + container.number(count) + container.number(len(data)) + data + _NO_MARKER)
        block = next(iter(fastavro.block_reader(stream)))
        yield from block
        if block.bytes_.read(1):
            raise _Left("bytes follow its last record")

    return decode


def _bare(schema: dict[str, Any], name: str, wanted: tuple[str, ...] | None) -> dict[str, Any]:
    """A schema of the same bytes, in which days and moments are numbers, and what nobody wants takes the least to read.

    A schema of the wanted ones alone, as readers have it, makes fastavro twice as slow.
    """
    if wanted is None:
        return schema
    shape = _shape(json.dumps(schema), name)
    stored = {leaf.path[0]: leaf.stored for leaf in shape.leaves if leaf.stored is not None}
    schema = shapes.stored(schema) if shape.has_plain_times else schema
    fields = []
    for field in schema["fields"]:
        if field["name"] not in wanted:
            field = {"name": field["name"], "type": _bytes_of(field["type"])}
        elif field["name"] in stored:
            field = {"name": field["name"], "type": stored[field["name"]]}
        fields.append(field)
    return {**schema, "fields": fields}


def _bytes_of(kind: Any) -> Any:
    """A type as what its bytes are; one with a name as it is, for others may refer to it."""
    if isinstance(kind, list):
        return [_bytes_of(each) for each in kind]
    if not isinstance(kind, dict):
        return "bytes" if kind == "string" else kind
    match kind.get("type"):
        case "array":
            return {"type": "array", "items": _bytes_of(kind["items"])}
        case "map":
            return {"type": "map", "values": _bytes_of(kind["values"])}
        case "string" | "bytes":
            return "bytes"
        case "null" | "boolean" | "int" | "long" | "float" | "double" as plain:
            return plain
    return kind


@lru_cache(maxsize=8)
def _shape(schema: str, name: str, declared: frozenset[str] = frozenset()) -> Shape:
    return Shape(json.loads(schema), name, declared)


def _made(leaf: Leaf, records: list[dict[str, Any]], name: str) -> tuple[pa.Array, types.Type]:
    """A column of records; values that its type does not have were none of its schema."""
    try:
        return leaf.of(records)
    except (pa.ArrowException, *_UNREADABLE) as problem:
        raise container.broken(
            f"column '{leaf.name}' has values that are no {leaf.title}: {problem}", name
        ) from problem


def open_reader(options: Any, arrays: tuple[ArrayPath, ...] = (), layout: Any = None) -> AvroReader:
    """The reader of a source's files."""
    return AvroReader(options, arrays, layout)
