"""Large files that one task has to read: many tasks go on with their records, and nothing else is different."""

from __future__ import annotations

import gc
import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.execute.run import partitions
from spark_jobs.execute.tasks import stage
from tests.execute import pipelines
from tests.waiting import until

if TYPE_CHECKING:
    from spark_jobs.execute.tasks.spec import JobSpec

MAPS = Path("/proc/self/maps")
PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      name: rows
      path: {path}
      {read}
      {keys}
      schema: [{{ name: id, type: int }}, {{ name: v, type: string }}, {{ name: unread, type: date }}]
  - type: transform
    name: t
    input: rows
    config:
      cxl: |
        filter id % 5 != 1
        emit id = id + 0 / (id % 7)
        emit v = v
        {row}
  - type: aggregate
    name: sums
    input: t
    config: {{ group_by: [v], cxl: "emit n = count(*)\\nemit s = sum(id)" }}
  - type: combine
    name: c
    input: {{ a: t, b: rows }}
    config: {{ where: a.id == b.id, cxl: "emit id = a.id\\nemit day = b.unread" }}
  - {{ type: output, name: o, input: t, config: {{ name: o, type: csv, path: out/o.csv }} }}
  - {{ type: output, name: sorted, input: t, config: {{ name: sorted, type: json, path: out/sorted.json,
      sort_order: [v, {{ field: id, order: desc }}] }} }}
  - {{ type: output, name: s, input: sums, config: {{ name: s, type: csv, path: out/s.csv }} }}
  - {{ type: output, name: l, input: c, config: {{ name: l, type: csv, path: out/l.csv }} }}
error_handling: {{ strategy: continue, dlq: {{ path: out/dead.csv }} }}
"""
ROW = "emit row = $source.row\n        emit file = $source.file"


def _mapped() -> list[str]:
    return [line for line in MAPS.read_text().splitlines() if ".part" in line]


def _rows(count: int) -> list[tuple[int | str, str, str]]:
    """Some do not convert, some fail behind the source."""
    return [
        ("many" if number % 11 == 3 else number, f"text {number % 6}", f"2024-01-{number % 28 + 1:02}")
        for number in range(count)
    ]


def _json(rows: list[tuple[int | str, str, str]]) -> str:
    shown = (f'"{number}"' if isinstance(number, str) else number for number, _, _ in rows)
    records = (
        f'{{"id":{number},"v":"{text}","unread":"{day}","more":{len(text)}}}'
        for number, (_, text, day) in zip(shown, rows, strict=True)
    )
    return "[" + ",\n".join(records) + "]"


def _xml(rows: list[tuple[int | str, str, str]]) -> str:
    records = (f"<r><id>{number}</id><v>{text}</v><unread>{day}</unread></r>" for number, text, day in rows)
    return "<all>" + "".join(records) + "</all>"


FORMATS = {
    "array": (_json, "in.json", "type: json"),
    "xml": (_xml, "in.xml", "type: xml, options: { record_path: all/r }"),
    "packed": (_xml, "in.xml.gz", "type: xml, options: { record_path: all/r }"),
}


def _run(folder: Path, name: str, count: int = 150, *, row: str = "", keys: str = "") -> dict[str, bytes]:
    text, path, read = FORMATS[name]
    yaml = PIPELINE.format(path=path, read=read.replace(", ", "\n      "), row=row, keys=keys)
    data = text(_rows(count)).encode()
    pipelines.write(folder, {path: gzip.compress(data) if path.endswith(".gz") else data, "pipeline.yaml": yaml})
    outcome = pipelines.run(folder, force=True).result
    assert outcome.exit_code == 2, outcome.error
    found = pipelines.outputs(folder)
    # Each entry begins with an id and a time of its own.
    return found | {"dead.csv": b"\n".join(line.split(b",", 2)[-1] for line in found["dead.csv"].splitlines())}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("row", ["", ROW], ids=["", "row numbers"])
@pytest.mark.parametrize("keys", ["", "correlation_key: v"], ids=["", "correlated"])
def test_bytes_are_the_same_as_in_one_task(
    tmp_path: Path, name: str, row: str, keys: str, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _run(tmp_path, name, row=row, keys=keys)
    assert len(expected["dead.csv"].splitlines()) > 10
    assert not any(spec.job.readers for spec in jobs)
    for size in (200, 2000):
        jobs.clear()
        monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, str(size))
        assert _run(tmp_path, name, row=row, keys=keys) == expected
        assert max(len(spec.loads) for spec in jobs if spec.job.readers) > 2
        read = [spec for spec in jobs if spec.job.sources and not spec.measures_only]
        assert len(read) == len([spec for spec in jobs if spec.job.number == 0])


@pytest.mark.skipif(not MAPS.exists(), reason="the system does not tell what is mapped")
def test_tasks_that_went_on_hold_no_record(
    tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor what they were mapped from, before anybody looks for garbage."""
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "2000")
    held: list[str] = []

    class Watched(stage.Task):
        def release(self) -> None:
            super().release()
            # Arrow's threads let go of what they looked at a moment after their work.
            if not until(lambda: not _mapped(), 10):
                held.extend(_mapped())

    monkeypatch.setattr(stage, "Task", Watched)
    gc.collect()
    gc.disable()
    try:
        _run(tmp_path, next(iter(FORMATS)))
    finally:
        gc.enable()
    assert any(spec.job.readers for spec in jobs)
    assert held == []


def test_files_of_one_size_stay_with_those_who_read_them(
    tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are tasks enough."""
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "200")
    text = _xml(_rows(30))
    yaml = PIPELINE.format(path="", read="type: xml\n      options: { record_path: all/r }", row="", keys="")
    yaml = yaml.replace("path: \n", 'glob: "*.xml"\n')
    for count, is_laid in ((4, True), (5, False)):
        jobs.clear()
        pipelines.write(
            tmp_path, {"pipeline.yaml": yaml, **{f"{number}.xml": text.encode() for number in range(count)}}
        )
        assert pipelines.run(tmp_path, force=True).result.exit_code == 2
        assert any(spec.job.readers for spec in jobs) is is_laid


def test_a_broken_end_ends_the_run(tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(partitions.PARTITION_BYTES_VARIABLE, "200")
    text = _xml(_rows(100))
    yaml = PIPELINE.format(path="in.xml", read="type: xml\n      options: { record_path: all/r }", row="", keys="")
    for length in (len(text) - 6, len(text) // 2):
        pipelines.write(tmp_path, {"pipeline.yaml": yaml, "in.xml": text[:length].encode()})
        result = pipelines.run(tmp_path, force=True).result
        assert (result.exit_code, result.error.code) == (4, "E900")
        assert "in.xml" in result.error.message
        assert pipelines.outputs(tmp_path) == {}
