"""The compression of files, known from their names or from `options:`. No library is loaded for it."""

from __future__ import annotations

from enum import StrEnum


class Compression(StrEnum):
    """A codec of whole files; NONE says that a file is not compressed, whatever its name."""

    NONE = "none"
    GZIP = "gzip"
    BZ2 = "bz2"
    ZSTD = "zstd"
    LZ4 = "lz4"
    XZ = "xz"


#: Other spellings that may be written.
SPELLINGS = (("gz", "gzip"), ("bzip2", "bz2"), ("zst", "zstd"), ("zstandard", "zstd"))
_ENDINGS = {
    ".gz": Compression.GZIP,
    ".gzip": Compression.GZIP,
    ".bz2": Compression.BZ2,
    ".zst": Compression.ZSTD,
    ".zstd": Compression.ZSTD,
    ".lz4": Compression.LZ4,
    ".xz": Compression.XZ,
}
#: The ending that names of such files get.
USUAL_ENDINGS = {known: name for name, known in reversed(_ENDINGS.items())} | {Compression.NONE: ""}
#: The first bytes of compressed files.
MAGIC = {
    b"\x1f\x8b": Compression.GZIP,
    b"BZh": Compression.BZ2,
    b"\x28\xb5\x2f\xfd": Compression.ZSTD,
    b"\x04\x22\x4d\x18": Compression.LZ4,
    b"\xfd7zXZ\0": Compression.XZ,
}


def ending(name: str) -> str:
    """The ending of a file name that implies a compression; empty if there is none."""
    return next((known for known in _ENDINGS if name.lower().endswith(known)), "")


def of_name(name: str) -> Compression:
    """The compression that a file name implies."""
    return _ENDINGS.get(ending(name), Compression.NONE)


def of_bytes(head: bytes) -> Compression:
    """The compression of a file, by its first bytes."""
    return next((known for magic, known in MAGIC.items() if head.startswith(magic)), Compression.NONE)
