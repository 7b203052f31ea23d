"""Compressed files: what is in them, whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.nodes.output.packed import pack
from spark_jobs.scan import changes, compression, files, unpacking
from spark_jobs.scan.compression import Compression
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from pathlib import Path

CODECS = [each for each in Compression if each is not Compression.NONE]
TEXT = b"".join(b"%d,line %d\n" % (number, number * 7919) for number in range(300))


def unpacked(path: Path, data: bytes, codec: Compression, size: int = 1000) -> bytes:
    path.write_bytes(data)
    file = replace(files.describe(str(path), path.name), compression=codec)
    with changes.opened(file) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_members_follow_one_another(tmp_path: Path, codec: Compression, size: int) -> None:
    one, empty = pack(TEXT, codec), pack(b"", codec)
    assert unpacked(tmp_path / "a", one, codec, size) == TEXT
    assert unpacked(tmp_path / "a", one + one, codec, size) == TEXT * 2
    assert unpacked(tmp_path / "a", empty, codec, size) == b""
    assert unpacked(tmp_path / "a", empty + one + empty, codec, size) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_is_cut_anywhere_is_broken(tmp_path: Path, codec: Compression) -> None:
    one = pack(TEXT, codec)
    for length in [*range(1, 40), *range(40, len(one), 13), *range(len(one) - 12, len(one))]:
        for before in (b"", one):
            with pytest.raises(FormatError, match=f"a: is not a complete {codec} file: "):
                unpacked(tmp_path / "a", before + one[:length], codec)


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_no_member_is_refused(tmp_path: Path, codec: Compression) -> None:
    for data in (b"id,v\n1,2\n", pack(TEXT, codec) + b"garbage, and more of it"):
        with pytest.raises(FormatError, match="is not a complete"):
            unpacked(tmp_path / "a", data, codec)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.BZ2, Compression.XZ])
def test_a_changed_bit_is_found(tmp_path: Path, codec: Compression) -> None:
    chance = random.Random(1)
    one = pack(TEXT, codec)
    for _ in range(100):
        data = bytearray(one)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        try:
            found = unpacked(tmp_path / "a", bytes(data), codec)
        except FormatError:
            continue
        assert found == TEXT  # a time or a flag in a header


def test_zeros_behind_and_between_members_are_passed_over(tmp_path: Path) -> None:
    data = gzip.compress(b"a") + bytes(512) + gzip.compress(b"b") + bytes(300_000)
    assert unpacked(tmp_path / "a", data, Compression.GZIP) == b"ab"


def test_going_back_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bz2.compress(TEXT))
    file = replace(files.describe(str(tmp_path / "a"), "a"), compression=Compression.BZ2)
    with changes.opened(file) as stream:
        assert (stream.seek(1000), stream.read(10), stream.tell()) == (1000, TEXT[1000:1010], 1010)
        assert (stream.seek(5), stream.read(10)) == (5, TEXT[5:15])
        edges = stream.edges()
        assert (stream.tell(), stream.read(3)) == (0, TEXT[:3])
        assert stream.seek(1 << 20) == len(TEXT)
    assert edges == changes.edges_of(bz2.compress(TEXT))


def test_a_bomb_ends_before_it_costs_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES", 1 << 20)
    data = bz2.compress(bytes(8 << 20))
    with pytest.raises(FormatError, match="unpacks to more than 1,000 times its size"):
        unpacked(tmp_path / "a", data, Compression.BZ2, 4096)


@pytest.mark.parametrize("codec", CODECS)
def test_names_and_first_bytes_tell_the_codec(codec: Compression) -> None:
    assert compression.of_bytes(pack(TEXT, codec)) is codec
    endings = {"gzip": "GZ", "bz2": "bz2", "zstd": "zst", "lz4": "lz4", "xz": "xz"}
    assert compression.of_name(f"in/a.csv.{endings[codec]}") is codec
    assert compression.of_name("in/gz/a.csv") is Compression.NONE


def test_what_is_no_text_of_its_encoding_is_told_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    file = files.describe(str(tmp_path / "a"), "a.csv")
    with pytest.raises(FormatError, match="no text"), changes.opened(file):
        raise files.UnreadableText("no text")


def test_only_reading_is_told_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    full = OSError(28, "No space left on device")
    with pytest.raises(OSError) as caught, changes.opened(files.describe(str(tmp_path / "a"), "a")):
        raise full
    assert caught.value is full
