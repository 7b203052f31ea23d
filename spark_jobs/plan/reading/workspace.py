"""`clinker.toml`: settings of a workspace, searched for in the base folder and then upwards."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field

from spark_jobs.diagnostics import codes, nearest
from spark_jobs.diagnostics.source import SourceFile, Span
from spark_jobs.nodes.model import Config, Flag, Name, Number, Size, Text, choice
from spark_jobs.plan import paths
from spark_jobs.plan.reading import document, reader, workspace_file, yaml_tree
from spark_jobs.plan.reading.yaml_tree import Entry, Node, Scalar, Sequence
from spark_jobs.scan import catalogs, connections
from spark_jobs.scan.staging import selection
from spark_jobs.scan.staging.staged_copy import Cleanup, OnExisting, Settings, Verify
from spark_jobs.stores import location
from spark_jobs.stores.settings import AzureSettings, GcsSettings, HdfsSettings, S3Settings, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic.fields import FieldInfo

    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.stores.location import FilePath


class Compression(StrEnum):
    """The compression of spilled data."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


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


class S3Config(Config):
    """`[storage.s3]`."""

    endpoint: Name | None = None
    region: Name | None = None
    path_style: Flag | None = None
    anonymous: Flag = False


class GcsConfig(Config):
    """`[storage.gcs]`."""

    endpoint: Name | None = None
    anonymous: Flag = False


class AzureConfig(Config):
    """`[storage.azure]`."""

    endpoint: Name | None = None
    anonymous: Flag = False


class HdfsConfig(Config):
    """`[storage.hdfs]`."""

    endpoints: dict[Text, list[Text]] = Field(default_factory=dict)
    user: Name | None = None


class StorageConfig(Config):
    """`[storage]`."""

    scratch: Name | None = None
    spill: SpillConfig = SpillConfig()
    staging: StagingConfig = StagingConfig()
    s3: S3Config = S3Config()
    gcs: GcsConfig = GcsConfig()
    azure: AzureConfig = AzureConfig()
    hdfs: HdfsConfig = HdfsConfig()


class BookmarksConfig(Config):
    """`[bookmarks]`: the folder that holds what runs have read of incremental sources."""

    dir: Name | None = None


class ConnectionConfig(Config):
    """`[connections.NAME]`: where a database is."""

    uri: Name


class ChannelsConfig(Config):
    """`[channels]`: the folder that holds channel files."""

    dir: Name = "channels"


class DecimalMeaning(StrEnum):
    """The meaning of `decimal` in schemas."""

    FLOAT = "float"
    EXACT = "exact"


class BehaviorConfig(Config):
    """`[behavior]`: what stays as it is when a release changes it."""

    decimal: choice(DecimalMeaning) | None = None  # type: ignore[valid-type]


class LocalConfig(Config):
    """`[local]`: runs on this machine. `cli/warm/client.py` reads it, before anything else is loaded."""

    keep_warm: Flag = False
    idle_minutes: Annotated[Number, Field(gt=0, le=10_080)] = 10.0


class _File(Config):
    """The tables that are ours; others may have tables in the file too."""

    model_config = ConfigDict(extra="ignore")

    storage: StorageConfig = StorageConfig()
    channels: ChannelsConfig = ChannelsConfig()
    connections: dict[str, ConnectionConfig] = Field(default_factory=dict)
    catalogs: dict[str, dict[str, Any]] = Field(default_factory=dict)
    bookmarks: BookmarksConfig = BookmarksConfig()
    behavior: BehaviorConfig = BehaviorConfig()
    local: LocalConfig = LocalConfig()


@dataclass(frozen=True)
class Storage:
    """The locations of spilled and staged data. Paths are absolute. `spill_dir` None is the system's temporary folder.

    Args:
        scratch: `storage.scratch`, a path or a URI; None: beside the files that a run publishes.
        spill_dir: `storage.spill.dir`.
        spill_cap_bytes: how much may be spilled; None for any amount.
        compress: `auto`, `on` or `off`.
        staging: how sources are staged; None if that is not enabled.
        stores: how object stores are reached.
        connections: where databases are, by the names of their connections.
        catalogs: the properties of catalogues of tables, by their names; paths are absolute.
        bookmark_dir: the folder of bookmarks, absolute or a URI; None: they are beside outputs.
        places: where each setting stands, by its name below `storage`; of a setting that is left out, its table.
    """

    scratch: str | None = None
    spill_dir: str | None = None
    spill_cap_bytes: int | None = None
    compress: str = "auto"
    staging: Settings | None = None
    stores: StoreSettings = field(default_factory=StoreSettings)
    connections: dict[str, str] = field(default_factory=dict)
    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    bookmark_dir: str | None = None
    places: dict[str, Span] = field(default_factory=dict, compare=False, repr=False)

    @property
    def spill_root(self) -> str:
        """The folder that spilled data goes to."""
        return self.spill_dir or tempfile.gettempdir()


@dataclass(frozen=True)
class Workspace:
    """A workspace: its storage settings, the folders of channels, and what `decimal` means in schemas.

    `decimal` is None if it is not set: the word then still means `float`, with a warning.
    """

    storage: Storage = Storage()
    channel_folders: tuple[FilePath, ...] = ()
    decimal: DecimalMeaning | None = None


def load(base_dir: FilePath, found: Diagnostics) -> Workspace:
    """The workspace that a base folder belongs to; defaults when there is no `clinker.toml`."""
    path = workspace_file.find(base_dir)
    if path is None:
        return Workspace()
    problems = type(found)()
    file = document.open_text(path, problems, paths.display_path(path, base_dir))
    values = _parsed(file, problems) if file else None
    read = None
    if file is not None and values is not None:
        _find_misspelt(values, file, problems)
        read = reader.read(_File, _tree(values, file, ()), problems)
    for problem in problems:
        if problem.code is codes.E910:
            found.add(problem)
            continue
        found.add(codes.E340.at(problem.span, f"invalid {workspace_file.NAME}: {problem.message}", help=problem.help))
    if read is None or file is None:
        return Workspace()
    storage = replace(
        _storage(read.storage, path.parent, file, found),
        connections=_connections(read.connections, file, found),
        catalogs=_catalogs(read.catalogs, path.parent, file, found),
        bookmark_dir=_folder(path.parent, read.bookmarks.dir),
    )
    folders = (path.parent, path.parent / read.channels.dir)
    return Workspace(storage, folders, decimal=read.behavior.decimal)


def _parsed(file: SourceFile, problems: Diagnostics) -> dict[str, Any] | None:
    try:
        return tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        offset = file.offset(int(place.group(1)), int(place.group(2))) if place else len(file.text)
        problems.add(codes.E340.at(Span(file, offset, offset), f"TOML does not parse: {error}"))
        return None


def _find_misspelt(values: Mapping[str, Any], file: SourceFile, problems: Diagnostics) -> None:
    """Tables of others are none of our business, but one that is called nearly like ours is meant for us."""
    ours = {name: name for name in _File.model_fields}
    for name, table in _File.model_fields.items():
        ours |= {inner: f"{name}.{inner}" for inner, field in _fields(table) if _fields(field)}
    for key in values:
        meant = nearest.nearest(key, ours)
        if meant is not None and key not in _File.model_fields:
            message = f"unknown table `{key}`; did you mean `{ours[meant]}`?"
            problems.add(codes.E005.at(_place(file, (key,)), message))


def _fields(table: FieldInfo) -> Collection[tuple[str, FieldInfo]]:
    """The keys of a setting that is a table."""
    kind = table.annotation
    return kind.model_fields.items() if isinstance(kind, type) and issubclass(kind, Config) else ()


def _tree(value: Any, file: SourceFile, path: tuple[str, ...]) -> Node:
    """A tree like YAML's. TOML has no marks: a key's place is its first line under its table's header."""
    place = _place(file, path)
    match value:
        case dict():
            entries = {
                key: Entry(_place(file, (*path, key)), _tree(item, file, (*path, key))) for key, item in value.items()
            }
            return yaml_tree.Mapping(place, entries)
        case list():
            return Sequence(place, [_tree(item, file, path) for item in value])
        case _:
            return Scalar(place, str(value), str(value), value, None)


def _place(file: SourceFile, path: tuple[str, ...]) -> Span:
    if not path:
        return Span(file, 0, 0)
    name = re.escape(".".join(path))
    header = re.search(rf"^[ \t]*\[[ \t]*{name}[ \t]*\]", file.text, re.MULTILINE)
    header = header or re.search(rf"^[ \t]*\[[ \t]*{name}\.[^\]\n]*\]", file.text, re.MULTILINE)
    parent = re.escape(".".join(path[:-1]))
    table = re.search(rf"^[ \t]*\[[ \t]*{parent}[ \t]*\]", file.text, re.MULTILINE) if path[1:] else None
    key = re.compile(rf"^[ \t]*(?:[\w.\"-]+\.)?\"?{re.escape(path[-1])}\"?(?=\s*[=.])", re.MULTILINE)
    found = header or key.search(file.text, table.end() if table else 0)
    if found is None:  # in an inline table: the table's own place
        return _place(file, path[:-1])
    start = found.start() + len(found.group()) - len(found.group().lstrip())
    return Span(file, start, found.end())


def _storage(config: StorageConfig, folder: FilePath, file: SourceFile, found: Diagnostics) -> Storage:
    spill, staging = config.spill, config.staging
    places = {
        f"{table}.{key}": _place(file, ("storage", table, *([key] if key in model.model_fields_set else [])))
        for table, model in (("spill", spill), ("staging", staging))
        for key in type(model).model_fields
    }
    return Storage(
        scratch=_scratch(config.scratch, folder, file, found),
        spill_dir=_on_disk("spill.dir", folder, spill.dir, file, found) if spill.dir else None,
        spill_cap_bytes=spill.disk_cap_bytes,
        compress=str(spill.compress),
        staging=_staging(staging, folder, places, file, found) if staging.enabled else None,
        stores=_stores(config, file, found),
        places=places,
    )


#: A server, without credentials and path.
_SERVER = re.compile(r"https?://[^/@?#\s]+")


def _stores(config: StorageConfig, file: SourceFile, found: Diagnostics) -> StoreSettings:
    s3, gcs, azure = config.s3, config.gcs, config.azure
    return StoreSettings(
        S3Settings(_endpoint("s3", s3.endpoint, file, found), s3.region, s3.path_style, s3.anonymous),
        GcsSettings(_endpoint("gcs", gcs.endpoint, file, found), gcs.anonymous),
        AzureSettings(_endpoint("azure", azure.endpoint, file, found, path=r"(/[a-z0-9-]+)?"), azure.anonymous),
        _hdfs(config.hdfs, file, found),
    )


def _hdfs(config: HdfsConfig, file: SourceFile, found: Diagnostics) -> HdfsSettings:
    """The web addresses of namenodes, by what URIs call their cluster."""
    known = dict[str, tuple[str, ...]]()
    for name, addresses in config.endpoints.items():
        place = ("storage", "hdfs", "endpoints", name)
        if location.problem(f"hdfs://{name}/") is not None or not name:
            message = f"storage.hdfs.endpoints: `{name}` is no host or cluster, as it stands in hdfs://host:port/path"
            found.add(codes.E340.at(_place(file, place), message))
        elif not addresses or any(_SERVER.fullmatch(each.rstrip("/")) is None for each in addresses):
            message = (
                f"storage.hdfs.endpoints.{name} must list the web addresses of namenodes, without credentials and "
                "path: http://host:9870"
            )
            found.add(codes.E340.at(_place(file, place), message))
        else:
            known[name.lower()] = tuple(each.rstrip("/") for each in addresses)
    return HdfsSettings(tuple(known.items()), config.user)


def _connections(tables: Mapping[str, ConnectionConfig], file: SourceFile, found: Diagnostics) -> dict[str, str]:
    """The URIs of databases, none of which has a password."""
    for name, table in tables.items():
        if (problem := connections.problem(table.uri)) is not None:
            found.add(codes.E340.at(_place(file, ("connections", name, "uri")), f"connections.{name}.uri {problem}"))
    return {name: table.uri for name, table in tables.items()}


def _catalogs(
    tables: Mapping[str, Mapping[str, Any]], folder: FilePath, file: SourceFile, found: Diagnostics
) -> dict[str, dict[str, str]]:
    """The properties of catalogues, none of which is a secret."""
    written = {name: dict(catalogs.flat(table)) for name, table in tables.items()}
    for name, properties in written.items():
        for key, value in properties.items():
            if (problem := catalogs.problem(name, key, value)) is not None:
                place = _place(file, ("catalogs", name, *key.split(".")))
                found.add(codes.E340.at(place, f"catalogs.{name}.{key} {problem}"))
        if isinstance(folder, location.Location) and catalogs.is_beside(properties):
            message = f"catalogs.{name}.uri is a file beside {workspace_file.NAME}, which is in a store: name a server"
            found.add(codes.E340.at(_place(file, ("catalogs", name, "uri")), message))
    return {name: catalogs.resolved(properties, folder) for name, properties in written.items()}


def _endpoint(table: str, written: str | None, file: SourceFile, found: Diagnostics, path: str = "") -> str | None:
    """An endpoint is a URL without credentials; emulators of Azure have the account in its path."""
    endpoint = written.rstrip("/") if written else None
    if endpoint is not None and re.fullmatch(_SERVER.pattern + path, endpoint) is None:
        message = f"storage.{table}.endpoint must be a URL of a server, without credentials and path: https://host:port"
        found.add(codes.E340.at(_place(file, ("storage", table, "endpoint")), message))
        return None
    return endpoint


def _scratch(written: str | None, folder: FilePath, file: SourceFile, found: Diagnostics) -> str | None:
    """A local folder, or a prefix of a store that can be written to."""
    if written is None:
        return None
    scheme, problem = location.scheme_of(written), location.problem(written)
    if problem is None and scheme not in ("", "file", *location.WRITABLE):
        known = ", ".join(f"{each}://" for each in sorted(location.WRITABLE))
        problem = f"nothing is written to {scheme}://", f"name a local folder or one of {known}"
    if problem is not None:
        message = f"storage.scratch leads nowhere: {problem[0]}"
        found.add(codes.E340.at(_place(file, ("storage", "scratch")), message, help=problem[1]))
        return None
    if scheme in location.WRITABLE:
        return str(location.parse(written)).rstrip("/")
    return _resolved(folder, location.local(written))


def _folder(start: FilePath, written: str | None) -> str | None:
    """A folder, which may be one of a store."""
    if written is None or location.is_uri(written):
        return written and written.rstrip("/")
    return _resolved(start, written)


def _resolved(folder: FilePath, path: str) -> str:
    return paths.resolve(path, folder).rstrip("/") or "/"


def _on_disk(setting: str, folder: FilePath, path: str, file: SourceFile, found: Diagnostics) -> str | None:
    """A local folder; None, and told, where it is relative to a workspace in a store."""
    if isinstance(folder, location.Location) and not os.path.isabs(path):
        message = f"storage.{setting} is a local folder, and {workspace_file.NAME} in a store: write an absolute path"
        found.add(codes.E340.at(_place(file, ("storage", *setting.split("."))), message))
        return None
    return os.path.normpath(os.path.join(str(folder), path))


def _staging(
    config: StagingConfig, folder: FilePath, places: dict[str, Span], file: SourceFile, found: Diagnostics
) -> Settings | None:
    """The settings of staging that is enabled; None if they mean nothing."""
    patterns = []
    for pattern in config.patterns:
        try:
            selection.compiled(pattern)
            patterns.append(selection.rooted(pattern, str(folder)))
        except selection.BadPattern as error:
            message = f'storage.staging.patterns entry "{pattern}" is not a valid glob: {error}'
            found.add(codes.E340.at(places["staging.patterns"], message))
    if config.dir is None:
        message = "storage.staging.enabled is true but storage.staging.dir is not set; name a folder on a local disk"
        found.add(codes.E340.at(places["staging.enabled"], message))
        return None
    staged = _on_disk("staging.dir", folder, config.dir, file, found)
    if staged is None:
        return None
    return Settings(
        folder=staged,
        patterns=tuple(patterns),
        cap_bytes=config.disk_cap_bytes,
        verify=config.verify,
        on_existing=config.on_existing,
        cleanup=config.cleanup,
    )
