"""Encodings in general: whatever bytes a file has, they are read as text or told as what they are not."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats import encoding
from spark_jobs.scan import changes, files
from spark_jobs.scan.files import FormatError, UnreadableText

if TYPE_CHECKING:
    from pathlib import Path

#: Marked, stateful, of several bytes, with holes.
ENCODINGS = [
    "utf-16", "utf-32", "utf-16-le", "utf-16-be", "utf-32-be", "utf-7", "iso2022_jp", "iso2022_kr", "hz", "gb18030",
    "shift_jis", "big5", "euc_kr", "cp1252", "ascii", "latin-1", "cp037",
]  # fmt: skip
#: Pieces that mean something to one of them.
PIECES = st.sampled_from(
    [b"a", b",", b"\n", b"\0", b"\xff", b"\xfe", b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\x1b$B", b"\x1b(B", b"~{",
     b"~}", b"+", b"+2AA-", b"-", b"\xd8\0", b"\0\xd8", b"\x11\0\0\0", b"\xe9", b"\x81", b"\x0e", b"\x0f"]
)  # fmt: skip


def read(data: bytes, name: str, steps: int) -> bytes | str:
    """What comes of some bytes, taken in steps; the message where they are no text at all."""

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(steps)

    stream = encoding.Utf8Stream(Slow(data), name)
    try:
        return b"".join(iter(lambda: stream.read(7), b""))
    except UnreadableText as error:
        return str(error)


@given(name=st.sampled_from(ENCODINGS), data=st.lists(PIECES, max_size=12).map(b"".join))
def test_any_bytes_are_read_the_same_way_in_any_steps(name: str, data: bytes) -> None:
    whole = read(data, name, 1 << 20)
    for steps in (1, 2, 3, 5):
        cut = read(data, name, steps)
        assert isinstance(cut, str) == isinstance(whole, str)
        if isinstance(whole, bytes):
            assert cut == whole
    if isinstance(whole, bytes):
        try:
            text = data.decode(name)
        except UnicodeError:
            return
        assert whole == text.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(("name", "order"), [("utf-16", "utf-16-le"), ("utf-16", "utf-16-be"), ("utf-32", "utf-32-be")])
def test_a_missing_mark_is_told_with_the_encoding_that_fits(tmp_path: Path, name: str, order: str) -> None:
    (tmp_path / "in.csv").write_bytes("id,v\n1,é\n".encode(order))
    with (
        pytest.raises(FormatError, match=rf"^a\.csv: the file has no byte order mark, .*`encoding: {order}`"),
        changes.opened(files.describe(str(tmp_path / "in.csv"), "a.csv")) as raw,
    ):
        encoding.Utf8Stream(raw, name).read(100)


def test_a_mark_in_the_middle_is_a_character(tmp_path: Path) -> None:
    assert read("a\ufeffb".encode("utf-16"), "utf-16", 2) == "a\ufeffb".encode()


def test_an_odd_byte_at_the_end_is_no_text() -> None:
    assert read("a\nb".encode("utf-16") + b"c", "utf-16", 4) == b"a\nb\xed\xb3\xbf"
