"""Sorted outputs, split ones, and those with a file for each input file."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.execute.delivery import targets
from spark_jobs.tuning import Tuning
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.run.metrics import Outcome
    from spark_jobs.result import RunError

SMALL = 8 << 20
SOURCE = "{type: source, name: s, config: {name: s, type: csv, path: in.csv, schema: {id: int, k: int, t: string}}}"
ORDER = "[{field: k, order: desc, null_order: first}, t]"


def rows(count: int, seed: int = 3) -> list[tuple[int, int | None, str]]:
    random_ = random.Random(seed)
    texts = ["a", "b", "b a", "Z", "\u00e9", "", "x" * 200]
    return [(i, random_.choice([None, 1, 2, 30, -4]), random_.choice(texts)) for i in range(count)]


def csv(found: list[tuple[int, int | None, str]]) -> str:
    return "id,k,t\n" + "".join(f"{i},{'' if k is None else k},{t}\n" for i, k, t in found)


def in_order(found: list[tuple[int, int | None, str]]) -> list[tuple[int, int | None, str]]:
    return sorted(found, key=lambda row: (row[1] is not None, -(row[1] or 0), row[2].encode()))


def pipeline(*nodes: str) -> str:
    return "pipeline: {name: p, concurrency: {threads: 2}}\nnodes:\n" + "".join(f"  - {node}\n" for node in nodes)


def output(*settings: str, kind: str = "csv", path: str = "out/o.csv", name: str = "o", source: str = "s") -> str:
    config = ", ".join([f"name: {name}, type: {kind}, path: '{path}'", *settings])
    return f"{{type: output, name: {name}, input: {source}, config: {{{config}}}}}"


def run(folder: Path, files: dict[str, str], **options: Any) -> Outcome:
    pipelines.write(folder, files)
    outcome = pipelines.run(folder, **options)
    assert outcome.result.error is None, outcome.result.error
    return outcome


def refused(folder: Path, files: dict[str, str], **options: Any) -> RunError:
    pipelines.write(folder, files)
    outcome = pipelines.run(folder, **options)
    assert outcome.result.error is not None
    return outcome.result.error


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)


@pytest.mark.usefixtures("in_process")
class TestSorted:
    @pytest.mark.parametrize("splits", [1, 2, 5])
    @pytest.mark.parametrize("kind", ["csv", "json"])
    def test_in_order_whatever_the_splits(
        self, kind: str, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = rows(3000)
        pipelines.write(tmp_path, {"in.csv": csv(found)})
        pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
        sorted_output = output(f"sort_order: {ORDER}", "preserve_nulls: true", kind=kind)
        tuning = Tuning(merge_range_bytes=30_000)
        run(tmp_path, {"pipeline.yaml": pipeline(SOURCE, sorted_output)}, tuning=tuning)
        written = pipelines.outputs(tmp_path)["o.csv"].decode()
        if kind == "csv":
            assert written == csv(in_order(found))
        else:
            expected = [{"id": i, "k": k, "t": t} for i, k, t in in_order(found)]
            assert json.loads(written) == expected
            assert (written[:3], written[-4:]) == ("[\n{", "}\n]\n")

    @pytest.mark.slow
    def test_more_than_memory_holds(self, tmp_path: Path) -> None:
        """A task whose records do not fit writes several runs."""
        found = rows(40_000)
        sorted_output = output(f"sort_order: {ORDER}")
        files = {"in.csv": csv(found), "pipeline.yaml": pipeline(SOURCE, sorted_output)}
        run(tmp_path, files, memory_limit_bytes=SMALL)
        assert pipelines.outputs(tmp_path)["o.csv"].decode() == csv(in_order(found))

    def test_equal_keys_keep_the_order_of_merged_inputs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        other = SOURCE.replace("name: s", "name: s2").replace("in.csv", "in2.csv")
        merge = "{type: merge, name: m, inputs: [s2, s]}"
        first, second = rows(500, 1), rows(500, 2)
        pipelines.write(tmp_path, {"in.csv": csv(second)})
        pipelines.with_splits(monkeypatch, tmp_path, "in.csv", 3)
        files = {"in2.csv": csv(first), "pipeline.yaml": pipeline(
            SOURCE, other, merge, output("sort_order: [k]", "exclude: [k]", source="m"))}  # fmt: skip
        run(tmp_path, files)
        expected = sorted(first + second, key=lambda row: (row[1] is None, row[1] or 0))
        lines = pipelines.outputs(tmp_path)["o.csv"].decode().splitlines()[1:]
        assert lines == [f"{i},{t}" for i, _, t in expected]

    def test_records_without_a_value_may_be_dropped(self, tmp_path: Path) -> None:
        found = rows(100)
        dropping = output("sort_order: [{field: k, null_order: drop}]")
        outcome = run(tmp_path, {"in.csv": csv(found), "pipeline.yaml": pipeline(SOURCE, dropping)})
        kept = sorted((row for row in found if row[1] is not None), key=lambda row: row[1] or 0)
        assert pipelines.outputs(tmp_path)["o.csv"].decode() == csv(kept)
        assert outcome.nodes["o"]["filtered"] == len(found) - len(kept)

    def test_undeclared_columns_can_be_sorted_by(self, tmp_path: Path) -> None:
        source = SOURCE.replace("{id: int, k: int, t: string}", "{id: int}")
        files = {"in.csv": "id,t\n1,b\n2,\n3,a\n"}
        run(tmp_path, files | {"pipeline.yaml": pipeline(source, output("sort_order: [t]", "exclude: [t]"))})
        assert pipelines.outputs(tmp_path)["o.csv"] == b"id\n2\n3\n1\n"

    def test_a_name_that_no_file_has_is_told(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        settings = ("sort_order: [tt, t]", "split: {max_records: 9, group_key: other}")
        source = SOURCE.replace("{id: int, k: int, t: string}", "{id: int}")
        run(tmp_path, {"in.csv": "id,t\n2,b\n1,a\n", "pipeline.yaml": pipeline(source, output(*settings))})
        told = [record.getMessage() for record in caplog.records]
        assert told[0].startswith("output 'o': no input file has the column 'tt', which it is sorted or split by; did")
        assert told[1:] == ["output 'o': no input file has the column 'other', which it is sorted or split by"]
        assert pipelines.outputs(tmp_path) == {"o_0001.csv": b"id,t\n1,a\n2,b\n"}

    def test_a_renamed_or_excluded_name_that_no_file_has_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings = ("mapping: {new: tt, t2: t}", "exclude: [idd, id]")
        source = SOURCE.replace("{id: int, k: int, t: string}", "{id: int}")
        run(tmp_path, {"in.csv": "id,t\n2,b\n", "pipeline.yaml": pipeline(source, output(*settings))})
        told = [record.getMessage() for record in caplog.records]
        text = "W212: output 'o': no input file has the column '{}', which `mapping` or `exclude` names"
        assert told == [text.format("tt") + "; did you mean `t`?", text.format("idd")]

    def test_an_undeclared_column_whose_name_is_taken_is_told(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        source = SOURCE.replace("{id: int, k: int, t: string}", "{id: int}")
        run(
            tmp_path,
            {"in.csv": "id,t,u\n2,b,c\n", "pipeline.yaml": pipeline(source, output("mapping: {t: id, id: u}"))},
        )
        told = [record.getMessage().partition(";")[0] for record in caplog.records]
        assert told == ["W213: output 'o': the column 't' is not written: `mapping` gives its name to 'id'"]
        assert pipelines.outputs(tmp_path) == {"o.csv": b"t,id\n2,c\n"}

    def test_records_that_cannot_be_written_are_dead_letters(self, tmp_path: Path) -> None:
        found = [(1, 2, "b"), (2, 1, "\u0416"), (3, 1, "a")]
        latin = output("sort_order: [k]", "options: {encoding: latin-1}")
        text = pipeline(SOURCE, latin) + "error_handling: {strategy: continue, dlq: {path: out/dead.csv}}\n"
        outcome = run(tmp_path, {"in.csv": csv(found), "pipeline.yaml": text})
        assert pipelines.outputs(tmp_path)["o.csv"] == b"id,k,t\n3,1,a\n1,2,b\n"
        assert outcome.result.exit_code == 2


@pytest.mark.usefixtures("in_process")
class TestSplit:
    @pytest.mark.parametrize("splits", [1, 4])
    def test_sorted_and_split(self, splits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = rows(1000)
        pipelines.write(tmp_path, {"in.csv": csv(found)})
        pipelines.with_splits(monkeypatch, tmp_path, "in.csv", splits)
        split = "split: {max_records: 120, group_key: k, naming: 'n{seq}.csv'}"
        run(tmp_path, {"pipeline.yaml": pipeline(SOURCE, output(f"sort_order: {ORDER}", split))})
        written = {name: content.decode() for name, content in pipelines.outputs(tmp_path).items()}
        assert [*written] == [f"n{number}.csv" for number in range(1, 6)], "five values of k, some 200 records each"
        assert "id,k,t\n" + "".join(text.removeprefix("id,k,t\n") for text in written.values()) == csv(in_order(found))

    def test_every_chunk_is_a_whole_document(self, tmp_path: Path) -> None:
        found = rows(7)
        split = output("split: {max_records: 3}", kind="json", path="out/o.json")
        run(tmp_path, {"in.csv": csv(found), "pipeline.yaml": pipeline(SOURCE, split)})
        written = [json.loads(content) for content in pipelines.outputs(tmp_path).values()]
        assert [[record["id"] for record in chunk] for chunk in written] == [[0, 1, 2], [3, 4, 5], [6]]

    def test_encodings_with_a_mark_begin_every_chunk(self, tmp_path: Path) -> None:
        split = output("split: {max_records: 2, repeat_header: false}", "options: {encoding: utf-16}")
        run(
            tmp_path,
            {"in.csv": csv([(1, 1, "\u00e9"), (2, 2, "b"), (3, 3, "c")]), "pipeline.yaml": pipeline(SOURCE, split)},
        )
        written = [content.decode("utf-16") for content in pipelines.outputs(tmp_path).values()]
        assert written == ["id,k,t\n1,1,\u00e9\n2,2,b\n", "3,3,c\n"]

    def test_a_group_that_fits_into_no_file_may_end_the_run(self, tmp_path: Path) -> None:
        split = output("split: {max_records: 2, group_key: k, oversize_group: error}")
        files = {"in.csv": csv([(1, 5, "a"), (2, 5, "b"), (3, 5, "c")]), "pipeline.yaml": pipeline(SOURCE, split)}
        error = refused(tmp_path, files)
        assert error.code == "E906"
        assert "'5' of 'k' alone has 3 records, 18 bytes; max_records is 2" in error.message
        assert str(error.span).startswith(f"{tmp_path}/pipeline.yaml:4:")
        assert not (tmp_path / "out").exists()

    def test_chunks_may_get_free_names(self, tmp_path: Path) -> None:
        split = output("split: {max_records: 2}", "if_exists: unique_suffix")
        pipelines.write(tmp_path, {"out/o_0001.csv": "mine\n", "out/o_0009.csv": "mine too\n"})
        run(tmp_path, {"in.csv": csv(rows(3)), "pipeline.yaml": pipeline(SOURCE, split)})
        assert [*pipelines.outputs(tmp_path)] == ["o_0001-1.csv", "o_0001.csv", "o_0002.csv", "o_0009.csv"]

    def test_the_input_is_not_taken_for_an_older_chunk(self, tmp_path: Path) -> None:
        source = SOURCE.replace("in.csv", "out/o_0005.csv")
        files = {"out/o_0005.csv": csv(rows(3)), "pipeline.yaml": pipeline(source, output("split: {max_records: 2}"))}
        error = refused(tmp_path, files, force=True)
        assert (error.code, "is an input of source 's'" in error.message) == ("E902", True)
        assert [*pipelines.outputs(tmp_path)] == ["o_0005.csv"]

    def test_a_preview_shows_the_whole_output(self, tmp_path: Path) -> None:
        from spark_jobs import plan
        from spark_jobs.execute import identity
        from spark_jobs.execute.run import executor
        from spark_jobs.plan.options import RunOptions

        split = output("sort_order: [{field: id, order: desc}]", "split: {max_records: 1}")
        pipelines.write(tmp_path, {"in.csv": csv(rows(9)), "pipeline.yaml": pipeline(SOURCE, split)})
        options = RunOptions(threads=2, preview=3)
        shown: list[tuple[str, str]] = []
        loaded = plan.load(tmp_path / "pipeline.yaml", options)
        executor.execute(loaded, options, identity.Identity.new(None, None), lambda *told: shown.append(told))
        assert shown == [("o", csv(rows(9)[2::-1]))]
        assert not (tmp_path / "out").exists()


FILES = {"in/b.csv": csv(rows(4, 1)), "in/a.csv": csv(rows(3, 4)), "in/none.csv": "id,k,t\n"}


@pytest.mark.usefixtures("in_process")
class TestByFile:
    source = SOURCE.replace("path: in.csv", "glob: 'in/**/*.csv'")

    @pytest.mark.parametrize("between", ["", "distinct", "filter id >= 0"])
    def test_each_input_file_has_its_output(self, between: str, tmp_path: Path) -> None:
        transform = f"{{type: transform, name: t1, input: s, config: {{cxl: '{between}'}}}}"
        nodes = [transform] if between else []
        by_file = output(path="out/{source_file}/clean.csv", source="t1" if between else "s")
        outcome = run(tmp_path, FILES | {"pipeline.yaml": pipeline(self.source, *nodes, by_file)})
        expected = {f"{name[3:-4]}/clean.csv": content.encode() for name, content in FILES.items()}
        assert pipelines.outputs(tmp_path) == expected
        assert sorted(path[len(str(tmp_path)) + 5 :] for path in outcome.result.output_files) == sorted(expected)

    def test_sorted_split_and_described(self, tmp_path: Path) -> None:
        settings = ("sort_order: [{field: id, order: desc}]", "split: {max_records: 2}", "write_meta: true")
        run(tmp_path, FILES | {"pipeline.yaml": pipeline(self.source, output(*settings, path="out/{source_file}.csv"))})
        written = pipelines.outputs(tmp_path)
        assert [*written] == [
            "a.csv.meta.json", "a_0001.csv", "a_0002.csv", "b.csv.meta.json", "b_0001.csv", "b_0002.csv",
            "none.csv.meta.json", "none_0001.csv",
        ]  # fmt: skip
        assert written["a_0002.csv"].decode() == csv(rows(3, 4)[:1])
        counts = {name: json.loads(written[f"{name}.csv.meta.json"])["record_count"] for name in ("a", "b", "none")}
        assert counts == {"a": 3, "b": 4, "none": 0}

    @pytest.mark.parametrize("kind", ["csv", "parquet", "avro"])
    @pytest.mark.parametrize("ending", ["", ".gz"])
    def test_without_a_file_there_is_none(self, tmp_path: Path, kind: str, ending: str) -> None:
        source = self.source.replace("config: {", "config: {files: {on_no_match: skip}, ")
        ways = [(), ("sort_order: [id]",), ("split: {max_records: 1}",), ("parts: true",)]
        nodes = [
            output(*way, kind=kind, path=f"out/{number}/{{source_file}}.x{ending}", name=f"o{number}")
            for number, way in enumerate(ways)
        ]
        for files in ({}, {"in/empty.csv": ""}):
            run(tmp_path, files | {"pipeline.yaml": pipeline(source, *nodes)})
            assert not (tmp_path / "out").exists() or pipelines.outputs(tmp_path) == {}

    def test_files_of_one_name_are_told_apart_or_refused(self, tmp_path: Path) -> None:
        files = {"in/x/a.csv": csv(rows(1)), "in/y/a.csv": csv(rows(2))}
        by_name = output(path="out/{source_file}.csv")
        error = refused(tmp_path, files | {"pipeline.yaml": pipeline(self.source, by_name)})
        assert error.code == "E322"
        assert "of in/x/a.csv, the records of output 'o' of in/y/a.csv would all be written to" in error.message
        assert "{source_path}" in error.message
        assert not (tmp_path / "out").exists()
        run(tmp_path, {"pipeline.yaml": pipeline(self.source, output(path="out/{source_path}"))})
        assert {*pipelines.outputs(tmp_path)} == {*files}

    def test_a_name_of_dots_leads_nowhere(self, tmp_path: Path) -> None:
        by_name = output(path="{source_file}/o.csv")
        error = refused(tmp_path, {"in/...csv": csv(rows(1)), "pipeline.yaml": pipeline(self.source, by_name)})
        assert error.code == "E-SEC-001"
        assert "in/...csv" in error.message
        assert not (tmp_path.parent / "o.csv").exists()

    def test_records_without_a_file_to_go_to_end_the_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Which would be a bug, and must not lose them."""
        resolve = targets.resolve

        def forgetful(*arguments: Any) -> targets.Targets:
            found = resolve(*arguments)
            (target,) = found.outputs
            return replace(found, outputs=(replace(target, deliveries=target.deliveries[1:]),))

        monkeypatch.setattr(targets, "resolve", forgetful)
        files = FILES | {"pipeline.yaml": pipeline(self.source, output(path="out/{source_file}.csv"))}
        error = refused(tmp_path, files)
        assert (error.code, "records of in/a.csv have no file to go to" in error.message) == ("E903", True)
        assert not (tmp_path / "out").exists()

    def test_behind_a_merge_no_file_is_meant(self, tmp_path: Path) -> None:
        files = {"in.csv": csv(rows(2)), "pipeline.yaml": pipeline(
            SOURCE, SOURCE.replace("name: s", "name: s2"), "{type: merge, name: m, inputs: [s, s2]}",
            output(path="out/{source_file}.csv", source="m"))}  # fmt: skip
        run(tmp_path, files)
        assert [*pipelines.outputs(tmp_path)] == ["<merged>.csv"]

    def test_an_existing_file_stops_the_run(self, tmp_path: Path) -> None:
        pipelines.write(tmp_path, {"out/b.csv": "mine\n"})
        files = FILES | {"pipeline.yaml": pipeline(self.source, output(path="out/{source_file}.csv"))}
        error = refused(tmp_path, files)
        assert (error.code, "out/b.csv exists already" in error.message) == ("E902", True)
        assert pipelines.outputs(tmp_path) == {"b.csv": b"mine\n"}


@pytest.mark.spark
def test_spark_merges_what_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = rows(3000)
    pipelines.write(tmp_path, {"in.csv": csv(found)})
    pipelines.with_splits(monkeypatch, tmp_path, "in.csv", 4)
    tuning = Tuning(merge_range_bytes=1)
    run(tmp_path, {"pipeline.yaml": pipeline(SOURCE, output(f"sort_order: {ORDER}"))}, tuning=tuning)
    assert pipelines.outputs(tmp_path)["o.csv"].decode() == csv(in_order(found))
