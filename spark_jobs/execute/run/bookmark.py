"""The bookmark of a pipeline: a small file with the positions that its runs have reached in incremental sources.

It is one more file of a run: written with the outputs, and published with them or not at all. So outputs and bookmark
are always of the same run, however it ends. Two runs that began at one bookmark cannot both publish: the second one
finds another bookmark than it began at, and ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute.delivery.destination import Content, FileType
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.scan import bookmarks
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.execute.delivery.destination import Destination, Draft
    from spark_jobs.execute.identity import Identity
    from spark_jobs.nodes.source.step import SourceStep
    from spark_jobs.stores.location import FilePath

VERSION = 1
#: The diagnostic of a bookmark that another run has moved.
MOVED = "E914"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Bookmark:
    """A bookmark as a run found it.

    Args:
        path: where it is.
        text: its bytes; none where there is none.
        sources: the mark of each source.
        run: the execution id of the run that wrote it; empty if there is none.
        moved: when that was, in UTC.
    """

    path: FilePath
    text: bytes = b""
    sources: Mapping[str, bookmarks.Mark] = field(default_factory=dict)
    run: str = ""
    moved: str = ""

    @classmethod
    def at(cls, path: FilePath, there: Destination[FilePath], *, even_damaged: bool = False) -> Bookmark:
        """The bookmark that is there; a damaged one has no marks where that is enough.

        Raises:
            RunFailed: it cannot be read, or is no bookmark (E913).
        """
        try:
            return cls.read(path, there)
        except RunFailed:
            if not even_damaged:
                raise
            return cls(path, _bytes(path, there))

    @classmethod
    def read(cls, path: FilePath, there: Destination[FilePath]) -> Bookmark:
        """The bookmark that is there.

        Raises:
            RunFailed: it cannot be read, or is no bookmark (E913).
        """
        text = _bytes(path, there)
        if not text:
            return cls(path)
        try:
            found = json.loads(text)
            version = found["version"]
            if version != VERSION:
                raise _unusable(path, f"is of version {version}, and this is a program for version {VERSION}")
            sources = {str(name): _mark(mark) for name, mark in found["sources"].items()}
            return cls(path, text, sources, str(found["run"]), str(found["moved"]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise _unusable(path, "is no bookmark, or a damaged one") from None

    def news(
        self, steps: Mapping[str, SourceStep], since: Sequence[str], until: Sequence[str]
    ) -> dict[str, bookmarks.IncrementalRead]:
        """The range to read of each incremental source.

        Args:
            steps: the sources.
            since: bounds of the command line, as `VALUE` for all sources or `SOURCE=VALUE` for one.
            until: the same.

        Raises:
            RunFailed: a bound is for no incremental source.
        """
        incremental = {name: step.incremental for name, step in steps.items() if step.incremental is not None}
        lower, upper = _bounds("since", since, incremental), _bounds("until", until, incremental)
        return {
            name: bookmarks.IncrementalRead(name, wanted, self.sources.get(name), lower.get(name), upper.get(name))
            for name, wanted in incremental.items()
        }

    def note(self, draft: Draft[FilePath], marks: Mapping[str, bookmarks.Mark], identity: Identity) -> None:
        """Have the draft publish the bookmark after a run; nothing where it stays as it is.

        Raises:
            OSError: it cannot be written.
        """
        sources = {**self.sources, **marks}
        if sources != self.sources:
            draft.assemble(self.path, Content(start=encode_bookmark(sources, identity)))

    def refuse_moved(self, there: Destination[FilePath]) -> None:
        """End the run where the bookmark is not the one that it began at; asked while no other run can publish.

        Raises:
            RunFailed: it is another one (E914).
        """
        if _bytes(self.path, there) != self.text:
            text = (
                f"{self.path}: another run of this pipeline, or a reset, has changed the bookmark since this one "
                "began; nothing is published, for the other one may have read the same: run again"
            )
            raise RunFailed(ExitCode.IO, MOVED, text)


def encode_bookmark(sources: Mapping[str, bookmarks.Mark], identity: Identity) -> bytes:
    """A bookmark as a file has it."""
    from datetime import UTC, datetime

    found = {
        "version": VERSION,
        "run": identity.execution_id,
        "moved": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sources": dict(sources),
    }
    return (json.dumps(found, indent=1) + "\n").encode()


def _mark(found: Any) -> bookmarks.Mark:
    mark = dict(found)
    if not isinstance(mark["by"], str) or not isinstance(mark.get("files", {}), dict):
        raise ValueError(found)
    return mark


def _bytes(path: FilePath, there: Destination[FilePath]) -> bytes:
    """The contents of the bookmark; empty if there is none."""
    try:
        if isinstance(path, Path):
            return path.read_bytes()
        return b"" if there.standing(path) is FileType.NOTHING else there.own(path, _MOST_BYTES)
    except FileNotFoundError:
        return b""
    except (OSError, StoreError) as error:
        why = durable.describe(error, str(path)) if isinstance(error, OSError) else f"{path}: {error}"
        raise RunFailed(ExitCode.IO, bookmarks.UNFIT, f"the bookmark cannot be read: {why}") from error


def _unusable(path: FilePath, why: str) -> RunFailed:
    advice = "restore it, or read everything again after `clinker bookmark reset PIPELINE`"
    return RunFailed(ExitCode.IO, bookmarks.UNFIT, f"{path} {why}: {advice}")


def _bounds(option: str, given: Sequence[str], incremental: Mapping[str, object]) -> dict[str, str]:
    """The bound of each source: its own, or the one for all."""
    found: dict[str, str] = {}
    if given and not incremental:
        raise RunFailed(ExitCode.CONFIG, bookmarks.UNFIT, f"--{option}: no source of the pipeline has `incremental:`")
    for text in given:
        name, equals, value = text.partition("=")
        if equals and name in incremental:
            found[name] = value
        elif equals:
            known = ", ".join(sorted(incremental))
            message = f"--{option} {text}: there is no incremental source '{name}'; there is {known}"
            raise RunFailed(ExitCode.CONFIG, bookmarks.UNFIT, message)
    for text in given:
        if "=" not in text:
            found = {**dict.fromkeys(incremental, text), **found}
    return found
