"""The sections of XML documents, found by paths from the root (`docs/semantics/envelopes.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.formats import coerce
from spark_jobs.formats.xml.document import PathMatcher, local
from spark_jobs.formats.xml.exact.text_columns import TextColumnRecords

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.formats.format import Reading
    from spark_jobs.formats.xml.document import Records
    from spark_jobs.formats.xml.options import XmlRead

_Path = tuple[str, ...]


class Sections:
    """The sections of a document: the last of several elements at one path, the first of several fields of one name.

    Args:
        wanted: the sections.
        options: the read options.
    """

    def __init__(self, wanted: Reading, options: XmlRead) -> None:
        self._wanted = wanted
        self._paths = [_path(section.where, options) for section in wanted.sections]
        names: dict[_Path, set[str]] = {}
        for path, section in zip(self._paths, wanted.sections, strict=True):
            names.setdefault(path, set()).update(name for name, _ in section.fields)
        self._records = {path: TextColumnRecords(sorted(found), options) for path, found in names.items()}
        #: The ways to them: a section in another one is found on a way of its own.
        self.ways: list[PathMatcher] = []
        left = sorted(self._records, key=len)
        while left:
            taken = [path for path in left if not any(path[: len(one)] == one for one in left if one != path)]
            self.ways.append(_SectionMatcher({path: self._records[path] for path in taken}, strips=options.strips))
            left = [path for path in left if path not in taken]

    def values(self) -> Mapping[str, Any]:
        """The values of all sections by their paths.

        Raises:
            UnfitSection: a value does not convert.
        """
        found: dict[str, Any] = {}
        for path, section in zip(self._paths, self._wanted.sections, strict=True):
            records = self._records[path]
            texts: dict[str, str] = {}
            for name, column in records.columns.items():
                for row, text in zip(column.rows, column.values, strict=True):
                    if row == records.count - 1:
                        texts.setdefault(name, text)
            found |= coerce.section_of_texts(section, texts, self._wanted.date_formats)
        return found


class _SectionMatcher(PathMatcher):
    """The way to some elements by their paths."""

    def __init__(self, receivers: Mapping[_Path, TextColumnRecords], *, strips: bool) -> None:
        super().__init__()
        self._receivers = receivers
        self._deepest = max(map(len, receivers))
        self._strips = strips

    def receiver(self) -> Records | None:
        """The receiver of an element that is a section; otherwise None."""
        if len(self.open) > self._deepest:
            return None
        names = map(local, self.open) if self._strips else self.open
        found = self._receivers.get(tuple(names))
        if found is not None:
            for column in found.columns.values():
                # Only the last element of a path counts: nothing is kept of others.
                column.take(found.count)
        return found


def _path(where: str, options: XmlRead) -> _Path:
    names = where.removeprefix("/").split("/")
    return tuple(map(local, names)) if options.strips else tuple(names)
