"""The pages of a network source as their format reads them: what `scan/network/rest.py` asks about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs.formats.json.texts import decoding

if TYPE_CHECKING:
    from spark_jobs.formats.reader import Reader
    from spark_jobs.scan.files import InputFile


@dataclass(frozen=True)
class Pages:
    """Looks into pages through the reader of their source."""

    reader: Reader

    @property
    def explodes(self) -> bool:
        """Whether `array_paths` make other records of a page's own elements."""
        return bool(self.reader.arrays)

    def records(self, file: InputFile, *, exploded: bool) -> int:
        """The number of records of a page: after `array_paths`, or its own elements.

        Raises:
            FormatError: the page is broken.
        """
        return (self.reader if exploded else replace(self.reader, arrays=())).records_of(file)

    def document(self, data: bytes) -> Any:
        """A page's text as a JSON document: tokens are found in one, whatever the format of the records.

        Raises:
            ValueError: it is none.
        """
        encoding = self.reader.options.encoding or "utf-8"
        return decoding.parse(data.decode(encoding).removeprefix("\ufeff"))

    def text(self, value: Any) -> str:
        """A value of such a document as a text."""
        return decoding.raw_text(value)
