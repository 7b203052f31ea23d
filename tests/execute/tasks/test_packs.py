"""Small splits share a Spark task, large ones have one each; all are read once, in their order."""

from __future__ import annotations

import csv
import io
import itertools
import pickle
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.execute.run import passes
from spark_jobs.execute.scratch import Scratch
from spark_jobs.execute.tasks import spec, task_inputs
from spark_jobs.formats.json.fast import arrow
from spark_jobs.nodes.source.run import Source
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark
from tests.few import VERY_FEW

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spark_jobs.execute.report import TaskReport
    from spark_jobs.formats.format import Reading
    from spark_jobs.nodes.source.split_origin import SplitInput


@dataclass(frozen=True)
class _Split:
    start: int
    end: int


@dataclass(frozen=True)
class _Place:
    number: int
    split: _Split


@given(st.lists(st.tuples(st.sampled_from("st"), st.integers(0, 50))), st.integers(0, 100), st.integers(1, 9))
def test_packs_cover_all_splits(splits: list[tuple[str, int]], limit: int, most: int) -> None:
    splits = sorted(splits, key=lambda each: each[0])
    sizes = [size for _, size in splits]
    places: list[Any] = [(name, _Place(i, _Split(7, 7 + size))) for i, (name, size) in enumerate(splits)]
    packs = task_inputs.packed(places, limit, most)
    numbers = [[place.number for place in pack.splits] for pack in packs]
    assert [number for pack in numbers for number in pack] == list(range(len(sizes)))
    assert [pack.number for pack in packs] == [pack[0] for pack in numbers]
    for pack in numbers:
        assert len(pack) == 1 or sum(sizes[i] for i in pack) <= limit
        assert len(pack) <= most
        assert len({splits[i][0] for i in pack}) == 1
    for pack, following in itertools.pairwise(numbers):
        is_full = sum(sizes[i] for i in pack) + sizes[following[0]] > limit or len(pack) == most
        assert is_full or splits[pack[0]][0] != splits[following[0]][0]
    for at_hand in (0, len(packs)):
        with tempfile.TemporaryDirectory() as folder:
            provided = task_inputs.provide(packs, Scratch(folder), Tuning(inline_loads=at_hand, load_block=3))
            assert [*pickle.loads(pickle.dumps(provided))] == packs


PIPELINE = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {name: s, type: csv, glob: "in/*.csv", schema: {id: int}}}
      - {type: output, name: o, input: s, config: {name: o, type: csv, path: out/o.csv}}
"""


@pytest.mark.slow
def test_many_small_files_are_read_by_few_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    packs: list[int] = []
    run = passes.chain.run

    def counted(spark: object, wanted: spec.JobSpec) -> list[TaskReport]:
        packs.append(len(wanted.loads))
        return run(spark, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(passes.chain, "run", counted)
    files = {f"in/{i:03}.csv": f"id\n{i}\n" for i in range(60)}
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, **files})
    assert pipelines.run(tmp_path).result.error is None
    assert packs == [1]
    assert pipelines.outputs(tmp_path)["o.csv"].split() == [b"id", *(str(i).encode() for i in range(60))]


MESSY = """
    pipeline: {name: p, include_provenance: true}
    error_handling: {strategy: STRATEGY, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: s
        config: {type: csv, glob: "in/*.csv", schema: {id: int, v: string}, options: OPTIONS}
      - {type: source, name: lines, config: {type: json, glob: "in/*.ndjson", schema: {id: int, v: string}}}
      - {type: transform, name: t, input: s, config: {cxl: "PROGRAM"}}
      - {type: transform, name: u, input: lines, config: {cxl: "PROGRAM"}}
      - {type: merge, name: m, inputs: [t, u]}
      - type: aggregate
        name: a
        input: m
        config: {group_by: [v], cxl: "emit n = count(*)\nemit first = first(id)\nemit over = 1 / (sum(id) - 3)"}
      - {type: output, name: o, input: m, config: {type: csv, path: out/o.csv}}
      - {type: output, name: sorted, input: t, config: {type: csv, path: out/sorted.csv, sort_order: [v]}}
      - {type: output, name: groups, input: a, config: {type: csv, path: out/groups.csv}}
      - type: output
        name: each
        input: t
        config: {type: csv, path: "out/each/{source_file}.csv", include_metadata: all}
"""
PROGRAM = (
    r"emit file = $source.file\nemit row = $source.row\nemit total = $pipeline.total_count\nemit half = 10 / (id - 4)"
)
#: Good files, broken ones, and such as are read alone.
FILES = [
    b"id,v\n1,a\n2,b\n", b"id,v\r\n3,a\r\n", b"\xef\xbb\xbfid,v\n5,\xef\xbb\xbfb", b"id,v\n", b"", b"id,v\n\n\n6,a\n\n",
    b'id,v\n7,"x\ny"\n8,"b"', b"id,v\nx,a\n9,b\n", b"id,v\n1,a,more\n4,a\n", b"id,v\n1,\xff\n10,c\n",
    b'id,v\n11,a\n12,"open\n',
    b"id,v,w\n13,a,1\n", b"v,id\nb,14\n", b"id,v\r15,a\r", b"\xef\xbb\xbfid,v\n\xef\xbb\xbf16,c\n", b'id,v\n17,b"c"\n',
]  # fmt: skip


def published(folder: Path) -> dict[str, object]:
    found: dict[str, object] = dict(pipelines.outputs(folder))
    letters = found.pop("dead.csv", b"")
    assert isinstance(letters, bytes)
    found["dead"] = [row[2:] for row in csv.reader(io.StringIO(letters.decode()))]
    return found


def in_packs(folder: Path, text: str, files: dict[str, bytes], pack_bytes: int) -> tuple[object, ...]:
    """What a run tells and publishes whose tasks take so much of small files."""
    pipelines.write(folder, {"pipeline.yaml": text, **files})
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        told = pipelines.run(folder, tuning=Tuning(pack_bytes=pack_bytes)).result
    return told.exit_code, told.error and (told.error.code, told.error.message), published(folder)


@pytest.mark.parametrize("strategy", ["continue", "fail_fast"])
@pytest.mark.parametrize("options", ["{}", "{has_header: false}"])
@VERY_FEW
@given(chosen=st.lists(st.sampled_from(FILES), min_size=2, max_size=9))
def test_files_that_share_a_task_give_what_each_gives_alone(
    tmp_path_factory: pytest.TempPathFactory, strategy: str, options: str, chosen: list[bytes]
) -> None:
    text = MESSY.replace("STRATEGY", strategy).replace("OPTIONS", options).replace("PROGRAM", PROGRAM)
    files = {f"in/{i}.csv": data for i, data in enumerate(chosen)}
    files |= {f"in/{i}.ndjson": f'{{"id":{i},"v":"a"}}\n'.encode() * i for i in range(3)}
    found = [in_packs(tmp_path_factory.mktemp("packs"), text, files, pack_bytes) for pack_bytes in (4 << 20, 0)]
    assert found[0] == found[1]


#: The same of JSON lines.
LINES = [
    b'{"id":1,"v":"a"}\n{"id":2,"v":"b"}\n', b'{"id":3,"v":"a"}\r\n{"id":4,"v":"a"}', b'{"id":5}\r\r{"v":"c","id":6}\r',
    b'\xef\xbb\xbf\n{"id":7,"v":"\xef\xbb\xbfb"}', b'{"id":8}\n\xef\xbb\xbf{"id":9}', b"", b" \n\n", b"{}",
    b'{"id":1,', b'"v":2}\n', b'\n\n{"id":10,"v":null}\n \n{"id":"x","v":"a"}\n{"id":11}\n',
    b'{"id":12}{"id":13}\n[]\nnull', b'[{"id":14}]', b"[", b'{"id":15,"v":"\xff"}\n{"id":16,"u":{"k":1}}',
    b'{"id":17,"w":1,"u":2}', b'{"id":18,"v":"\0"}\n{"id":NaN}', b'{"id":19,"v":5}\n\x0b\n{"id":20}\x0c',
    b'{"id":22,"u":[1,{"v":"d"}]}\n{"id":23,"u":[]}',
    b'{"id":4,"v":"b","w":[]}\n' * 9 + b'{"id":1.5}\n' + b'{"id":21,"v":"c"}\n' * 9,
]  # fmt: skip
ARRAYS = "array_paths: [{path: u, mode: explode}], options: {}"


@pytest.mark.parametrize("strategy", ["continue", "fail_fast"])
@pytest.mark.parametrize("options", ["options: {}", "options: {format: ndjson}", ARRAYS])
@VERY_FEW
@example(chosen=[b'{"id":1,"v":"a"}\n{"id":2,"v":"b"}\n'] * 3 + [b'{"id":3,"v":"a"}\r\n{"id":4,"v":"a"}'])
@given(chosen=st.lists(st.sampled_from(LINES), min_size=2, max_size=9))
def test_files_of_lines_that_share_a_task_give_what_each_gives_alone(
    tmp_path_factory: pytest.TempPathFactory, strategy: str, options: str, chosen: list[bytes]
) -> None:
    text = MESSY.replace('type: csv, glob: "in/*.csv"', 'type: json, glob: "in/*.json"').replace("STRATEGY", strategy)
    text = text.replace("options: OPTIONS", options).replace("PROGRAM", PROGRAM)
    files = {f"in/{i}.json": data for i, data in enumerate(chosen)} | {"in/0.ndjson": b'{"id":1}'}
    found = [in_packs(tmp_path_factory.mktemp("packs"), text, files, pack_bytes) for pack_bytes in (4 << 20, 0)]
    assert found[0] == found[1]


@pytest.mark.slow
def test_many_small_files_of_lines_are_parsed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    texts: list[int] = []
    read = arrow.read
    monkeypatch.setattr(
        arrow, "read", lambda text, count, *how, **more: texts.append(count) or read(text, count, *how, **more)
    )
    files = {f"in/{i:03}.ndjson": f'{{"id":{i}}}\n' for i in range(60)}
    pipelines.write(
        tmp_path, {"pipeline.yaml": PIPELINE.replace("csv, glob", "json, glob").replace("*.csv", "*"), **files}
    )
    assert pipelines.run(tmp_path).result.error is None
    assert texts == [60]
    assert pipelines.outputs(tmp_path)["o.csv"].split() == [b"id", *(str(i).encode() for i in range(60))]


def test_where_two_files_have_records_of_one_row_the_first_file_is_told(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        without_spark.install(patch)
        files = {"in/a.csv": "id\n1\n2\nx\n", "in/b.csv": "id\ny\n"}
        pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, **files})
        error = pipelines.run(tmp_path).result.error
    assert error is not None
    assert "in/a.csv, row 3" in error.message


@pytest.mark.parametrize("form", ["csv", "json"])
def test_small_files_are_read_together_as_far_as_memory_goes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    sizes: list[list[int]] = []
    real = Source._read_together

    def together(self: object, places: Sequence[SplitInput], wanted: Reading) -> Any:
        sizes.append([place.split.end - place.split.start for place in places])
        return real(self, places, wanted)

    monkeypatch.setattr(Source, "_read_together", together)
    line = {"csv": "{i},{t}\n", "json": '{{"id":{i},"t":"{t}"}}\n'}[form]
    head = "id,t\n" if form == "csv" else ""
    files = {f"in/{i:02}.csv": head + line.format(i=i, t="x" * 20_000) for i in range(60)}
    source = PIPELINE.replace("type: csv, glob", f"type: {form}, glob").replace("{id: int}", "{id: int, t: string}")
    pipelines.write(tmp_path, {**files, "pipeline.yaml": source})
    # The smallest share: blocks are a sixteenth of it.
    outcome = pipelines.run(tmp_path, memory_limit_bytes=8 << 20, threads=2)
    assert outcome.result.records_written == 60
    assert [len(each) for each in sizes] == [13, 13, 13, 13, 8]
    assert max(map(sum, sizes)) <= (4 << 20) // 16
