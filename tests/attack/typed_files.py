"""Fixed-width, Parquet and compressed files of the data-file attack: what they have, and what reads them in splits."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.fixed_width.options import LineSeparator
from spark_jobs.formats.format import Reading
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan import files
from spark_jobs.scan.compression import Compression
from tests.formats.csv.files import Result, source_columns

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    Read = Callable[[Path, bytes, int], Result]

_DECLARED = {"a": types.STRING, "i": types.INT, "f": types.FLOAT, "d": types.DATE}
_LAYOUT = (
    (
        "fields_",
        (
            (("name", "a"), ("start", 0), ("width", 4)),
            (("name", "i"), ("start", 4), ("width", 3), ("type", "integer"), ("pad", "0"), ("justify", "right")),
            (("name", "f"), ("start", 7), ("width", 5), ("type", "decimal"), ("scale", 2)),
            (("name", "d"), ("start", 12), ("width", 10), ("type", "date"), ("default", "2024-02-29")),
        ),
    ),
)
_SIGNS = ["0", "1", "9", " ", "-", ".", "a", "é", "😀", "\n", "\r\n", "\r", "\x00", "2024-02-30", "2024-02-29", "12345"]
_CODECS = [each for each in Compression if each is not Compression.NONE]


def fixed_width(chance: random.Random) -> tuple[bytes, Read]:
    """Lines, or records without any end, of odd characters; the latter are often cut off."""
    separator = chance.choice(["lf", "cr_lf", "none"])
    data = "".join(chance.choice(_SIGNS) for _ in range(chance.randint(0, 120))).encode()
    if chance.random() < 0.2:
        data = bytes(chance.choice(data) if chance.random() < 0.9 else chance.randrange(256) for _ in data)
    if separator == "none" and chance.random() < 0.7:
        data = data[: len(data) // 22 * 22]
    return data, reads("fixed_width", _LAYOUT, line_separator=LineSeparator(separator))


def columns(chance: random.Random) -> tuple[bytes, Read]:
    """Parquet: groups of rows, texts where other types are declared, and often some changed bytes."""
    count = chance.randint(0, 30)
    texts = ["1", "x", "", "2024-02-29", "1.5", None]
    kinds: dict[str, Any] = {"i": [chance.choice([None, 1, -1, 2**62]) for _ in range(count)]}
    kinds["a"] = [chance.choice(texts) for _ in range(count)]
    kinds["d"] = kinds["a"]
    kinds["more"] = [chance.choice([None, [], [1, None]]) for _ in range(count)]
    sink = io.BytesIO()
    arrays = {name: pa.array(found, pa.list_(pa.int64()) if name == "more" else None) for name, found in kinds.items()}
    parquet.write_table(pa.table(arrays), sink, row_group_size=chance.randint(1, 12))
    data = bytearray(sink.getvalue())
    for _ in range(chance.choice([0, 0, 1, 2])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data), reads("parquet", None)


def compressed(chance: random.Random, data: bytes) -> tuple[bytes, Read, Read]:
    """The same bytes in members, cut off or changed at times, and what reads them so and as they were."""
    codec = chance.choice(_CODECS)
    cut = chance.randint(0, len(data))
    first = pack(data[:cut], codec)
    packed = first + pack(data[cut:], codec)
    if chance.random() < 0.3:
        end = chance.randrange(1, len(packed))
        packed = packed[: end + (end == len(first))]  # a file that ends between members is whole
    return packed, reads("csv", None, codec), reads("csv", None)


def reads(name: str, layout: Any, codec: Compression = Compression.NONE, **options: Any) -> Read:
    """What reads files of a format in splits of some size."""
    format = registry.named(name)
    reader = format.reader(format.read_options(**options), layout=layout)

    def read(path: Path, data: bytes, size: int) -> Result:
        path.write_bytes(data)
        file = replace(files.describe(str(path), path.name), compression=codec)
        scan = reader.plan(tuple(_DECLARED), [file])
        wanted = Reading(source_columns(_DECLARED), scan.undeclared, failure_texts=True)
        result = Result()
        for split in splits.plan(scan.files, size):
            outcome, offset = SplitOutcome(), result.count
            for block in reader.read(split, scan.files[split.file], wanted, outcome):
                result.add(block, offset)
        return result

    return read
