"""Catalogues of tables by name: their settings in `clinker.toml` and in the environment, with secrets hidden.

A secret of a catalogue comes from the environment or from the files of its own library, and never from `clinker.toml`.
Only the driver queries catalogues. No library is loaded here, because plans read the settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs import credentials
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.stores.location import FilePath

_VARIABLE = "PYICEBERG_CATALOG__"
#: Secrets whose names do not say so, in the words of the library.
_SECRETS = frozenset({"credential", "token"})
#: The prefix of headers for requests to a catalog. Servers may check any of them as a key.
_HEADER = "header."
_OPEN_HEADERS = ("x-iceberg-", "user-agent", "content-", "accept")
_SQLITE = re.compile(r"^sqlite:///(?!/)(.*)$")
#: Properties that name a class to load.
_CODE = ("py-catalog-impl", "py-io-impl", "py-location-provider-impl")
#: Properties that are folders if they have no scheme.
_FOLDERS = ("warehouse",)


def variable(name: str, key: str) -> str:
    """The variable of a property of a catalogue."""
    return f"{_VARIABLE}{name}__{key.replace('.', '__')}".upper().replace("-", "_")


def secrets(environ: Mapping[str, str]) -> list[str]:
    """The secrets of all catalogues of an environment."""
    return [
        secret
        for key, value in environ.items()
        if key.startswith(_VARIABLE)
        for secret in secrets_of({key.removeprefix(_VARIABLE).partition("__")[2].lower(): value})
    ]


def secrets_of(properties: Mapping[str, Any]) -> list[str]:
    """The secrets among the properties of a catalogue."""
    found: list[str] = []
    for key, value in properties.items():
        if isinstance(value, Mapping):  # as files of the library have them
            found += secrets_of(value)
            continue
        text = str(value)
        if not _is_secret(key):
            found += credentials.within(text)
            continue
        found.append(text)
        if key.lower() == "credential":  # of a client: its id, and its secret
            found.append(text.partition(":")[2])
    return [each for each in found if each]


def _is_secret(key: str) -> bool:
    name = key.lower().replace("__", ".").replace("_", "-")
    if name.startswith(_HEADER):
        return not name.removeprefix(_HEADER).startswith(_OPEN_HEADERS)
    return key.lower() in _SECRETS or credentials.is_secret(key)


def flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """The properties of a table of TOML, where `s3.endpoint` is a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{key}.")
        else:
            yield before + key, str(value).lower() if isinstance(value, bool) else str(value)


def problem(name: str, key: str, value: str) -> str | None:
    """The problem of a property in `clinker.toml`; None if there is none."""
    if secrets_of({key: value}):
        return f"is a secret: files are copied and shown; set the variable {variable(name, key)}"
    if key in _CODE:
        return f"names code to load, which no file of a workspace may; set the variable {variable(name, key)}"
    return None


def is_beside(properties: Mapping[str, str]) -> bool:
    """True if a catalogue is a file of SQLite beside the workspace's file."""
    matched = _SQLITE.match(properties.get("uri", ""))
    return matched is not None and not matched[1].startswith("/")


def resolved(properties: Mapping[str, str], folder: FilePath) -> dict[str, str]:
    """Properties whose paths are absolute.

    Args:
        properties: as they are written.
        folder: where relative paths start.
    """
    found = dict(properties)
    for key in _FOLDERS:
        written = found.get(key)
        if written and location.scheme_of(written) == "" and ("/" in written or "." in written):
            start = location.located(written, folder)
            found[key] = str(start) if isinstance(start, location.Location) else f"file://{start.absolute()}"
    if isinstance(folder, location.Location):
        return found
    if matched := _SQLITE.match(found.get("uri", "")):
        found["uri"] = f"sqlite:///{(folder / matched[1]).absolute()}"
    return found
