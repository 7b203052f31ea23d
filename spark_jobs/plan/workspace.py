"""`clinker.toml`: settings of a workspace, looked for in the base folder and then upwards (decision 53)."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from spark_jobs.diagnostics import codes
from spark_jobs.diagnostics.source import SourceFile, Span
from spark_jobs.nodes.model import Config, Flag, Name, Size, Text, choice
from spark_jobs.plan import document, reader
from spark_jobs.plan.yaml_tree import Entry, Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.diagnostics.diagnostic import Diagnostics

FILE = "clinker.toml"


class Compression(StrEnum):
    """Whether spilled data is compressed."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Verify(StrEnum):
    """How staged copies are checked."""

    BLAKE3 = "blake3"
    NONE = "none"


class OnExisting(StrEnum):
    """What happens to a staged copy that is there already."""

    OVERWRITE = "overwrite"
    REUSE = "reuse"
    ERROR = "error"


class Cleanup(StrEnum):
    """When staged copies are removed."""

    ON_SUCCESS = "on_success"
    ALWAYS = "always"
    NEVER = "never"


class SpillConfig(Config):
    """`[storage.spill]`."""

    dir: Name | None = None
    disk_cap_bytes: Size | None = None
    compress: choice(Compression) = Compression.AUTO  # type: ignore[valid-type]


class StagingConfig(Config):
    """`[storage.staging]`."""

    enabled: Flag = False
    dir: Name | None = None
    disk_cap_bytes: Size | None = None
    verify: choice(Verify) = Verify.BLAKE3  # type: ignore[valid-type]
    on_existing: choice(OnExisting) = OnExisting.OVERWRITE  # type: ignore[valid-type]
    cleanup: choice(Cleanup) = Cleanup.ON_SUCCESS  # type: ignore[valid-type]
    patterns: list[Text] = Field(default_factory=list)


class StorageConfig(Config):
    """`[storage]`."""

    spill: SpillConfig = SpillConfig()
    staging: StagingConfig = StagingConfig()


class ChannelsConfig(Config):
    """`[channels]`: the folder that holds channel files."""

    dir: Name = "channels"


class _File(Config):
    model_config = ConfigDict(extra="ignore")

    storage: StorageConfig = StorageConfig()
    channels: ChannelsConfig = ChannelsConfig()


@dataclass(frozen=True)
class Storage:
    """Where spilled and staged data goes; paths are absolute. `spill_dir` None is the system's temporary folder."""

    spill_dir: str | None = None
    spill_cap_bytes: int | None = None
    compress: str = "auto"
    staging_enabled: bool = False
    staging_dir: str | None = None
    staging_cap_bytes: int | None = None
    staging_verify: str = "blake3"
    staging_on_existing: str = "overwrite"
    staging_cleanup: str = "on_success"
    staging_patterns: tuple[str, ...] = ()
    #: The place of `storage.spill.dir`, for messages about the folder.
    spill_place: Span | None = field(default=None, compare=False, repr=False)

    @property
    def spill_root(self) -> str:
        """The folder that spilled data goes to."""
        return self.spill_dir or tempfile.gettempdir()


@dataclass(frozen=True)
class Workspace:
    """A workspace: its storage settings and the folders that channels are looked for in."""

    storage: Storage = Storage()
    channel_folders: tuple[Path, ...] = ()


def load(base_dir: Path, found: Diagnostics) -> Workspace:
    """The workspace that a base folder belongs to; defaults when there is no `clinker.toml`."""
    path = next((folder / FILE for folder in (base_dir, *base_dir.parents) if (folder / FILE).is_file()), None)
    if path is None:
        return Workspace()
    problems = type(found)()
    file = document.open_text(path, problems, os.path.relpath(path, base_dir))
    values = _parsed(file, problems) if file else None
    read = None
    if file is not None and values is not None:
        read = reader.read(_File, _tree(values, file, ()), problems)
    for problem in problems:
        found.add(codes.E340.at(problem.span, f"invalid {FILE}: {problem.message}", help=problem.help))
    if read is None or file is None:
        return Workspace()
    return Workspace(_storage(read.storage, path.parent, file), (path.parent, path.parent / read.channels.dir))


def _parsed(file: SourceFile, problems: Diagnostics) -> dict[str, Any] | None:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        offset = file.offset(int(place.group(1)), int(place.group(2))) if place else len(file.text)
        problems.add(codes.E340.at(Span(file, offset, offset), f"TOML does not parse: {error}"))
        return None


def _tree(value: Any, file: SourceFile, path: tuple[str, ...]) -> Node:
    """A tree like YAML's. TOML has no marks: a key's place is its first line under its table's header."""
    place = _place(file, path)
    match value:
        case dict():
            entries = {
                key: Entry(_place(file, (*path, key)), _tree(item, file, (*path, key))) for key, item in value.items()
            }
            return Mapping(place, entries)
        case list():
            return Sequence(place, [_tree(item, file, path) for item in value])
        case _:
            return Scalar(place, str(value), str(value), value, None)


def _place(file: SourceFile, path: tuple[str, ...]) -> Span:
    if not path:
        return Span(file, 0, 0)
    header = re.search(rf"^\s*\[\s*{re.escape('.'.join(path))}\s*\]", file.text, re.MULTILINE)
    table = re.search(rf"^\s*\[\s*{re.escape('.'.join(path[:-1]))}\s*\]", file.text, re.MULTILINE) if path[1:] else None
    key = re.compile(rf"^[ \t]*(?:[\w.\"-]+\.)?\"?{re.escape(path[-1])}\"?(?=\s*[=.])", re.MULTILINE)
    found = header or key.search(file.text, table.end() if table else 0)
    if found is None:
        return Span(file, 0, 0)
    start = found.start() + len(found.group()) - len(found.group().lstrip())
    return Span(file, start, found.end())


def _storage(config: StorageConfig, folder: Path, file: SourceFile) -> Storage:
    def resolved(path: str | None) -> str | None:
        return os.path.normpath(folder / path) if path else None

    spill, staging = config.spill, config.staging
    return Storage(
        spill_dir=resolved(spill.dir),
        spill_cap_bytes=spill.disk_cap_bytes,
        compress=str(spill.compress),
        staging_enabled=staging.enabled,
        staging_dir=resolved(staging.dir),
        staging_cap_bytes=staging.disk_cap_bytes,
        staging_verify=str(staging.verify),
        staging_on_existing=str(staging.on_existing),
        staging_cleanup=str(staging.cleanup),
        staging_patterns=tuple(staging.patterns),
        spill_place=_place(file, ("storage", "spill", "dir")),
    )


def check(storage: Storage, found: Diagnostics) -> None:
    """Whether the folders of a run are usable; asked before any input is read."""
    if storage.spill_dir is None:
        return
    setting = f"storage.spill.dir {storage.spill_dir}"
    if not os.path.exists(storage.spill_dir):
        message = f"{setting} does not exist; create it or point at an existing volume"
        found.add(codes.E340.at(storage.spill_place, message))
    elif not os.path.isdir(storage.spill_dir):
        found.add(codes.E340.at(storage.spill_place, f"{setting} is a file, not a directory"))
    elif not os.access(storage.spill_dir, os.W_OK | os.X_OK):
        found.add(codes.E340.at(storage.spill_place, f"{setting} is not writable"))
