"""Finds the files of a source: path, glob, regex or list, then filters, order and choice.

The result is a function of the settings and of the file system or store as it is: nothing is opened. Relative patterns
start at the base folder; files are named relative to it, as the author of the pipeline wrote them. A URI stands for
itself. A named file must exist; a pattern without a match does what `on_no_match` says.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import re2

from spark_jobs.disk import system_errors
from spark_jobs.scan import bookmarks
from spark_jobs.scan.files import FormatError, InputFile, RealPaths, refused
from spark_jobs.stores import location as locations
from spark_jobs.stores.refusals import StoreError
from spark_jobs.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spark_jobs.stores.location import FilePath
    from spark_jobs.stores.objects import Object


class Matching(Protocol):
    """The settings that choose a source's files; exactly one of `path`, `glob`, `regex`, `paths` is set."""

    @property
    def path(self) -> str | None:
        """The path of a single file."""

    @property
    def glob(self) -> str | None:
        """A pattern of paths: `*`, `?`, `[ab]` within a folder, `**` over folders."""

    @property
    def regex(self) -> str | None:
        """A regular expression that is searched in the paths of all files under the base folder."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Several files."""

    @property
    def exclude(self) -> tuple[str, ...]:
        """Patterns of paths or file names to leave out; `*` reaches over folders here."""

    @property
    def modified_after(self) -> float | None:
        """The earliest time of change, in seconds since 1970."""

    @property
    def modified_before(self) -> float | None:
        """The latest time of change, in seconds since 1970."""

    @property
    def min_size(self) -> int | None:
        """The smallest size in bytes."""

    @property
    def max_size(self) -> int | None:
        """The largest size in bytes."""

    @property
    def sort_by(self) -> str:
        """`name`, `created` or `modified`."""

    @property
    def sort_order(self) -> str:
        """`asc` or `desc`."""

    @property
    def take_first(self) -> int | None:
        """The number of files to keep from the beginning."""

    @property
    def take_last(self) -> int | None:
        """The number of files to keep from the end."""

    @property
    def recursive(self) -> bool:
        """True if `regex` looks into folders."""

    @property
    def on_no_match(self) -> str:
        """`error`, `warn` or `skip`."""


@dataclass(frozen=True)
class Matched:
    """The files of a source in reading order, what to warn of, and the mark once all of them were read."""

    files: tuple[InputFile, ...]
    warnings: tuple[str, ...] = ()
    mark: bookmarks.Mark | None = None


@dataclass(frozen=True)
class _Candidate:
    """A file that a matcher found, and when it was made, in seconds since 1970, as far as that is known."""

    file: InputFile
    created: float

    @property
    def name(self) -> str:
        """Its name from the base folder, or its URI."""
        return self.file.name


_NO_SETTINGS = StoreSettings()


def match(
    source: str,
    settings: Matching,
    base: FilePath,
    *,
    allow_outside: bool = False,
    stores: StoreSettings = _NO_SETTINGS,
    news: bookmarks.IncrementalRead | None = None,
) -> Matched:
    """The files of a source.

    Args:
        source: the source's name, for messages.
        settings: what to match.
        base: the folder that relative patterns start at, which may be in a store.
        allow_outside: whether files outside the base folder may be read (absolute paths are allowed).
        stores: how stores are reached, where URIs lead there.
        news: which of them are new, where only those are read. They are chosen before `take_first` and `take_last`, and
            that none is new is no error.

    Raises:
        FormatError: a literal path is missing, nothing matches although something must (code `E216`), a symbolic
            link leads out of the base folder (code `E-SEC-001`), a store refuses (code `E910`), or a file does not fit
            what was read before (code `E913`).
    """
    candidates = _candidates(source, settings, base, stores.resolved())
    found = [candidate for candidate in candidates if _is_wanted(candidate, settings)]
    if not allow_outside and isinstance(base, Path):
        _refuse_escapes(found, base)
    if found and news is not None:
        return _new(_ordered(found, settings), settings, news)
    chosen = _take(_ordered(found, settings), settings)
    if chosen:
        return Matched(tuple(candidate.file for candidate in chosen))
    pattern = _pattern_of(settings)
    message = f"source '{source}' discovery failed: no file matches {pattern}"
    if isinstance(base, Path) and pattern[:1] != "/" and not _is_in_store(pattern) and (absent := _absent(base)):
        message = f"{message}; {absent}"
    match settings.on_no_match:
        case "error":
            raise FormatError(message, pattern, "E216")
        case "warn":
            return Matched((), (message,))
        case _:
            return Matched(())


def _new(found: list[_Candidate], settings: Matching, news: bookmarks.IncrementalRead) -> Matched:
    """The files that are new."""
    new = bookmarks.new_files([candidate.file for candidate in found], news)
    chosen = _take(new.files, settings)
    return Matched(tuple(chosen), new.warnings, new.mark(news, chosen))


def _pattern_of(settings: Matching) -> str:
    return settings.path or settings.glob or settings.regex or ", ".join(settings.paths) or "an empty list of paths"


# ---- finding -----------------------------------------------------------------------------------------------------


def _candidates(source: str, settings: Matching, base: FilePath, stores: StoreSettings) -> Iterator[_Candidate]:
    if isinstance(base, locations.Location):
        yield from _candidates_in_store(settings, base, stores)
    elif settings.path is not None:
        yield _literal(settings.path, base, stores)
    elif settings.paths and any(map(_is_in_store, settings.paths)):
        from spark_jobs.stores import globs  # as below: sources of local files do without stores

        yield from globs.at_once(lambda path: _literal(path, base, stores), settings.paths)
    elif settings.paths:
        yield from (_literal(path, base, stores) for path in settings.paths)
    elif settings.glob is not None and _is_in_store(settings.glob):
        from spark_jobs.stores import globs

        yield from _objects(partial(globs.matching, settings.glob, stores), settings.glob, stores)
    elif settings.glob is not None:
        yield from _existing(_globbed(_local(settings.glob), base), base)
    elif settings.regex is not None and _is_in_store(settings.regex.removeprefix("^")):
        from spark_jobs.stores import globs

        compiled = _expression(settings.regex)
        find = partial(globs.searched, settings.regex, compiled, stores, deep=settings.recursive)
        yield from _objects(find, settings.regex.removeprefix("^"), stores)
    elif settings.regex is not None:
        pattern = _expression(settings.regex)
        names = (name for name in _walked(base, settings.recursive) if pattern.search(name))
        yield from _existing(names, base)


def _candidates_in_store(settings: Matching, base: locations.Location, stores: StoreSettings) -> Iterator[_Candidate]:
    """Find the files of relative paths and patterns in a folder of a store; they are named relative to it."""
    from spark_jobs.stores import globs

    named = (settings.path,) if settings.path is not None else settings.paths
    if named:
        yield from globs.at_once(lambda path: _literal_in_store(path, base, stores), named)
    elif settings.glob is not None and _is_relative(settings.glob):
        glob = settings.glob.removeprefix("./")
        yield from _objects(partial(globs.matching_below, base, glob, stores), base, stores)
    elif settings.regex is not None and not _is_in_store(settings.regex.removeprefix("^")):
        find = partial(globs.searched_below, base, _expression(settings.regex), stores, deep=settings.recursive)
        yield from _objects(find, base, stores)
    else:
        yield from _candidates("", settings, Path("/"), stores)


def _is_relative(path: str) -> bool:
    return not locations.is_uri(path) and not path.startswith("/")


def _literal_in_store(path: str, base: locations.Location, stores: StoreSettings) -> _Candidate:
    if not _is_relative(path):
        return _literal(path, Path("/"), stores)
    return _named(str(base.below(path)), stores, path)


def _expression(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(regex, options)


def _is_in_store(path: str) -> bool:
    return locations.scheme_of(path) not in ("", "file")


def _local(path: str) -> str:
    """A path that may be written as a `file:` URI."""
    try:
        return locations.local(path)
    except locations.BadLocation as error:
        raise FormatError(f"{error.message}; {error.remedy}", path, "E216") from error


def _objects(
    find: Callable[[], Iterator[Object]], written: str | locations.Location, stores: StoreSettings
) -> Iterator[_Candidate]:
    """Objects, named with the scheme that the author of the pipeline wrote, or from a base folder on."""
    base = written if isinstance(written, locations.Location) else None
    written = str(written)
    scheme = written.partition("://")[0]
    try:
        for each in find():
            relative = each.location.name_in(base) if base is not None else None
            name = relative or f"{scheme}://{each.location.bucket}/{each.location.key}"
            yield _Candidate(InputFile.of_object(each, name, stores), each.mtime_ns / 1e9)
    except locations.BadLocation as error:
        raise _nowhere(error, written) from error
    except StoreError as error:
        raise refused(error, written) from error


def _nowhere(error: locations.BadLocation, uri: str) -> FormatError:
    return FormatError(f"{error.message}; {error.remedy}", locations.without_credentials(uri), "E216")


def _literal(path: str, base: Path, stores: StoreSettings) -> _Candidate:
    """A file that must be there, whatever `on_no_match` says."""
    if _is_in_store(path):
        return _named(path, stores)
    where = base / _local(path)
    try:
        status = where.stat()
    except FileNotFoundError:
        place = "" if os.path.isabs(path) else f" in '{os.path.abspath(base)}'"
        reason = (place and _absent(base)) or f"file not found{place}{_hint(path)}"
        raise FormatError(f"discovery failed: {reason}", path, "E216") from None
    except OSError as error:
        raise FormatError(f"discovery failed: {error.strerror}{system_errors.remedy(error)}", path, "E216") from error
    if not stat.S_ISREG(status.st_mode):
        raise FormatError("discovery failed: is not a file", path, "E216")
    return _of(path, str(where), status)


def _absent(base: Path) -> str:
    """Say that the base folder does not exist; empty if it does."""
    return "" if os.path.isdir(base) else f"the base folder '{base}' (see --base-dir) is not there"


def _hint(path: str) -> str:
    return "; a pattern of names is written as `glob:`" if any(mark in path for mark in "*?[") else ""


def _named(uri: str, stores: StoreSettings, name: str | None = None) -> _Candidate:
    """An object that must be there; its name is its URI, unless it has one."""
    from spark_jobs.stores import globs

    try:
        found = globs.named(uri, stores)
    except locations.BadLocation as error:
        raise _nowhere(error, uri) from error
    except StoreError as error:
        raise refused(error, uri) from error
    if found is None:
        raise FormatError(f"discovery failed: file not found{_hint(uri)}", uri, "E216")
    return _Candidate(InputFile.of_object(found, name or uri, stores), found.mtime_ns / 1e9)


def _of(name: str, where: str, status: os.stat_result) -> _Candidate:
    created = getattr(status, "st_birthtime", status.st_mtime)
    return _Candidate(InputFile.of(where, name, status), created)


def _existing(names: Iterator[str], base: Path) -> Iterator[_Candidate]:
    """The regular files among some names; what vanished meanwhile is no match."""
    root = str(base)
    for name in names:
        where = os.path.join(root, name.removeprefix("./"))
        try:
            status = os.stat(where)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield _of(name, where, status)


def _globbed(pattern: str, base: Path) -> Iterator[str]:
    """The paths that a pattern matches, relative to the base folder unless it is absolute. Hidden files match."""
    absolute = pattern.startswith("/")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    root = Path("/") if absolute else base
    prefix = "/" if absolute else ""
    return (prefix + name for name in _descend(root, "", parts))


def _descend(root: Path, inner: str, parts: list[str]) -> Iterator[str]:
    """Names under `root / inner` that the parts of a pattern match, each file once."""
    if not parts:
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _any_depth(root, inner, rest or ["*"])
        return
    if not re.search(r"[*?[]", part):
        name = inner + part
        if not rest:
            yield name
        else:
            yield from _descend(root, name + "/", rest)
        return
    matches = _component(part)
    for name, is_folder in _entries(root, inner):
        if matches.fullmatch(name):
            if not rest:
                yield inner + name
            elif is_folder:
                yield from _descend(root, f"{inner}{name}/", rest)


def _any_depth(root: Path, inner: str, rest: list[str]) -> Iterator[str]:
    while rest[0] == "**" and len(rest) > 1:
        rest = rest[1:]
    if rest == ["**"]:
        rest = ["*"]
    seen: set[str] = set()
    for folder in _folders(root, inner):
        for name in _descend(root, folder, rest):
            if name not in seen:
                seen.add(name)
                yield name


def _folders(root: Path, inner: str) -> Iterator[str]:
    """A folder and all below it in the order of their paths, symbolic links not followed; nested as deep as may be."""
    waiting = [inner]
    while waiting:
        found = waiting.pop()
        yield found
        below = [f"{found}{name}/" for name, is_folder in _entries(root, found) if is_folder]
        waiting += [folder for folder in reversed(below) if not (root / folder.rstrip("/")).is_symlink()]


def _walked(base: Path, recursive: bool) -> Iterator[str]:
    """The files under the base folder by their relative names, symbolic links left out."""
    for inner in _folders(base, "") if recursive else ("",):
        for name, is_folder in _entries(base, inner):
            if not is_folder and not (base / (inner + name)).is_symlink():
                yield inner + name


def _entries(root: Path, inner: str) -> list[tuple[str, bool]]:
    """The names in a folder, sorted, and whether they are folders; a folder that may not be read is an error."""
    where = root / inner
    try:
        with os.scandir(where) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        message = f"the folder cannot be read: {error.strerror}{system_errors.remedy(error)}"
        raise FormatError(message, inner or str(root)) from error


def _component(part: str) -> re.Pattern[str]:
    """Translate a component of a glob to a regular expression: `*`, `?`, `[ab]`, `[!ab]`. Letter case matters."""
    return re.compile(fnmatch.translate(part), re.DOTALL)


# ---- filters and order ---------------------------------------------------------------------------------------------


def _is_wanted(candidate: _Candidate, settings: Matching) -> bool:
    file, seconds = candidate.file, candidate.file.mtime_ns / 1e9
    return (
        not any(_excludes(pattern, candidate.name) for pattern in settings.exclude)
        and (settings.min_size is None or file.size >= settings.min_size)
        and (settings.max_size is None or file.size <= settings.max_size)
        and (settings.modified_after is None or seconds >= settings.modified_after)
        and (settings.modified_before is None or seconds <= settings.modified_before)
    )


def _excludes(pattern: str, name: str) -> bool:
    """True if a pattern fits a file's whole name or its last component; here `*` crosses folders."""
    plain = name.removeprefix("./")
    last = name.rsplit("/", 1)[-1]
    return any(fnmatch.fnmatchcase(text, pattern.removeprefix("./")) for text in (plain, last))


def _ordered(found: list[_Candidate], settings: Matching) -> list[_Candidate]:
    def key(candidate: _Candidate) -> tuple[float, tuple[str, ...]]:
        components = tuple(part for part in candidate.name.split("/") if part not in ("", "."))
        match settings.sort_by:
            case "modified":
                return candidate.file.mtime_ns, components
            case "created":
                return candidate.created, components
            case _:
                return 0, components

    return sorted(found, key=key, reverse=settings.sort_order == "desc")


_T = TypeVar("_T")


def _take(found: Sequence[_T], settings: Matching) -> Sequence[_T]:
    if settings.take_first is not None:
        return found[: settings.take_first]
    if settings.take_last is not None:
        return found[-settings.take_last :] if settings.take_last else []
    return found


def _refuse_escapes(found: list[_Candidate], base: Path) -> None:
    """A symbolic link must not lead out of the base folder."""
    paths = RealPaths()
    root = os.path.join(os.path.realpath(base), "")
    for candidate in found:
        if candidate.file.is_object:
            continue  # Keys have no links, and consent to URIs is asked for when the pipeline is checked.
        real = paths.of(candidate.file.path)
        if not real.startswith(root):
            message = f'path escapes base directory via symlink: "{candidate.name}" -> "{real}"'
            raise FormatError(message, candidate.name, "E-SEC-001")
