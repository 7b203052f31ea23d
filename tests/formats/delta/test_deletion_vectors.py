"""Deleted rows of Delta tables, in all forms that the protocol has for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.formats.delta import log, vectors
from spark_jobs.formats.delta.options import DeltaRead
from spark_jobs.formats.reader import SourceContext
from spark_jobs.scan.files import FormatError
from tests import delta_tables
from tests.delta_tables import HandWritten, column, structure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FEATURES = ("deletionVectors",)
ROWS = pa.table({"id": range(100)})


def table(folder: Path, *features: str, partition_by: tuple[str, ...] = ()) -> HandWritten:
    columns = [column("id", "long"), *(column(name, "string") for name in partition_by)]
    return HandWritten(folder, structure(*columns), partition_by, (*FEATURES, *features))


def deleted(folder: Path) -> dict[str, list[int]]:
    """The rows that are deleted, by files."""
    found = log.files(DeltaRead(), SourceContext(folder.parent, folder.name), set())
    return {file.path.removeprefix(f"{folder}/"): np.flatnonzero(file.table.deleted_rows).tolist() for file in found}


def described(folder: Path, wanted: Sequence[str], version: int) -> dict[str, dict[str, Any]]:
    return vectors.of_files(str(folder), version, SourceContext(folder.parent, folder.name), wanted)


@pytest.mark.parametrize("prefix", ["", "ab", "a b"])
@pytest.mark.parametrize("is_absolute", [False, True])
def test_vectors_lie_in_files_of_their_own(prefix: str, is_absolute: bool, tmp_path: Path) -> None:
    large = [*range(0, 70_000, 3), *range(80_000, 99_999)]
    folder = tmp_path / "a b 100% ü#"
    first, second = delta_tables.vector_files(folder, large, [5], prefix=prefix, is_absolute=is_absolute)
    made = table(folder)
    made.commit(
        made.file("a.parquet", pa.table({"id": range(100_000)}), deletionVector=first),
        made.file("b.parquet", ROWS, deletionVector=second),
        made.file("c.parquet", ROWS),
    )
    assert deleted(folder) == {"a.parquet": large, "b.parquet": [5], "c.parquet": []}


def test_a_vector_belongs_to_one_file(tmp_path: Path) -> None:
    """Two files whose paths end alike, one of them below a folder that is called as the table is."""
    folder = tmp_path / "x"
    made = table(folder, partition_by=("p",))
    actions = [
        made.file("a.parquet", ROWS, partition={"p": "1"}, deletionVector=delta_tables.deletion_vector([1])),
        made.file("x/a.parquet", ROWS, partition={"p": "2"}),
        made.file("p=a%b/a.parquet", ROWS, partition={"p": "a%b"}, deletionVector=delta_tables.deletion_vector([3])),
    ]
    actions[2]["add"]["path"] = "p=a%25b/a.parquet"
    made.commit(*actions)
    assert deleted(folder) == {"a.parquet": [1], "x/a.parquet": [], "p=a%b/a.parquet": [3]}
    known = described(folder, ["a.parquet", "x/a.parquet", "p=a%b/a.parquet"], 0)
    assert {path: vector["cardinality"] for path, vector in known.items()} == {"a.parquet": 1, "p=a%b/a.parquet": 1}
    assert known["p=a%b/a.parquet"] == actions[2]["add"]["deletionVector"]


@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_a_vector_that_is_broken_is_an_error(how: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (vector,) = delta_tables.vector_files(folder, [1, 2, 3])
    made = table(folder)
    made.commit(made.file("a.parquet", ROWS, deletionVector=vector))
    (file,) = folder.glob("*.bin")
    data = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-12] if how == "cut" else data[:5] + bytes([data[5] ^ 255]) + data[6:])
    with pytest.raises(FormatError, match="the table cannot be read") as raised:
        deleted(folder)
    assert raised.value.code == "E912"


def grown(folder: Path, *features: str) -> tuple[HandWritten, dict[str, Any]]:
    """A table with three versions; the vector of `a.parquet` has changed in the last one."""
    made = table(folder, *features)
    old, new = delta_tables.vector_files(folder, [1], [1, 2])
    first = made.file("a.parquet", ROWS, deletionVector=old)
    made.commit(first, made.file("b.parquet", ROWS))
    made.commit(made.file("c.parquet", ROWS, deletionVector=delta_tables.deletion_vector([9])))
    gone = {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1, "deletionVector": old}
    made.commit({"remove": gone}, {"add": {**first["add"], "deletionVector": new}})
    return made, new


def test_the_newest_vector_of_a_file_counts(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    _, new = grown(folder)
    assert deleted(folder) == {"a.parquet": [1, 2], "b.parquet": [], "c.parquet": [9]}
    files = ["a.parquet", "b.parquet", "c.parquet"]
    for _ in range(2):
        known = described(folder, files, 2)
        assert known["a.parquet"] == new
        assert (known["c.parquet"]["storageType"], known["c.parquet"]["cardinality"]) == ("i", 1)
        assert "b.parquet" not in known
        # The same from a checkpoint, without the versions before it.
        if not [*folder.glob("_delta_log/*.checkpoint.*")]:
            DeltaTable(folder).create_checkpoint()
            for version in range(2):
                (folder / f"_delta_log/{version:020}.json").unlink()
    assert described(folder, ["a.parquet"], 2)["a.parquet"]["offset"] == new["offset"]
    with pytest.raises(FormatError, match=r"who has added `z\.parquet`"):
        described(folder, ["z.parquet"], 2)


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_checkpoints_of_the_second_form_have_sidecars(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    made, new = grown(folder, "v2Checkpoint")
    delta_tables.second_checkpoint(made, 2, ending)
    for version in range(3):
        (folder / f"_delta_log/{version:020}.json").unlink()
    made.commit(made.file("d.parquet", ROWS))
    assert deleted(folder) == {"a.parquet": [1, 2], "b.parquet": [], "c.parquet": [9], "d.parquet": []}
    known = described(folder, ["a.parquet", "d.parquet"], 3)
    assert known == {"a.parquet": new}


def test_a_checkpoint_in_parts_counts_if_all_of_them_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    _, new = grown(folder)
    DeltaTable(folder).create_checkpoint()
    (whole,) = folder.glob("_delta_log/*.checkpoint.parquet")
    rows = pa.parquet.read_table(whole)
    for part in (1, 2):
        some = rows.slice(0, 4) if part == 1 else rows.slice(4)
        name = f"{2:020}.checkpoint.{part:010}.{2:010}.parquet"
        pa.parquet.write_table(some, whole.with_name(name))
    whole.unlink()
    (folder / f"_delta_log/{0:020}.json").rename(folder / "kept")
    assert described(folder, ["a.parquet", "c.parquet"], 2)["a.parquet"] == new
    (folder / f"_delta_log/{2:020}.checkpoint.{1:010}.{2:010}.parquet").unlink()
    with pytest.raises(FormatError, match="does not have version 0"):
        described(folder, ["b.parquet"], 2)
    (folder / "kept").rename(folder / f"_delta_log/{0:020}.json")
    assert described(folder, ["a.parquet", "b.parquet"], 2) == {"a.parquet": new}
    assert json.loads(json.dumps(new)) == new
