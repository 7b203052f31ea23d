"""Delta tables of tests: written by the library, or by hand where it cannot write what others do."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.object_store import AnyBucket

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def column(name: str, kind: Any, in_files: str = "", number: int = 0) -> dict[str, Any]:
    """A column of a schema; one that is called otherwise in the files has a number, too."""
    mapped = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": in_files}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapped if in_files else {}}


def structure(*columns: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(columns)}


def deletion_vector(rows: Sequence[int]) -> dict[str, Any]:
    """The rows that are deleted, as a bitmap within the log: all of them below 2^16."""
    body = struct.pack("<iqi", 1681511377, 1, 0) + struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16)
    body += b"".join(struct.pack("<H", row) for row in rows)
    text = _in_letters(body + bytes(-len(body) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(rows)}


def _in_letters(data: bytes) -> str:
    """Bytes in Z85: five letters for four of them."""
    text = ""
    for at in range(0, len(data), 4):
        number, digits = int.from_bytes(data[at : at + 4], "big"), ""
        for _ in range(5):
            digits, number = _LETTERS[number % 85] + digits, number // 85
        text += digits
    return text


def vector_files(
    folder: Path, *vectors: Sequence[int], prefix: str = "", is_absolute: bool = False
) -> list[dict[str, Any]]:
    """The rows that are deleted of several files, in a file of their own beside these."""
    from pyroaring import BitMap64

    own, data, described = uuid.uuid4(), b"\x01", []
    for rows in vectors:
        body = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
        about = {"offset": len(data), "sizeInBytes": len(body), "cardinality": len(rows)}
        described.append(about)
        data += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    path = folder / prefix / f"deletion_vector_{own}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    kind = {"storageType": "p", "pathOrInlineDv": path.absolute().as_uri()}
    if not is_absolute:
        kind = {"storageType": "u", "pathOrInlineDv": prefix + _in_letters(own.bytes)}
    return [{**kind, **about} for about in described]


def copy(folder: Path, bucket: AnyBucket, name: str) -> None:
    """Put the files of a local table into a bucket."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bucket.put(f"{name}/{path.relative_to(folder)}", path.read_bytes())


@dataclass
class HandWritten:
    """A table whose log is written line by line."""

    folder: Path
    schema: dict[str, Any]
    partition_by: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    versions: int = 0

    def commit(self, *actions: Mapping[str, Any]) -> None:
        """The next version."""
        first: list[Any] = []
        if not self.versions:
            protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
            if self.features:
                protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
                protocol |= {"readerFeatures": self.features, "writerFeatures": self.features}
            about = {
                "id": "0d6a3c2e-0000-4000-8000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(self.schema),
                "partitionColumns": self.partition_by,
                "createdTime": 1,
                "configuration": dict(self.configuration),
            }
            first = [{"protocol": protocol}, {"metaData": about}]
        log = self.folder / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{self.versions:020}.json").write_text("\n".join(map(json.dumps, [*first, *actions])))
        self.versions += 1

    def file(self, name: str, rows: pa.Table, *, stats: Any = None, partition: Any = None, **more: Any) -> Any:
        """A file, and the action that adds it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(rows, path, **more.pop("written", {}))
        known = {"numRecords": rows.num_rows, **(stats or {})}
        added = {
            "path": name,
            "partitionValues": partition or {},
            "size": path.stat().st_size,
            "modificationTime": 1_700_000_000_000 + self.versions,
            "dataChange": True,
            "stats": json.dumps(known),
        }
        return {"add": {**added, **more}}


def second_checkpoint(table: HandWritten, version: int, ending: str) -> None:
    """A checkpoint of the second form, whose files are named in two sidecars.

    Args:
        table: the table.
        version: the version that it is of.
        ending: `json` or `parquet`.
    """
    live: dict[str, Any] = {}
    first: list[Any] = []
    for number in range(version + 1):
        for line in (table.folder / f"_delta_log/{number:020}.json").read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                live.pop(action["remove"]["path"])
            elif "add" in action:
                live[action["add"]["path"]] = action["add"]
            else:
                first.append(action)
    folder = table.folder / "_delta_log/_sidecars"
    folder.mkdir()
    text, number = pa.string(), pa.int64()
    vector = pa.struct(
        {
            "storageType": text,
            "pathOrInlineDv": text,
            "offset": pa.int32(),
            "sizeInBytes": pa.int32(),
            "cardinality": number,
        }
    )
    kinds = {"path": text, "partitionValues": pa.map_(text, text), "size": number, "modificationTime": number}
    added = pa.struct({**kinds, "dataChange": pa.bool_(), "stats": text, "deletionVector": vector})
    actions = [{"checkpointMetadata": {"version": version}}, *first]
    for at in range(2):
        some = [{**each, "partitionValues": [*each["partitionValues"].items()]} for each in [*live.values()][at::2]]
        path = folder / f"{uuid.uuid4()}.parquet"
        parquet.write_table(pa.table({"add": pa.array(some, added)}), path)
        about = {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 1}
        actions.append({"sidecar": about})
    path = table.folder / f"_delta_log/{version:020}.checkpoint.{uuid.uuid4()}.{ending}"
    if ending == "json":
        path.write_text("\n".join(map(json.dumps, actions)))
        return
    texts = pa.map_(text, text)
    of_table = pa.struct(
        {
            "id": text,
            "format": pa.struct({"provider": text, "options": texts}),
            "schemaString": text,
            "partitionColumns": pa.list_(text),
            "createdTime": number,
            "configuration": texts,
        }
    )
    listed = pa.list_(text)
    protocol = {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}
    types = {
        "checkpointMetadata": pa.struct({"version": number}),
        "protocol": pa.struct({**protocol, "readerFeatures": listed, "writerFeatures": listed}),
        "metaData": of_table,
        "sidecar": pa.struct({"path": text, "sizeInBytes": number, "modificationTime": number}),
    }
    for each in actions:
        if "metaData" in each:
            about = each["metaData"]
            about["configuration"] = [*about["configuration"].items()]
            about["format"]["options"] = []
    columns = {name: pa.array([each.get(name) for each in actions], kind) for name, kind in types.items()}
    parquet.write_table(pa.table(columns), path)
