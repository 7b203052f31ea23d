"""Records to segments, many at once; `frame.py` adds headers, messages and trailers around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.cxl.engine import RowFailure
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.types import Kind
from spark_jobs.formats import cell_text, encoding, format
from spark_jobs.formats.edi.frame import MARKS
from spark_jobs.formats.edi.settings import ELEMENT, NO_HEADER, TAG

if TYPE_CHECKING:
    from spark_jobs.cxl.schema import Column, Schema
    from spark_jobs.formats.edi.frame import InterchangeFrame

_CONTAINERS = (Kind.ARRAY, Kind.MAP)
#: Stand for nothing, and between the elements of a header that is put together of columns.
_ABSENT, _BETWEEN = "\x1e", "\x1f"
#: The elements of a segment that opens a message which are the reference and the type: the frame writes them.
_COMPUTED = 2
_HELP = "make it a scalar in CXL before the emit"


class InterchangeWriter:
    """Writes records as segments; see `format.Writer`. A header, messages and counts come from the frame.

    Args:
        schema: the columns.
        frame: what stands around the segments, and how they are spelled.

    Raises:
        Unfit: a column has no place in a segment, or the options say no header.
    """

    separator = b""
    start = continued = end = b""

    def __init__(self, schema: Schema, frame: InterchangeFrame) -> None:
        options = frame.options
        if options.interchange is None and options.interchange_from_doc is None:
            raise format.UnwritableFile(NO_HEADER)
        self._frame = frame
        self._encoding = encoding.Encoding(options.encoding)
        self._is_utf8 = encoding.is_utf8(options.encoding)
        self._columns = schema.columns
        self._places = {column.name: place for place, column in enumerate(schema.columns)}
        self._known = options.known
        if TAG not in self._places:
            raise format.UnwritableFile(f"{options.title} segments need a tag, and there is no column '{TAG}'")
        mine = [column.name for column in schema.columns if not column.is_engine and column.name not in self._known]
        self._elements = self._numbered({name: name for name in mine})
        around = {name: name.rpartition(".")[2] for name in self._places if name.startswith(f"${format.DOCUMENT}")}
        self._heading = self._numbered({name: key for name, key in around.items() if ELEMENT.fullmatch(key)})
        self._raw = next((name for name in self._places if name.endswith(f".{format.RAW}")), None)
        self._read = [*self._elements.values(), *(self._places[name] for name in self._known if name in self._places)]
        self.empty = frame.empty()

    def _numbered(self, names: dict[str, str]) -> dict[int, int]:
        """The place of the column of each element, by the element's number."""
        found: dict[int, int] = {}
        for name, short in names.items():
            if (problem := self._frame.options.element_problem(short)) is not None:
                raise format.UnwritableFile(problem)
            number = int(short[1:])
            if number in found:
                raise format.UnwritableFile(f"column '{name}' is element {number}, and so is another column")
            found[number] = self._places[name]
        return dict(sorted(found.items()))

    def encode(self, batch: pa.RecordBatch, *, ends: bool = False) -> format.Encoded:
        """The segments of a batch that has the writer's columns, in their order; frame segments get no bytes here.

        Records that the format cannot hold are unfit.
        """
        failed: dict[int, Failure] = {}
        texts = {place: self._texts(self._columns[place], batch.column(place), failed) for place in self._read}
        tags = texts[self._places[TAG]]
        is_none = pc.or_(pc.equal(tags, ""), pc.match_substring_regex(tags, "[\r\n]"))
        for row in pc.indices_nonzero(is_none).to_pylist():
            failed.setdefault(row, Failure(f"missing required field '{TAG}'", Category.MISSING_REQUIRED, field=TAG))
        unfit = {row: failure for row, failure in self._unfit(texts).items() if row not in failed}
        if not failed and not unfit:
            return self._encoded(texts, batch)
        kept = pa.array(np.delete(np.arange(batch.num_rows), sorted({*failed, *unfit})))
        if not len(kept):
            return format.Encoded(b"", 0, _in_order(failed), unfit=_in_order(unfit))
        found = self._encoded({place: column.take(kept) for place, column in texts.items()}, batch.take(kept))
        failed |= {kept[item.row].as_py(): item.failure for item in found.failures}
        found.failures, found.unfit = _in_order(failed), _in_order(unfit)
        return found

    def _unfit(self, texts: dict[int, pa.StringArray]) -> dict[int, Failure]:
        """The records that the format cannot hold, and why."""
        frame, tags = self._frame, texts[self._places[TAG]]
        found: dict[int, Failure] = {}
        encoded = pc.dictionary_encode(tags)
        known, kind = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        problems = [None if tag in frame.services else _tag_problem(frame, tag) for tag in known]
        for row in np.flatnonzero(np.array([each is not None for each in problems], dtype=np.bool_)[kind]).tolist():
            found[row] = Failure(problems[kind[row]] or "", value=known[kind[row]], field=TAG)
        is_service = np.array([tag in frame.services for tag in known], dtype=np.bool_)[kind]
        opens = pc.equal(tags, frame.opening).to_numpy(zero_copy_only=False)
        around = [(name, self._places[name]) for name in self._known[1:] if name in self._places]
        if getattr(frame.options, frame.options.default_kind) is None and len(around) == len(self._known) - 1:
            references, kinds = (texts[place] for _, place in around)
            lacks_kind = opens & _is_filled(references) & ~_is_filled(kinds)
            for row in np.flatnonzero(lacks_kind).tolist():
                found[row] = Failure(frame.no_kind(references[row].as_py()), field=frame.options.kind)
        for what, place in [*((f"element {number}", place) for number, place in self._elements.items()), *around]:
            # The frame writes only the additional elements of the segment that opens a message.
            is_written = ~is_service
            if (what, place) in around:
                is_written[:] = True
            elif int(what.rpartition(" ")[2]) > _COMPUTED:
                is_written |= opens
            for row in self._barred(texts[place]):
                if is_written[row]:
                    text = texts[place][row].as_py()
                    detail = f"segment {tags[row].as_py()}: {what} '{text}' {frame.problem(text)}"
                    found.setdefault(row, Failure(detail, value=text, field=self._columns[place].name))
        if not frame.keeps_line_ends:
            says = f"ends with a line end, which {frame.options.title} cannot escape"
            for row in self._ended(texts, is_service, opens):
                found.setdefault(row, Failure(f"segment {tags[row].as_py()}: the last element {says}"))
            for name, place in around:
                for row in np.flatnonzero(_ends_line(texts[place])).tolist():
                    found.setdefault(row, Failure(f"segment {frame.opening}: {name} {says}", field=name))
        return found

    def _barred(self, texts: pa.StringArray) -> list[int]:
        """The rows with a character that cannot stand in any text."""
        characters = cell_text.characters(texts)
        signs = [sign for sign in self._frame.barred if characters.find(sign.encode()) >= 0]
        rows = {row for sign in signs for row in pc.indices_nonzero(pc.match_substring(texts, sign)).to_pylist()}
        return sorted(rows)

    def _ended(self, texts: dict[int, pa.StringArray], is_service: np.ndarray, opens: np.ndarray) -> list[int]:
        """The rows whose last element ends with a line end."""
        found = set[int]()
        is_after = np.zeros(len(is_service), dtype=np.bool_)
        for number, place in reversed(self._elements.items()):
            is_written = (~is_service | opens) if number > _COMPUTED else ~is_service
            found.update(np.flatnonzero(_ends_line(texts[place]) & is_written & ~is_after).tolist())
            is_after |= _is_filled(texts[place])
        return sorted(found)

    def _texts(self, column: Column, array: pa.Array, failed: dict[int, Failure]) -> pa.StringArray:
        """The texts of a column, empty for null; a container has no place in a segment."""
        static = column.type
        is_container: pa.Array
        if static.kind in _CONTAINERS:
            is_container = array.is_valid()
        elif static.is_dynamic:
            is_container = pc.fill_null(cell_text.are_containers(array), False)
        else:
            text = array if static.kind is Kind.STRING else cell_text.texts(array, static)
            return pc.fill_null(cast("pa.StringArray", text), "")
        text = cell_text.texts(array, static)
        for row in pc.indices_nonzero(is_container).to_pylist():
            detail = (
                f"column '{column.name}': arrays and maps cannot be written as {self._frame.options.title}; {_HELP}"
            )
            failed.setdefault(row, Failure(detail, value=text[row].as_py(), field=column.name))
        return pc.fill_null(text, "")

    def _encoded(self, texts: dict[int, pa.StringArray], batch: pa.RecordBatch) -> format.Encoded:
        """The segments of records that are in order but for their encoding."""
        lines, rest = self._lines(texts)
        marks = self._marks(texts, rest, batch)
        failures: list[RowFailure] = []
        if not self._is_utf8:
            # The frame's values of a record have to be encodable, too.
            around = pc.binary_join_element_wise(
                lines, marks.field("reference"), pc.fill_null(marks.field("kind"), ""), rest, ""
            )
            failures = self._encoding.encode_column(around, ends=True).failures
            if failures:
                kept = pa.array(np.delete(np.arange(len(lines)), [item.row for item in failures]))
                lines, marks = lines.take(kept), marks.take(kept)
        if not len(lines):
            return format.Encoded(b"", 0, failures)
        found = self._encoding.encode_column(lines, ends=True)
        return format.Encoded(found.data, found.rows, failures, found.ends, marks)

    def _lines(self, texts: dict[int, pa.StringArray]) -> tuple[pa.StringArray, pa.StringArray]:
        """The segments of records, empty where the frame writes them; and the further elements of opening segments."""
        frame, tags = self._frame, texts[self._places[TAG]]
        cells = {number: texts[place] for number, place in self._elements.items()}
        is_filled = {number: _is_filled(cell) for number, cell in cells.items()}
        last = np.zeros(len(tags), dtype=np.int64)
        for number, filled in is_filled.items():
            last[filled] = number
        pieces: list[pa.StringArray] = [tags]
        more: list[pa.StringArray] = []
        opens = pc.equal(tags, frame.opening)
        at = 0
        for number, cell in cells.items():
            if not is_filled[number].any():
                continue
            pieces.append(_separators(frame.separator, last, at, number))
            pieces.append(frame.safe(cell))
            if number > _COMPUTED:
                more += [_separators(frame.separator, last, max(at, _COMPUTED), number), pieces[-1]]
            at = number
        lines = frame.ended(pc.binary_join_element_wise(*pieces, ""))
        ended = pc.binary_join_element_wise(lines, frame.end_of_segment, "")
        is_service = pc.is_in(tags, value_set=pa.array(frame.services))
        rest: pa.StringArray = pa.repeat("", len(tags))
        if more:
            found = pc.if_else(opens, pc.binary_join_element_wise(*more, ""), "")
            rest = frame.ended(cast("pa.StringArray", found))
        return cast("pa.StringArray", pc.if_else(is_service, "", ended)), rest

    def _marks(self, texts: dict[int, pa.StringArray], rest: pa.StringArray, batch: pa.RecordBatch) -> pa.StructArray:
        """The values of each record that the frame needs."""
        frame, tags = self._frame, texts[self._places[TAG]]
        nothing = pa.repeat("", len(tags))
        reference, kind = (
            frame.ended(frame.safe(texts[self._places[name]])) if name in self._places else nothing
            for name in frame.options.known[1:]
        )
        opens = pc.and_(pc.equal(tags, frame.opening), pc.not_equal(reference, ""))
        known = pc.if_else(pc.equal(kind, ""), None, kind)
        return pa.StructArray.from_arrays([reference, known, opens, self._headers(batch), rest], fields=list(MARKS))

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        """The elements of the header of each record's document, as JSON arrays."""
        raw: pa.Array = pa.nulls(batch.num_rows, pa.string())
        if self._raw is not None:
            raw = batch.column(self._places[self._raw])
        if not raw.null_count or not self._heading:
            return raw
        failed: dict[int, Failure] = {}
        cells = [self._texts(self._columns[place], batch.column(place), failed) for place in self._heading.values()]
        filled = [pc.if_else(pc.equal(cell, ""), _ABSENT, cell) for cell in cells]
        encoded = pc.dictionary_encode(pc.binary_join_element_wise(*filled, _BETWEEN))
        known = pa.array([_header(list(self._heading), text) for text in encoded.dictionary.to_pylist()], pa.string())
        return pc.coalesce(raw, known.take(encoded.indices))


def _header(numbers: list[int], joined: str) -> str | None:
    """The elements of a header up to the first absent one; None if there are none."""
    found: list[str] = []
    for number, text in zip(numbers, joined.split(_BETWEEN), strict=True):
        if number != len(found) + 1 or text == _ABSENT:
            break
        found.append(text)
    return json.dumps(found, ensure_ascii=False) if found else None


def _tag_problem(frame: InterchangeFrame, tag: str) -> str | None:
    """Why a record cannot have a tag; None if it can, or if it has no tag."""
    if not tag or frame.tag.fullmatch(tag) is None:
        return f"'{tag}' is no tag of a segment, which has {frame.tags}" if tag else None
    return f"segment {tag} stands outside of messages, and cannot be a record" if tag in frame.elsewhere else None


def _ends_line(texts: pa.StringArray) -> np.ndarray:
    """A mask of the texts that end with a line end."""
    characters = cell_text.characters(texts)
    if characters.find(b"\n") < 0 and characters.find(b"\r") < 0:
        return np.zeros(len(texts), dtype=np.bool_)
    found: np.ndarray = pc.match_substring_regex(texts, r"[\r\n]\z").to_numpy(zero_copy_only=False)
    return found


def _is_filled(cell: pa.StringArray) -> np.ndarray:
    found: np.ndarray = pc.not_equal(cell, "").to_numpy(zero_copy_only=False)
    return found


def _separators(separator: str, last: np.ndarray, after: int, number: int) -> pa.StringArray:
    """The separators between one element and another, as far as the segment reaches."""
    counts = np.clip(np.minimum(last, number) - after, 0, None)
    choices = pa.array([separator * count for count in range(int(counts.max(initial=0)) + 1)])
    return cast("pa.StringArray", choices.take(pa.array(counts)))


def _in_order(failed: dict[int, Failure]) -> list[RowFailure]:
    return [RowFailure(row, failed[row]) for row in sorted(failed)]
