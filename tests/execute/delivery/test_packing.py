"""Compressed outputs: the same input gives the same bytes, whatever parts they were written in."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.execute.delivery import packing
from spark_jobs.execute.delivery.destination import Content, PartRange
from spark_jobs.execute.delivery.local import joining
from spark_jobs.execute.delivery.local.part_store import LocalPartStore
from spark_jobs.scan import unpacking
from spark_jobs.scan.compression import Compression
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: s
    config: {{ type: csv, glob: in/*.csv, schema: {{ seg_id: string, msg_ref: int, e01: string }} }}
  - {{ type: output, name: o, input: s, config: {{ path: '{path}', {write} }} }}
"""
HEAD = "seg_id,msg_ref,e01\n"
LAYOUT = "{ fields: [{ name: msg_ref, width: 6 }, { name: e01, width: 9 }] }"
EDI = "type: edifact, options: { interchange: [a, b, c, d, e], message_type: T }"
FORMATS = [
    *("type: csv", "type: json", "type: json, options: { format: ndjson }", "type: xml", EDI),
    f"type: fixed_width, schema: {LAYOUT}",
    f"type: fixed_width, schema: {LAYOUT}, options: {{ line_separator: none }}",
]
SORTED = ", sort_order: [{ field: e01, order: desc }]"
SPLIT = [", split: { max_records: 70 }", ", split: { max_bytes: 900 }"]
#: An interchange is one file.
EVERY = [write + more for write in FORMATS for more in ["", SORTED, *([] if write is EDI else SPLIT)]]
CODECS = [codec for codec in Compression if codec is not Compression.NONE]


def files_of(folder: Path, ending: str, write: str, split_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = ("out/{source_file}" if "max_bytes" in write else "out/o") + ending
    rows = [f"NAD,{number // 9},text {number * 7 % 300}\n" for number in range(300)]
    named = {"in/a.csv": HEAD + "".join(rows[:200]), "in/b.csv": HEAD, "in/c.csv": HEAD + "".join(rows[200:])}
    pipelines.write(folder, {**named, "pipeline.yaml": PIPELINE.format(path=path, write=write)})
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    assert pipelines.run(folder, force=True, tuning=Tuning(pack_task_bytes=3000)).result.error is None
    return pipelines.outputs(folder)


@pytest.mark.parametrize("write", EVERY)
def test_a_compressed_output_is_the_same_for_every_split(
    tmp_path: Path, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setattr(packing, "MEMBER_BYTES", 1000)
    plain = files_of(tmp_path / "plain", ".txt", write, 1 << 30, monkeypatch)
    found = [files_of(tmp_path / str(size), ".txt.gz", write, size, monkeypatch) for size in (1 << 30, 500, 60)]
    assert found[0] == found[1] == found[2]
    unpacked = {name: unpacking.whole(data, Compression.GZIP) for name, data in found[0].items()}
    assert {name.removesuffix(".gz"): data for name, data in unpacked.items()} == plain


@given(
    parts=st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=2)), max_size=6),
    around=st.tuples(st.binary(max_size=5), st.binary(max_size=2), st.binary(max_size=5)),
    most=st.integers(1, 12),
    codec=st.sampled_from(CODECS),
)
def test_members_hold_what_the_file_would(
    parts: list[tuple[bytes, bytes]],
    around: tuple[bytes, bytes, bytes],
    most: int,
    codec: Compression,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("depot")
    (folder / "part").write_bytes(b"".join(data for data, _ in parts))
    pieces, at = [], 0
    for data, before in parts:
        pieces.append(PartRange(str(folder / "part"), at, len(data), before))
        at += len(data)
    trailing = min(len(parts[-1][0]), 1) if parts else 0
    start, separator, end = around
    content = Content(tuple(pieces), start, separator, end, trailing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "MEMBER_BYTES", most)
        (found,) = packing.compress_files(None, LocalPartStore(), [content], codec, str(folder), Tuning())  # type: ignore[arg-type]
    joining.join(content, folder / "plain")
    joining.join(found, folder / "packed")
    plain = (folder / "plain").read_bytes()
    assert unpacking.whole((folder / "packed").read_bytes(), codec) == plain
    assert len(found.ranges) == max(-(-len(plain) // most), 1)


def test_a_part_that_lost_bytes_ends_the_packing(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"ab")
    whole = Content((PartRange(str(tmp_path / "part"), 0, 3),), uses_up=True)
    for content in (whole, Content(whole.ranges)):
        with pytest.raises(OSError, match="run again") as caught:
            packing.compress_files(None, LocalPartStore(), [content], Compression.GZIP, str(tmp_path), Tuning())  # type: ignore[arg-type]
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path / "part"))
