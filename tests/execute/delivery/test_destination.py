"""The seam between a run and where its files go: a place without files gets the same bytes as local ones."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_jobs.execute.delivery import places
from spark_jobs.execute.delivery.destination import FileType
from spark_jobs.execute.delivery.participant import Address, Rank
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from spark_jobs.execute.delivery import destination

_HELD: dict[str, bytes] = {}
_PUBLISHED: dict[str, bytes] = {}


class _Upload(io.BytesIO):
    """Is there once it is closed, as objects of a store are."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def close(self) -> None:
        if not self.closed:
            _HELD[self.path] = self.getvalue()
        super().close()


@dataclass(frozen=True)
class MemoryDepot:
    def create(self, path: str) -> IO[bytes]:
        return _Upload(path)

    def open(self, path: str) -> IO[bytes]:
        return io.BytesIO(_HELD[path])

    def arrow(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(_HELD[path])

    def size(self, path: str) -> int:
        return len(_HELD[path])


@dataclass
class MemoryDraft:
    home: Path
    part_store: MemoryDepot = field(default_factory=MemoryDepot)
    changes: dict[str, bytes | None] = field(default_factory=dict)

    rank = Rank.FILES
    address = Address("memory", "", "")
    label = "memory"
    has_changes = True

    def prepare(self, home: Address | None) -> None:
        assert home is None, "it is alone"

    def parts(self, target: Path) -> str:
        return f"mem:{target.parent}"

    def assemble(self, target: Path, content: destination.Content) -> None:
        found = [_HELD[piece.path][piece.start : piece.start + piece.size] for piece in content.ranges]
        data = content.start + content.separator.join(found)
        self.changes[str(target)] = data[: len(data) - content.trailing] + content.end

    def remove(self, target: Path) -> None:
        self.changes[str(target)] = None

    def finish(self, spark: object) -> None:
        """All is done."""

    def stamps(self) -> dict[str, str]:
        return {path: str(hash(data)) for path, data in self.changes.items() if data is not None}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        yield

    def complete(self) -> None:
        _PUBLISHED.update({path: data for path, data in self.changes.items() if data is not None})
        for path, data in self.changes.items():
            if data is None:
                _PUBLISHED.pop(path, None)

    def close(self, *, failed: bool) -> None:
        """Nothing is left."""


@dataclass
class Memory:
    """A destination that is no file system; `home` has what stays inside the run."""

    home: Path

    def problem(self, path: Path) -> str | None:
        return None

    def standing(self, path: Path) -> FileType:
        return FileType.FILE if str(path) in _PUBLISHED else FileType.NOTHING

    def stamp(self, path: Path) -> str | None:
        return str(hash(_PUBLISHED[str(path)])) if str(path) in _PUBLISHED else None

    def names(self, folder: Path) -> list[str]:
        return sorted(os.path.basename(path) for path in _PUBLISHED if os.path.dirname(path) == str(folder))

    def own(self, path: Path, most: int) -> bytes:
        return _PUBLISHED[str(path)][:most]

    def real(self, path: Path) -> str:
        return os.path.abspath(path)

    def recover(self, folder: Path) -> None:
        """Nothing is left."""

    def open(self, run: str, home: Path, folders: Iterable[Path]) -> MemoryDraft:
        return MemoryDraft(self.home)


PIPELINE = r"""
pipeline: {name: p}
error_handling:
  {strategy: continue, dlq: {path: out/dead.csv, include_source_row: true, per_source: {t: {path: out/dead_t.csv}}}}
nodes:
  - {type: source, name: s, config: {name: s, type: csv, glob: 'in/*.csv', schema: {id: int, team: string}}}
  - {type: source, name: t, config: {name: t, type: csv, path: more.csv, schema: {team: string, size: int}}}
  - type: combine
    name: both
    input: {s: s, t: t}
    config: {where: s.team == t.team, drive: s, cxl: "emit id = s.id\nemit n = t.size"}
  - {type: output, name: plain, input: s, config: {name: plain, type: csv, path: out/plain.csv, write_meta: true}}
  - {type: output, name: lines, input: s, config: {name: lines, type: json, path: out/lines.json}}
  - {type: output, name: none, input: nobody, config: {name: none, type: json, path: out/none.json}}
  - {type: transform, name: nobody, input: s, config: {cxl: "filter id < 0"}}
  - {type: output, name: each, input: s, config: {name: each, type: csv, path: 'out/{source_file}-each.csv'}}
  - type: output
    name: sorted
    input: both
    config: {name: sorted, type: csv, path: out/sorted.csv, sort_order: [n, id]}
  - type: output
    name: pieces
    input: s
    config:
      name: pieces
      type: json
      path: out/pieces.json
      sort_order: [team]
      split: {max_records: 30, group_key: team}
"""


def prepare(folder: Path) -> None:
    rows = [f"{'x' if i % 41 == 0 else i},t{i % 7}" for i in range(400)]
    written = {f"in/{name}.csv": "id,team\n" + "\n".join(rows[i::2]) + "\n" for i, name in enumerate("ab")}
    more = "team,size\nt0,3\nt1,1\nt2,none\nt3,2\nt4,1\n"
    pipelines.write(folder, {"pipeline.yaml": PIPELINE, "more.csv": more, **written})


def told(found: dict[str, bytes]) -> dict[str, bytes]:
    """Files by their names, without what differs from run to run: ids, moments, and the facts of the run."""
    kept = {name: data for name, data in found.items() if not name.endswith(".meta.json")}
    return {
        name: b"\n".join(line.split(b",", 2)[-1] for line in data.splitlines()) if "dead" in name else data
        for name, data in kept.items()
    }


@pytest.mark.parametrize("by_tasks", [False, True])
def test_what_a_run_publishes_does_not_depend_on_where(
    by_tasks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", "500")
    tuning = Tuning(driver_output_bytes=0, driver_dlq_rows=0) if by_tasks else Tuning()
    _HELD.clear()
    _PUBLISHED.clear()
    prepare(tmp_path)
    local = pipelines.run(tmp_path, tuning=tuning).result
    assert (local.error, local.dlq_count) == (None, 11)
    here = pipelines.outputs(tmp_path)
    assert len(here) == 16
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(places, "LocalFiles", lambda access: Memory(tmp_path / "home"))
    older = str(tmp_path / "out/pieces_0099.json")
    _PUBLISHED[older] = b"of an older run"
    (tmp_path / "out").rename(tmp_path / "local")
    found: Any = pipelines.run(tmp_path, force=True, tuning=tuning).result
    assert (found.error, found.output_files, found.dlq_path) == (None, local.output_files, local.dlq_path)
    assert not (tmp_path / "out").exists(), "nothing went past the destination"
    assert older not in _PUBLISHED
    assert told({os.path.basename(path): data for path, data in _PUBLISHED.items()}) == told(here)
