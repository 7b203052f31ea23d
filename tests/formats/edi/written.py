"""Writes records as interchanges: in parts, as tasks do, and one by one, as the rules say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.cxl import types
from spark_jobs.cxl.schema import Column, Schema
from spark_jobs.formats import format, registry
from spark_jobs.nodes.output import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Record = dict[str, str | None]


@dataclass
class Spelling:
    """A format as its chapter has it: the tags around messages, and their pieces."""

    name: str
    reference: str
    kind: str
    opening: str
    services: tuple[str, ...]
    separator: str
    terminator: str
    first: str
    options: dict[str, Any]

    def text(self, found: Sequence[Record]) -> str:
        """A file of the records."""
        segments = [*self._messages(found)]
        if self.name == "edifact":
            header = [["UNB", *self.options["interchange"]]]
            count = sum(segment[0] == "UNT" for segment in segments)
            end = [["UNZ", str(count), self.options["interchange"][4]]]
        else:
            isa, group = self.options["interchange"], self.options["group_header"]
            header = [["ISA", *isa], ["GS", *group[:5], "1", *group[6:]]] if segments else [["ISA", *isa]]
            count = sum(segment[0] == "SE" for segment in segments)
            end = [["GE", str(count), "1"], ["IEA", "1", isa[12]]] if segments else [["IEA", "0", isa[12]]]
        return "".join(map(self._written, [*header, *segments, *end]))

    def _written(self, segment: Sequence[str]) -> str:
        text = self.separator.join(map(self._safe, segment))
        if text.endswith(("\r", "\n")):
            # At the end of a segment it would count for nothing.
            text = f"{text[:-1]}?{text[-1]}"
        return text + self.terminator + "\n"

    def _safe(self, text: str) -> str:
        if self.name == "x12":
            return text
        return "".join("?" + character if character in "?+'" else character for character in text)

    def _messages(self, found: Sequence[Record]) -> Iterator[list[str]]:
        is_open, number = None, 0
        for record in found:
            reference, tag = record[self.reference] or "", record["seg_id"] or ""
            if is_open is None or (reference and (reference != is_open or tag == self.opening)):
                if is_open is not None:
                    yield self._closed(number, is_open)
                is_open, number = reference or self.first, 1
                kind = record[self.kind] or "ANY"
                rest = ["", record["e04"]] if tag == self.opening and record["e04"] else []
                yield ["UNH", is_open, kind, *rest] if self.name == "edifact" else ["ST", kind, is_open, *rest]
            if tag in self.services:
                continue
            number += 1
            elements = [record["e01"] or "", record["e02"] or "", record["e04"] or ""]
            cells = [elements[0], elements[1], "", elements[2]]
            while cells and not cells[-1]:
                cells.pop()
            yield [tag, *cells]
        if is_open is not None:
            yield self._closed(number, is_open)

    def _closed(self, number: int, reference: str) -> list[str]:
        return ["UNT" if self.name == "edifact" else "SE", str(number + 1), reference]


EDIFACT = Spelling(
    "edifact", "msg_ref", "msg_type", "UNH", ("UNB", "UNZ", "UNH", "UNT"), "+", "'", "1",
    {"interchange": ("UNOA:1", "ME", "Y'OU", "240301:0800", "R1"), "message_type": "ANY"},
)  # fmt: skip
X12 = Spelling(
    "x12", "set_ref", "set_type", "ST", ("ISA", "IEA", "GS", "GE", "ST", "SE"), "*", "~", "0001",
    {
        "interchange": ("00", " " * 10, "00", " " * 10, "ZZ", "A".ljust(15), "ZZ", "B".ljust(15), "240501", "0900",
                        "U", "00401", "000000001", "0", "P", ":"),
        "group_header": ("PO", "ME", "YOU", "20240301", "0800", "55", "X", "004010"),
        "set_type": "ANY",
    },
)  # fmt: skip


class _Bytes:
    """A part in memory."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: Any) -> None:
        self.data += bytes(data)

    def tell(self) -> int:
        return len(self.data)

    def close(self) -> None:
        """Nothing is held back."""


def in_parts(
    spelling: Spelling,
    parts: Sequence[Sequence[Sequence[Record]]],
    *,
    columns: Sequence[str] = (),
    **options: Any,
) -> bytes:
    """The file of some parts, each of which comes in batches."""
    names = columns or ["seg_id", spelling.reference, spelling.kind, "e01", "e02", "e04"]
    chosen = registry.named(spelling.name)
    wanted = chosen.write_options(**{**spelling.options, **options})
    writer = chosen.writer(Schema(tuple(Column(name, types.STRING) for name in names)), wanted)
    frame = chosen.frame(wanted)
    assert frame is not None
    written: list[tuple[bytes, str]] = []
    for part in parts:
        kept = _Bytes()
        file = records.FramedFile(lambda _, kept=kept: kept, "", frame)  # type: ignore[misc,arg-type,return-value]
        for found in part:
            batch = pa.RecordBatch.from_pylist(list(found), pa.schema([(name, pa.string()) for name in names]))
            encoded = writer.encode(batch, ends=True)
            assert not encoded.failures
            if encoded.unfit:
                raise format.UnwritableFile(encoded.unfit[0].failure.detail)
            assert encoded.ends is not None
            file.write(records.of(encoded.data, encoded.ends, b""), {records.MARK: encoded.marks})
        if file.note:
            written.append((kept.data, file.note))
    if not written:
        return writer.empty
    joined = frame.joined([note for _, note in written])
    pieces = [joined.start]
    for (data, _), ranges in zip(written, joined.parts, strict=True):
        at = 0
        for before, known in ranges:
            end = len(data) if known is None else at + known
            pieces += [before, data[at:end]]
            at = end
        assert at == len(data)
    return b"".join([*pieces, joined.end])
