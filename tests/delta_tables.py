"""Delta tables of tests: written by the library, or by hand where it cannot write what others do."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyarrow import parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

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
    padded = body + bytes(-len(body) % 4)
    text = ""
    for at in range(0, len(padded), 4):
        number, digits = int.from_bytes(padded[at : at + 4], "big"), ""
        for _ in range(5):
            digits, number = _LETTERS[number % 85] + digits, number // 85
        text += digits
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(rows)}


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
