"""Paths of a pipeline: which ones are allowed, their base folder, and the tokens of output paths."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from spark_jobs.disk import small_files
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.stores.location import FilePath

TOKENS = (
    "source_name",
    "channel",
    "pipeline_hash",
    "timestamp",
    "execution_id",
    "batch_id",
    "n",
    "source_file",
    "source_path",
)
#: Tokens whose value differs by record: the output fans out into one file per input file.
FAN_OUT_TOKENS = frozenset({"source_file", "source_path"})
_WITH_ARGUMENT = frozenset({"source_name", "pipeline_hash", "source_file", "source_path"})
_PATTERN_SIGNS = re.compile(r"[*?\[{]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Kind(Enum):
    """The use of a path, which decides how it is checked."""

    #: As it is written, whatever characters it has.
    LITERAL = auto()
    #: It matches files. The matched files are checked when they are found; here only the text before the first
    #: wildcard.
    PATTERN = auto()
    #: It has tokens. The path with tokens filled in is literal, and checked as one.
    TEMPLATE = auto()


def security_problem(
    path: str, base_dir: FilePath, *, allow_absolute: bool, folder: FilePath | None = None, kind: Kind = Kind.LITERAL
) -> tuple[str, str] | None:
    """Why a path is refused, with help, or None when it is fine: no path has `..` or leaves the base folder.

    Args:
        path: the path as it is written.
        base_dir: the folder that it must not leave.
        allow_absolute: whether absolute paths are fine.
        folder: the folder that a relative path starts at; None is the base folder. If it lies outside the base folder
            (an allowed absolute path led there), the path must not leave this folder instead.
        kind: how it is used.
    """
    shown = path if len(path) <= 200 else path[:200] + "…"
    if "\0" in path:
        return f'path contains null byte: "{shown}"'.replace("\0", "\\0"), "remove it"
    decoded = unquote(path)
    if decoded != path and climbs(decoded):
        return f'path contains encoded directory traversal: "{shown}"', "write the path without `%2e`"
    if climbs(path):
        return f'path contains directory traversal (..): "{shown}"', "paths stay below the base folder; see --base-dir"
    if is_remote(path):
        return _uri_problem(path, base_dir, allowed=allow_absolute)
    if os.path.isabs(path) or re.match(r"[A-Za-z]:[\\/]", path):
        if allow_absolute:
            return None
        return (
            f'absolute path not allowed: "{shown}" — use --allow-absolute-paths to override',
            "or write it relative to the pipeline",
        )
    if kind is Kind.TEMPLATE:
        return None
    start = folder or base_dir
    if isinstance(start, location.Location):
        return None  # keys have no links: what does not climb stays below
    if isinstance(base_dir, location.Location):
        base_dir = start  # an absolute path was allowed to lead here
    roots = (base_dir, start) if allow_absolute else (base_dir,)
    # A file can have a name that reads as a pattern: then the whole path leads somewhere too.
    ways = [path, _PATTERN_SIGNS.split(path)[0]] if kind is Kind.PATTERN else [path]
    return next(filter(None, (_escape(way, shown, start, roots) for way in ways)), None)


def _uri_problem(uri: str, base_dir: FilePath, *, allowed: bool) -> tuple[str, str] | None:
    """Why a URI is refused: it leads nowhere, or out of the base folder without consent.

    A kind of store that no run reads or writes is reported as such (E400), because no consent would help.
    """
    shown = location.without_credentials(uri if len(uri) <= 200 else uri[:200] + "…")
    if found := location.problem(uri):
        return f'"{shown}" leads nowhere: {found[0]}', found[1]
    if allowed or not location.is_readable(uri) or is_inside_store(uri, base_dir):
        return None
    return (
        f'URI not allowed: "{shown}" — use --allow-absolute-paths to override',
        "a URI leads out of the base folder, as an absolute path does",
    )


def bookmark_name(pipeline: str, channel: str) -> str:
    """The file name of a pipeline's bookmark; each channel has its own."""
    return f"{quote(f'{pipeline}@{channel}' if channel else pipeline, safe=' @')}.bookmark.json"


def climbs(path: str) -> bool:
    """True if a path has `..` in it."""
    return ".." in re.split(r"[\\/]", path)


def _escape(path: str, shown: str, start: Path, roots: tuple[Path, ...]) -> tuple[str, str] | None:
    real = small_files.real_path(os.path.join(start, path))
    if any(is_inside(real, root) for root in roots):
        return None
    return f'path escapes base directory via symlink: "{shown}" -> "{real}"', "move the file below the base folder"


def is_remote(path: str) -> bool:
    """True if a path is a URI: it has a scheme."""
    return location.is_uri(path)


def is_inside_store(uri: str, folder: FilePath) -> bool:
    """True if a folder is one of a store, and a URI leads below it."""
    if not isinstance(folder, location.Location) or location.scheme_of(uri) not in location.READABLE:
        return False
    return location.parse(uri).name_in(folder) is not None


def is_inside(path: str | FilePath, folder: FilePath) -> bool:
    """True if a path is a folder or below it, with all links resolved; in a store, whether its key begins so."""
    if isinstance(path, location.Location) or isinstance(folder, location.Location) or is_remote(path := str(path)):
        return is_inside_store(str(path), folder)
    real, root = small_files.real_path(path), small_files.real_path(folder)
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def value_problem(value: str) -> str | None:
    """The reason why a text cannot replace a token of a path; None if it can: it stays a part of one name."""
    shown = value if len(value) <= 200 else value[:200] + "…"
    if not value.strip("."):
        return f"`{shown}` is not a name" if value else "it is empty"
    if "/" in value or "\\" in value:
        return f"`{shown}` holds a path separator"
    if _CONTROL.search(value):
        return f"{shown!r} holds a control character"
    return None


def resolve(path: str, base_dir: FilePath) -> str:
    """A path of the pipeline as an absolute path or URI."""
    if location.scheme_of(path) not in ("", "file"):
        return path
    if isinstance(base_dir, location.Location):
        return str(location.located(path, base_dir))
    path = location.local(path)
    return os.path.normpath(os.path.join(base_dir, path))


def placed(path: str, base_dir: FilePath) -> FilePath:
    """Where a path of the pipeline leads; one that no client is known for is a local path, where nothing is."""
    resolved = resolve(path, base_dir)
    return Path(resolved) if not location.is_readable(resolved) else location.located(resolved)


def display_path(path: FilePath, base_dir: FilePath) -> str:
    """Give the name of a file in messages: relative to the base folder, or its URI."""
    if isinstance(path, location.Location) or isinstance(base_dir, location.Location):
        return str(path)
    return os.path.relpath(path, base_dir)


class TemplateError(ValueError):
    """A path template that makes no sense."""


@dataclass(frozen=True)
class Token:
    """`{name:argument:prefix:suffix}`; prefix and suffix are written only around a value that is not empty."""

    name: str
    argument: str = ""
    prefix: str = ""
    suffix: str = ""


@lru_cache(maxsize=1024)
def parse(template: str) -> tuple[str | Token, ...]:
    """The literal pieces and tokens of a template.

    Raises:
        TemplateError: it is not well-formed, or names an unknown token.
    """
    parts: list[str | Token] = []
    literal = ""
    at = 0
    while at < len(template):
        character = template[at]
        if template[at : at + 2] in ("{{", "}}"):
            literal += character
            at += 2
        elif character == "{":
            end = template.find("}", at)
            if end < 0:
                raise TemplateError(f"unterminated path template token in `{template}`")
            parts.extend([literal] if literal else [])
            literal = ""
            parts.append(_token(template[at + 1 : end], template))
            at = end + 1
        elif character == "}":
            raise TemplateError(f"unmatched `}}` in path template `{template}`; write `}}}}` for the character itself")
        else:
            literal += character
            at += 1
    return (*parts, literal) if literal else tuple(parts)


def _token(body: str, template: str) -> Token:
    pieces = body.split(":")
    name = pieces[0]
    if len(pieces) > 4:
        raise TemplateError(f"path template token {{{body}}} in `{template}` has too many `:` separators (max 3)")
    if not name:
        raise TemplateError(f"empty token name in path template `{template}`")
    if name not in TOKENS:
        raise TemplateError(f"unknown path template token {{{name}}} in `{template}`; known: {', '.join(TOKENS)}")
    argument, prefix, suffix = "", "", ""
    match pieces[1:]:
        case [argument]:
            pass
        case [prefix, suffix]:
            pass
        case [argument, prefix, suffix]:
            pass
    if argument and name not in _WITH_ARGUMENT:
        raise TemplateError(f"token {{{name}}} does not accept an argument (`{argument}`)")
    if name == "pipeline_hash" and argument and not _is_hash_length(argument):
        raise TemplateError(f"{{pipeline_hash:{argument}}} expects `full` or 1..=64")
    return Token(name, argument, prefix, suffix)


def _is_hash_length(argument: str) -> bool:
    return argument == "full" or (argument.isascii() and argument.isdigit() and 1 <= int(argument) <= 64)


def tokens(template: str) -> frozenset[str]:
    """The names of the tokens of a well-formed template."""
    return frozenset(part.name for part in parse(template) if isinstance(part, Token))


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template with the given tokens filled in; it stays a template.

    The other tokens can be filled in later. A value under `name:argument` wins over one under `name`; `{n}` is empty.
    """
    values = {"n": "", **values}
    filled = (_escaped(part) if isinstance(part, str) else _filled(part, values) for part in parse(template))
    return "".join(filled)


def needs_channel(template: str) -> bool:
    """True if a template has `{channel}`; with a prefix or suffix it may stand for nothing."""
    return Token("channel") in parse(template)


def render(template: str, values: Mapping[str, str]) -> str:
    """The path of a template; tokens without a value are left out."""
    return "".join(part for part in parse(fill(template, values)) if isinstance(part, str))


def _filled(token: Token, values: Mapping[str, str]) -> str:
    value = _value(token, values)
    if value is None:
        return _spelled(token)
    return _escaped(f"{token.prefix}{value}{token.suffix}") if value else ""


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _value(token: Token, values: Mapping[str, str]) -> str | None:
    value = values.get(f"{token.name}:{token.argument}", values.get(token.name))
    if value is not None and token.name == "pipeline_hash":
        return value if token.argument == "full" else value[: int(token.argument or 8)]
    return value


def _spelled(token: Token) -> str:
    parts = [token.name]
    if token.argument:
        parts.append(token.argument)
    if token.prefix or token.suffix:
        parts += [token.prefix, token.suffix]
    return "{" + ":".join(parts) + "}"
