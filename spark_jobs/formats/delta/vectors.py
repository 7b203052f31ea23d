"""Which deletion vectors the files of a table have: the library applies them, and names none of them.

Whoever takes a file out of a table has to name its vector, too. Otherwise the file stays, and its rows are there twice.
"""

from __future__ import annotations

import io
import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyarrow import parquet

from spark_jobs.formats.delta import log
from spark_jobs.formats.tables.files import FAILED
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import location as locations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from spark_jobs.formats.reader import SourceContext

_LOG = "_delta_log"
#: A checkpoint: its version, the numbers of a part and of all parts, and how one of the second form ends.
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint\.(?:parquet|(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet|"
    r"[0-9a-fA-F-]{36}\.(?P<second>json|parquet))"
)
_DESCRIBED = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


def of_files(root: str, version: int, place: SourceContext, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """The deletion vectors of files, as the log describes them; of files that have one.

    Args:
        root: where the table is, absolute or a URI.
        version: the version that has the files.
        place: how stores are reached.
        wanted: the files, as they are called in the table's folder.

    Raises:
        FormatError: the log cannot be read, or does not have one of them (E912).
        OSError: the log cannot be read.
    """
    left = set(wanted)
    found: dict[str, dict[str, Any]] = {}
    first, names = _checkpoint(root, version, place) if left else (-1, [])
    # The newest action that adds a file is the one that counts, for the file is there.
    for number in range(version, first, -1):
        if not left:
            break
        data = log.entry(root, number, place)
        if data is None:
            raise FormatError(f"the log of the table does not have version {number}", place.path, FAILED)
        for added in _added(data):
            _take(added, left, found)
    if left:
        for name in names:
            for added in _of_checkpoint(root, name, place):
                _take(added, left, found)
    if left:
        raise FormatError(f"the log of the table does not say who has added `{min(left)}`", place.path, FAILED)
    return found


def _take(added: Mapping[str, Any], left: set[str], found: dict[str, dict[str, Any]]) -> None:
    path = unquote(added["path"])
    if path not in left:
        return
    left.discard(path)
    vector = added.get("deletionVector")
    if vector is not None:
        found[path] = {key: vector[key] for key in _DESCRIBED if vector.get(key) is not None}


def _added(data: bytes) -> Iterator[Mapping[str, Any]]:
    for line in data.splitlines():
        action = json.loads(line) if line.strip() else {}
        if "add" in action:
            yield action["add"]


def _checkpoint(root: str, version: int, place: SourceContext) -> tuple[int, list[str]]:
    """The version of the newest checkpoint that is whole and not too new, and its files; -1 where there is none."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, str], list[str]] = {}
    for name in _names(root, place):
        known = _CHECKPOINT.fullmatch(name)
        if known is None or int(known["version"]) > version:
            continue
        number = int(known["version"])
        if known["parts"] is None:
            whole[number] = [name]
        else:
            parts.setdefault((number, known["parts"]), []).append(name)
    for (number, count), some in parts.items():
        if len(some) == int(count):
            whole.setdefault(number, some)
    newest = max(whole, default=-1)
    return newest, whole.get(newest, [])


def _names(root: str, place: SourceContext) -> Iterable[str]:
    if not locations.is_uri(root):
        return os.listdir(f"{root}/{_LOG}")
    from spark_jobs.stores import opening

    pages = opening.writable(place.stores).pages(locations.parse(f"{root}/{_LOG}/"), deep=False)
    return [each.location.name for page in pages for each in page.objects]


def _of_checkpoint(root: str, name: str, place: SourceContext) -> Iterator[Mapping[str, Any]]:
    """Read the add actions of a checkpoint, or of a part of one, including its sidecars."""
    data = _bytes(f"{root}/{_LOG}/{name}", place)
    if name.endswith(".json"):
        lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        yield from (each["add"] for each in lines if "add" in each)
        sidecars = [each["sidecar"]["path"] for each in lines if "sidecar" in each]
    else:
        yield from _column(data, "add", ("path", "deletionVector"))
        sidecars = [each["path"] for each in _column(data, "sidecar", ("path",))]
    for path in sidecars:
        sidecar = _bytes(f"{root}/{_LOG}/_sidecars/{unquote(path)}", place)
        yield from _column(sidecar, "add", ("path", "deletionVector"))


def _column(data: bytes, name: str, members: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """The actions of a kind in a file of a checkpoint, as far as some members of them go."""
    file = parquet.ParquetFile(io.BytesIO(data))
    if name not in file.schema_arrow.names:
        return
    for batch in file.iter_batches(columns=[f"{name}.{member}" for member in members]):
        yield from (each for each in batch.column(name).to_pylist() if each is not None and each["path"] is not None)


def _bytes(path: str, place: SourceContext) -> bytes:
    data = log.contents(path, place)
    if data is None:
        raise FormatError(f"`{path.rpartition('/')[2]}` is gone from the log of the table", place.path, FAILED)
    return data
