"""Reads files of interchanges, whatever their envelope: a record for each segment of a message.

A file has one interchange or several, each with its own delimiters. One task reads the whole file, because only reading
it shows which message a segment belongs to. The encoding is found first, and whether the file is wrapped, that is,
whether all its lines have the same width.
"""

from __future__ import annotations

import codecs
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow.compute as pc

from spark_jobs.cxl import failure_columns
from spark_jobs.formats import byte_stream, encoding, reader, reading
from spark_jobs.formats.edi import segments, wrapped
from spark_jobs.formats.edi.documents import Documents
from spark_jobs.formats.edi.envelope import HEAD_BYTES, Broken
from spark_jobs.formats.edi.segment_batches import BrokenFile, InterchangeFile
from spark_jobs.formats.edi.wrapped import UnwrappedStream, Wrap
from spark_jobs.formats.records import RecordShape
from spark_jobs.scan import changes
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_jobs.formats.byte_stream import ByteStream
    from spark_jobs.formats.columns import FilePlan
    from spark_jobs.formats.edi.envelope import Envelope
    from spark_jobs.formats.format import Block, Reading
    from spark_jobs.formats.reading import SplitOutcome
    from spark_jobs.formats.splits import Split
    from spark_jobs.scan.changes import Stream
    from spark_jobs.scan.files import InputFile

#: Enough bytes to see whether a file is wrapped: two lines, and a header that may be cut into many.
_LOOKED_AT_BYTES = 2 * wrapped.MOST_LINE_BYTES + 8
_HEAD_LINES = 3
_READ_BYTES = 1 << 20
#: The most warnings that are shown for one file.
_MOST_WARNINGS = 20


@dataclass(frozen=True)
class InterchangeReader(reader.HeadReader[reader.Head]):
    """Reads files of interchanges; a format defines the envelope and the names of the columns."""

    title: ClassVar[str]
    reference: ClassVar[tuple[str, str]]
    blank_is_nothing: ClassVar[bool] = True

    @abstractmethod
    def envelope(self) -> Envelope:
        """A new envelope, which follows the service segments of a file."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of every file: tag, reference, type, and the elements."""
        elements = range(1, self.options.max_elements + 1)
        return ("seg_id", *self.reference, *(f"e{number:02}" for number in elements))

    def head(self, file: InputFile, declared: Sequence[str]) -> reader.Head | None:
        """The columns are the same in every file; each has to begin with an interchange."""
        if not file.size:
            return None
        edges, start = self._start(file)
        file = replace(file, edges=edges)
        return reader.Head(file=file, names=self.fields, data_start=start, is_splittable=False)

    def _start(self, file: InputFile) -> tuple[int, int]:
        """The digest of a file's ends, and where its first segment begins in it."""
        with changes.opened(file) as raw:
            edges = raw.edges()
            text = self._text(file, raw)
            raw.seek(0)
            begin = text.start if text.wrap else 0
            head = _exactly(text.stream(raw, begin), HEAD_BYTES)
        start = byte_stream.records_start(head, is_marked=text.is_utf8 or not encoding.takes_mark(text.charset))
        try:
            if head[start:]:
                self.envelope().signs(head[start:])
        except Broken as problem:
            raise self._error(BrokenFile(str(problem), 1, "", start), file, text) from None
        return edges, begin + start

    def charset_of(self, head: bytes) -> str | None:
        """The encoding that the header of a file names where the options name none."""
        return None

    def _text(self, file: InputFile, raw: Stream) -> _Text:
        """The way to read a file's text, judged by its beginning, to which `raw` points; by the whole file if needed.

        Raises:
            FormatError: the file cannot be read.
        """
        head = _exactly(raw, _LOOKED_AT_BYTES)
        charset = self.options.encoding or "utf-8"
        wrap, start = None, 0
        if "ISA~".encode(charset).endswith(b"ISA~"):
            start = byte_stream.records_start(head) if encoding.is_utf8(charset) else 0
            wrap = self._wrap(file, head[start:], start)
        if self.options.encoding is None:
            named = self.charset_of(head if wrap is None else wrap.text(head[start:]))
            if named is not None and not _is_utf8(file, wrap, start):
                charset = named
        return _Text(charset, wrap, start)

    def _wrap(self, file: InputFile, head: bytes, start: int) -> Wrap | None:
        """The line wrapping of a file with this beginning; None if its line ends are data."""
        wrap = wrapped.candidate(head)
        if wrap is None:
            return None
        try:
            if self.envelope().signs(head[:HEAD_BYTES])[0].terminator in segments.LINE_ENDS:
                return None
        except Broken:
            pass  # the header may be cut in two, which its lines show
        text = wrap.text(head[: _HEAD_LINES * HEAD_BYTES])
        try:
            signs, before = self.envelope().signs(text[:HEAD_BYTES])
        except Broken:
            return None
        # Of two lines the first may have any length. Of more lines, all have to agree, or the header itself is cut in
        # two.
        is_cut = text.find(signs.terminator, before) >= wrap.line
        with changes.opened(file) as again:
            again.seek(start)
            lines = wrap.lines(again)
        return wrap if lines >= (1 if is_cut else 2) else None

    def blocks(self, split: Split, file_plan: FilePlan, wanted: Reading, outcome: SplitOutcome) -> Iterator[Block]:
        """The blocks of a file; its counts and references are checked on the way."""
        shape = RecordShape(wanted, file_plan.columns, has_nulls=True)
        with changes.opened(file_plan.file) as stream:
            how = self._text(file_plan.file, stream)
            stream.seek(0)
            part = reading.bytes_of(split, file_plan, how.charset, stream, outcome)
            if how.wrap is not None:
                part = how.stream(stream, file_plan.data_start)
            most, envelope = self.options.max_elements, self.envelope()
            text = InterchangeFile(part, file_plan.data_start, envelope, most, wanted.block_bytes, how.charset)
            documents = Documents(wanted, envelope)
            warned = 0
            try:
                for segment_batch in text.segment_batches():
                    for warning in segment_batch.warnings:
                        warned += 1
                        if warned <= _MOST_WARNINGS:
                            message = self._located(warning, file_plan.data_start, how)
                            outcome.warnings.append(f"{file_plan.file.name}: {message}; it is read on")
                    for header in segment_batch.headers:
                        documents.check(header)
                    count = len(segment_batch.which)
                    if not count:
                        continue
                    texts = {field: segment_batch.column(field) for field in shape.needed}
                    first = outcome.records
                    outcome.records += count
                    block = shape.block(first, count, texts, None, failure_columns.none())
                    found = documents.values_of(segment_batch)
                    if block.rows is not None:
                        good = pc.subtract(block.rows, first)
                        found = {path: column.take(good) for path, column in found.items()}
                    block.documents = found
                    yield block
            except BrokenFile as problem:
                raise self._error(problem, file_plan.file, how, file_plan.data_start) from None
            if warned > _MOST_WARNINGS:
                others = f"{warned - _MOST_WARNINGS} more counts and references do not fit"
                outcome.warnings.append(f"{file_plan.file.name}: {others}")

    def _error(self, problem: BrokenFile, file: InputFile, text: _Text, start: int = 0) -> FormatError:
        return FormatError(f"broken {self.title}: {self._located(problem, start, text)}", file.name)

    def _located(self, problem: BrokenFile, start: int, text: _Text) -> str:
        """Describe a problem with a segment, with its place in the file. The text begins at `start`."""
        unit, offset = "byte", problem.offset
        if not text.is_utf8:
            unit = "byte of its text as UTF-8"
        elif text.wrap is not None:
            offset = start + text.wrap.offset(offset - start)
        tag = f" ({problem.tag})" if problem.tag else ""
        return f"segment {problem.number}{tag} at {unit} {offset}: {problem.message}"


@dataclass(frozen=True)
class _Text:
    """The rules by which the text of a file is read from its bytes.

    Args:
        charset: the encoding.
        wrap: how its lines are wrapped; None where line ends are as they are.
        start: where the first of them begins.
    """

    charset: str
    wrap: Wrap | None = None
    start: int = 0

    @property
    def is_utf8(self) -> bool:
        """Whether its bytes are read as they are."""
        return encoding.is_utf8(self.charset)

    def stream(self, raw: Stream, start: int) -> ByteStream:
        """The text as UTF-8, from a place on; `raw` stands at the beginning of the file."""
        if self.is_utf8:
            raw.seek(start)
            return raw if self.wrap is None else UnwrappedStream(raw, self.wrap)
        whole: ByteStream = raw if self.wrap is None else UnwrappedStream(raw, self.wrap)
        return encoding.Utf8Stream(whole, self.charset, start)


def _exactly(stream: ByteStream, size: int) -> bytes:
    """Read so many bytes; fewer only at the end."""
    data = stream.read(size)
    while len(data) < size and (more := stream.read(size - len(data))):
        data += more
    return data


def _is_utf8(file: InputFile, wrap: Wrap | None, start: int) -> bool:
    """Whether all of a file is text in UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with changes.opened(file) as raw:
        stream = _Text("utf-8", wrap).stream(raw, start)
        try:
            while data := stream.read(_READ_BYTES):
                decoder.decode(data)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True
