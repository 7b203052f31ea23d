"""Dead letters that were mended, through the pipeline that they came from."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.dlq import work_list
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

_ORDERS = """
pipeline: {name: p}
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: in/orders.csv
      options: {delimiter: ";", encoding: latin-1, has_header: false}
      schema:
        - {name: id, type: int}
        - {name: name, type: string}
        - {name: day, type: date, format: "%d.%m.%Y"}
        - {name: price, type: float}
  - {type: transform, name: priced, input: orders, config: {cxl: "emit twice = price * 2.0"}}
  - {type: output, name: out, input: priced, config: {type: csv, path: out/out.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)


def _run(folder: Path, text: str, files: dict[str, str | bytes]) -> None:
    pipelines.write(folder, {"pipeline.yaml": text, **files})
    assert pipelines.run(folder).result.exit_code == 2


def _edit(path: Path, **cells: str) -> None:
    """Mend the cells of the record with an `id`; `column` is its text."""
    rows = list(csv.DictReader(path.open(newline="", encoding="utf-8")))
    for row in rows:
        if row["id"] == cells["id"]:
            row.update({"id": cells.pop("new_id", row["id"]), **{k: v for k, v in cells.items() if k != "id"}})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _replay(*more: str) -> int:
    return clinker.main(["dlq", "replay", "pipeline.yaml", "out/dead.csv", *more])


def _events(folder: Path) -> list[tuple[str, int]]:
    lines = (folder / "out/dead.csv.ledger.ndjson").read_text().splitlines()
    return [(event["event"], event["tries"]) for event in map(json.loads, lines)]


def test_mended_records_are_added_and_the_others_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = "1;Ää;02.01.2026;1.5\n2;b;03.01.2026;x\n3;c;31.02.2026;2\n".encode("latin-1")
    _run(tmp_path, _ORDERS, {"in/orders.csv": data})
    dead = tmp_path / "out/dead.csv"
    ids = [entry.id for entry in work_list.read(dead).entries]
    _edit(dead, id="2", price="4", name="Öl")

    assert _replay() == 2
    assert (tmp_path / "out/out.csv").read_text().splitlines() == [
        "id,name,day,price,twice", "1,Ää,2026-01-02,1.5,3", "2,Öl,2026-01-03,4,8"
    ]  # fmt: skip
    (left,) = work_list.read(dead).entries
    assert (left.id, left.tries, left.file, left.row) == (ids[1], 2, "in/orders.csv", "3")
    assert left.detail == ("row 3: field 'day': conversion failed: cannot convert '31.02.2026' to Date")
    assert left.record == {"id": "3", "name": "c", "day": "31.02.2026", "price": "2"}
    assert _events(tmp_path) == [("replayed", 1), ("failed", 1)]
    assert "replayed 2 records: 1 done, 1 failed again" in capsys.readouterr().out

    _edit(dead, id="3", day="28.02.2026")
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text().splitlines()[-1] == "3,c,2026-02-28,2,4"
    assert not dead.exists()
    assert _events(tmp_path) == [("replayed", 1), ("failed", 1), ("replayed", 2)]


def test_numbers_are_mended_as_the_source_writes_them(tmp_path: Path) -> None:
    text = _ORDERS.replace("type: float}", "type: float, decimal_separator: ',', thousands_separator: '.'}")
    data = b"1;a;02.01.2026;1.234,5\n2;b;03.01.2026;x\n3;c;x;1.234,5\n"
    _run(tmp_path, text, {"in/orders.csv": data})
    dead = tmp_path / "out/dead.csv"
    _edit(dead, id="2", price="1.234")
    _edit(dead, id="3", day="04.01.2026")
    assert [entry.record["price"] for entry in work_list.read(dead).entries] == ["1.234", "1234.5"]
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text().splitlines()[2:] == [
        "2,b,2026-01-03,1234,2468", "3,c,2026-01-04,1234.5,2469"
    ]  # fmt: skip


def test_a_copy_from_before_a_replay_does_nothing_twice(tmp_path: Path) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    dead = tmp_path / "out/dead.csv"
    _edit(dead, id="2", price="4")
    copy = dead.read_bytes()
    assert _replay() == 0
    dead.write_bytes(copy)
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text().count("2,b") == 1


def test_into_writes_beside_and_leaves_outputs_alone(tmp_path: Path) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    before = (tmp_path / "out/out.csv").read_bytes()
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    assert _replay("--into", "again") == 0
    assert (tmp_path / "out/out.csv").read_bytes() == before
    assert (tmp_path / "again/out/out.csv").read_text() == "id,name,day,price,twice\n2,b,2026-01-03,4,8\n"


def test_into_replaces_files_with_force_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    pipelines.write(tmp_path, {"again/out/out.csv": "mine\n"})
    assert _replay("--into", "again") == 1
    assert "again/out/out.csv exists already" in capsys.readouterr().err
    assert (tmp_path / "again/out/out.csv").read_text() == "mine\n"
    assert _replay("--into", "again", "--force") == 0


def test_a_dry_run_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    before = pipelines.outputs(tmp_path)
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    edited = pipelines.outputs(tmp_path)
    assert _replay("--dry-run") == 0
    assert pipelines.outputs(tmp_path) == edited != before
    assert capsys.readouterr().out.startswith("dry run: nothing is written\nreplayed 1 record: 1 done")


def test_only_the_wanted_entries_are_replayed(tmp_path: Path) -> None:
    data = "1;a;02.01.2026;x\n2;b;03.01.2026;y\n3;c;nie;3\n"
    _run(tmp_path, _ORDERS, {"in/orders.csv": data})
    dead = tmp_path / "out/dead.csv"
    for number in "123":
        _edit(dead, id=number, price=number, day="02.01.2026")
    assert _replay("--field", "price") == 2
    assert [entry.record["id"] for entry in work_list.read(dead).entries] == ["3"]
    assert _replay("--id", "nonsense") == 1
    assert _replay("--id", work_list.read(dead).entries[0].id) == 0


def test_nulls_texts_and_objects_of_json_come_back_as_they_were(tmp_path: Path) -> None:
    text = """
    pipeline: {name: p}
    nodes:
      - type: source
        name: things
        config:
          type: json
          path: in/things.ndjson
          schema: {id: int, name: string, tags: any, where.city: string, n: int}
      - type: output
        name: out
        input: things
        config: {type: json, path: out/out.ndjson, options: {format: ndjson}, preserve_nulls: true}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    """
    tags = '["a", 1, 9999999999999999.9999, 12345678901234567890, 12.50, 1e300]'
    record = '{"id": %s, "name": null, "tags": ' + tags + ', "where": {"city": "Ulm"}, "n": "%s"}\n'
    _run(tmp_path, text, {"in/things.ndjson": record % (1, "1") + record % (2, "two")})
    _edit(tmp_path / "out/dead.csv", id="2", n="2")
    assert _replay() == 0
    lines = (tmp_path / "out/out.ndjson").read_text().splitlines()
    first, second = (json.loads(line, parse_float=str) for line in lines)
    assert second == {**first, "id": 2, "n": 2}
    found = ["a", 1, "9999999999999999.9999", 12345678901234567890, "12.5", "1e+300"]
    assert (first["name"], first["tags"]) == (None, found)


_GROUPS = """
pipeline: {name: p}
nodes:
  - type: source
    name: lines
    config: {type: csv, path: in/lines.csv, correlation_key: invoice, schema: {invoice: string, id: int, n: int}}
  - {type: output, name: out, input: lines, config: {type: csv, path: out/out.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


def test_groups_are_replayed_as_groups(tmp_path: Path) -> None:
    _run(tmp_path, _GROUPS, {"in/lines.csv": "invoice,id,n\nA,1,1\nA,2,x\nB,3,3\nC,4,y\n"})
    dead = tmp_path / "out/dead.csv"
    assert [entry.record["id"] for entry in work_list.read(dead).entries] == ["1", "2", "4"]
    _edit(dead, id="2", n="2")
    wanted = next(entry.id for entry in work_list.read(dead).entries if entry.record["id"] == "2")
    assert _replay("--id", wanted) == 2
    assert (tmp_path / "out/out.csv").read_text() == "invoice,id,n\nB,3,3\nA,1,1\nA,2,2\n"
    assert [entry.record["id"] for entry in work_list.read(dead).entries] == ["4"]


def test_a_group_that_fails_again_stays_as_a_whole(tmp_path: Path) -> None:
    _run(tmp_path, _GROUPS, {"in/lines.csv": "invoice,id,n\nA,1,1\nA,2,x\nB,3,3\n"})
    dead = tmp_path / "out/dead.csv"
    before = [entry.id for entry in work_list.read(dead).entries]
    assert _replay() == 2
    after = work_list.read(dead).entries
    assert [(entry.id, entry.tries, entry.row) for entry in after] == [(before[0], 2, "1"), (before[1], 2, "2")]


_BRANCHES = """
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: in/s.csv, schema: {id: int, n: string}}}
  - {type: source, name: names, config: {type: csv, path: in/names.csv, schema: {id: int, name: string}}}
  - {type: transform, name: whole, input: s, config: {cxl: "emit m = n.to_int()"}}
  - {type: output, name: numbers, input: whole, config: {type: csv, path: out/numbers.csv}}
  - type: combine
    name: named
    input: {s: s, names: names}
    config:
      where: s.id == names.id
      match: first
      on_miss: null_fields
      cxl: |
        emit id = s.id
        emit name = names.name
  - {type: output, name: all, input: named, config: {type: csv, path: out/all.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""
_TWO = {"in/s.csv": "id,n\n1,1\n2,x\n", "in/names.csv": "id,name\n1,a\n2,b\n"}


def test_a_branch_that_has_the_record_already_does_not_get_it_again(tmp_path: Path) -> None:
    _run(tmp_path, _BRANCHES, _TWO)
    assert (tmp_path / "out/all.csv").read_text() == "id,name\n1,a\n2,b\n"
    _edit(tmp_path / "out/dead.csv", id="2", n="7")
    assert _replay() == 0
    assert (tmp_path / "out/all.csv").read_text() == "id,name\n1,a\n2,b\n"
    assert (tmp_path / "out/numbers.csv").read_text() == "id,n,m\n1,1,1\n2,7,7\n"


def test_a_record_that_was_never_read_goes_to_all_branches(tmp_path: Path) -> None:
    _run(tmp_path, _BRANCHES, {**_TWO, "in/s.csv": "id,n\n1,1\nx,2\n"})
    _edit(tmp_path / "out/dead.csv", id="x", new_id="2")
    assert _replay() == 0
    assert (tmp_path / "out/all.csv").read_text() == "id,name\n1,a\n2,b\n"
    assert (tmp_path / "out/numbers.csv").read_text() == "id,n,m\n1,1,1\n2,2,2\n"


def test_records_that_are_only_looked_up_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _BRANCHES, {**_TWO, "in/s.csv": "id,n\n1,1\n", "in/names.csv": "id,name\n1,a\nx,b\n"})
    before = pipelines.outputs(tmp_path)
    assert _replay() == 2
    assert pipelines.outputs(tmp_path) == before
    assert "not replayed: 1 dead letter, records of 'names', which is only looked up" in capsys.readouterr().out


def test_totals_are_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _ORDERS.replace(
        'transform, name: priced, input: orders, config: {cxl: "emit twice = price * 2.0"}',
        'aggregate, name: priced, input: orders, config: {group_by: [name], cxl: "emit total = sum(price)"}',
    )
    text = text.replace("path: out/out.csv", "path: out/out.csv, sort_order: [name]")
    _run(tmp_path, text, {"in/orders.csv": "1;a;02.01.2026;1\n2;a;03.01.2026;x\n"})
    assert _replay() == 1
    said = capsys.readouterr().err
    assert "output 'out' depends on all records, by aggregate 'priced': correct the records in the files" in said
    assert "run all of it again with --force, which replaces outputs and dead letters" in said

    (tmp_path / "in/orders.csv").write_text("1;a;02.01.2026;1\n2;a;03.01.2026;4\n")
    assert pipelines.run(tmp_path, force=True).result.exit_code == 0
    assert (tmp_path / "out/out.csv").read_text() == "name,total\na,5\n"
    assert not (tmp_path / "out/dead.csv").exists()


def test_a_record_that_equals_another_replayed_one_names_the_place_where_that_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _ORDERS.replace("path: out/out.csv", "path: out/out.csv, validations: [{unique: name}]")
    _run(tmp_path, text, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n3;b;03.01.2026;y\n"})
    _edit(tmp_path / "out/dead.csv", id="2", price="2")
    _edit(tmp_path / "out/dead.csv", id="3", price="3")
    assert _replay() == 1
    assert "output 'out' has a rule on all its records (`unique`)" in capsys.readouterr().err
    assert _replay("--into", "again") == 2
    (left,) = work_list.read(tmp_path / "out/dead.csv").entries
    assert (left.file, left.row) == ("in/orders.csv", "3")
    assert left.detail == "field 'name': not unique: b (the first is in in/orders.csv, row 2)"


@pytest.mark.parametrize("more", [(), ("--into", "again"), ("--dry-run",)])
def test_tables_are_not_added_to_and_the_way_to_mend_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    monkeypatch.setenv("CLINKER_CONNECTION_SHOP", "sqlite:///shop.db")
    options = "{connection: shop, table: orders, mode: upsert, key: id}"
    table = _ORDERS.replace("{type: csv, path: out/out.csv}", f"{{type: database, options: {options}}}")
    (tmp_path / "pipeline.yaml").write_text(table)
    before = (tmp_path / "out/dead.csv").read_bytes()
    assert _replay(*more) == 1
    said = capsys.readouterr().err
    assert "output 'out' is a table, to which no replay adds: correct the records in the files of their source" in said
    assert "`clinker dlq discard` the entries, and run the pipeline again" in said
    assert (tmp_path / "out/dead.csv").read_bytes() == before
    assert not (tmp_path / "again").exists()


def test_a_file_with_other_columns_is_not_added_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    (tmp_path / "out/out.csv").write_text("id,name\n1,a\n")
    assert _replay() == 1
    assert "begins with another header" in capsys.readouterr().err


def test_undeclared_columns_that_dead_letters_lack_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _ORDERS.replace("has_header: false", "has_header: true")
    files = {"in/orders.csv": "id;name;day;price;note\n1;a;02.01.2026;1;n1\n2;b;03.01.2026;x;n2\n"}
    _run(tmp_path, text, files)
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    assert _replay("--into", "mended") == 0
    warning, *_ = capsys.readouterr().out.splitlines()
    assert warning == ("warning: dead letters have declared columns alone: `note` of source 'orders' will be missing")
    assert (tmp_path / "mended/out/out.csv").read_text() == "id,name,day,price,twice\n2,b,2026-01-03,4,8\n"


def test_malformed_records_are_replayed_once_their_columns_are_filled_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026\n"})
    dead = tmp_path / "out/dead.csv"
    assert _replay() == 2
    assert "records of which the file has no columns: fill them in" in capsys.readouterr().out
    _edit(dead, id="", new_id="2", name="b", day="2026-01-03", price="2")
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text().splitlines()[-1] == "2,b,2026-01-03,2,4"


_SPELLED = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      TYPE
      path: in/s.txt
      schema:
        - {name: id, type: int, decimal_separator: ",", thousands_separator: "."}
        - {name: day, type: date, format: "%d/%m/%Y"}
        - {name: price, type: float, decimal_separator: ",", thousands_separator: "."}
  - {type: output, name: out, input: s, config: {type: csv, path: out/out.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""
_PLACES = "{name: id, start: 0, width: 5}, {name: day, start: 5, width: 10}, {name: price, start: 15, width: 5}"
_SPELLINGS = {
    "a header": (
        "type: csv\n      options: {delimiter: '|', encoding: utf-16}",
        "id|day|price\n1|02/01/2026|1,5\nx|y\n",
    ),
    "no header": ("type: csv\n      options: {delimiter: ';', has_header: false}", "1;02/01/2026;1,5\n2;3\n"),
    "other quotes": (
        'type: csv\n      options: {quote_char: "\'", quotes: strict}',
        "id,day,price\n1,02/01/2026,'1,5'\n2,'a'b,3\n",
    ),
    "fixed width": (
        f"type: fixed_width\n      format_schema: {{fields: [{_PLACES}]}}",
        "    102/01/2026  1,5\n\udcff\n",
    ),
}


@pytest.mark.parametrize("spelling", _SPELLINGS)
def test_cells_of_malformed_records_are_read_as_the_source_reads_its_files(spelling: str, tmp_path: Path) -> None:
    """Each would be another value, if it were read in the usual spelling first."""
    options, data = _SPELLINGS[spelling]
    _run(
        tmp_path,
        _SPELLED.replace("TYPE", options),
        {"in/s.txt": data.encode("utf-16" if "utf-16" in options else "utf-8", "surrogateescape")},
    )
    (entry,) = work_list.read(tmp_path / "out/dead.csv").entries
    assert entry.category == "malformed_record"
    _edit(tmp_path / "out/dead.csv", id="", new_id="1.234", day="03/04/2026", price="1.250")
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text() == "id,day,price\n1,2026-01-02,1.5\n1234,2026-04-03,1250\n"


def test_a_copy_under_another_name_does_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whichever is replayed first, and wherever the copy is."""
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n3;c;04.01.2026;y\n"})
    dead = tmp_path / "out/dead.csv"
    _edit(dead, id="2", price="4")
    _edit(dead, id="3", price="5")
    (tmp_path / "elsewhere").mkdir()
    beside, far = tmp_path / "out/copy.csv", tmp_path / "elsewhere/mine.csv"
    for copy in (beside, far):
        copy.write_bytes(dead.read_bytes())
    second, third = (entry.id for entry in work_list.read(dead).entries)
    assert clinker.main(["dlq", "replay", "pipeline.yaml", str(far), "--id", second]) == 2
    assert _replay("--id", third) == 0
    wanted = (tmp_path / "out/out.csv").read_text()
    assert [line.split(",")[0] for line in wanted.splitlines()] == ["id", "1", "2", "3"]
    capsys.readouterr()
    assert clinker.main(["dlq", "replay", "pipeline.yaml", str(beside)]) == 0
    told = capsys.readouterr().out
    assert "left out: 2 dead letters that " in told
    assert "dead.csv.ledger.ndjson knows as done" in told
    assert f"{beside} is a copy" in told
    assert clinker.main(["dlq", "replay", "pipeline.yaml", str(far)]) == 0
    assert "left out: 1 dead letter that " in capsys.readouterr().out
    assert (tmp_path / "out/out.csv").read_text() == wanted
    assert clinker.main(["dlq", "show", str(beside)]) == 0
    assert "0 dead letters" in capsys.readouterr().out


def test_ledgers_of_others_and_what_is_none_are_passed_over(tmp_path: Path) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;1\n2;b;03.01.2026;x\n"})
    (tmp_path / "out/other.csv.ledger.ndjson").write_bytes(b'{"id": "1", "event": "replayed"}\n\xff{\n[]\n')
    _edit(tmp_path / "out/dead.csv", id="2", price="4")
    assert _replay() == 0
    assert (tmp_path / "out/out.csv").read_text().splitlines()[-1] == "2,b,2026-01-03,4,8"


_JOINED = """
pipeline: {name: p}
nodes:
  - {type: source, name: o, config: {type: csv, path: in/o.csv, schema: {id: int, k: int}}}
  - {type: source, name: p, config: {type: csv, path: in/p.csv, schema: {k: int, f: int}}}
  - type: combine
    name: c
    input: {o: o, p: p}
    config: {where: "o.k == p.k", match: all, propagate_ck: driver, cxl: "emit id = o.id\nemit x = 10 / p.f"}
  - {type: output, name: out, input: c, config: {type: csv, path: out/out.csv}}
error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
"""


def test_what_a_combine_joined_is_shown_and_leaves_with_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path, _JOINED, {"in/o.csv": "id,k\n1,1\n2,2\n3,1\n", "in/p.csv": "k,f\n1,0\n2,5\n"})
    dead = tmp_path / "out/dead.csv"
    assert clinker.main(["dlq", "show", str(dead)]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "4  combine:c, field 'x', combine_output_row, 2 records and 2 records joined to them" in lines
    first, second = (lines.index(f"in/o.csv, row {row}: field 'x': division by zero") for row in (1, 3))
    assert lines[first + 3] == lines[second + 3] == "joined to it: in/p.csv, row 1: k=1  f=0"
    assert clinker.main(["dlq", "show", str(dead), "--json", "--samples", "1"]) == 0
    (reason,) = json.loads(capsys.readouterr().out)["reasons"]
    assert [(each["row"], [it["source"] for it in each["joined"]]) for each in reason["samples"]] == [(1, ["p"])]

    before = {entry.id: entry for entry in work_list.read(dead).entries}
    assert _replay() == 2
    assert "2 failed again" in capsys.readouterr().out
    after = {entry.id: entry for entry in work_list.read(dead).entries}
    assert [(e.id, e.origin, e.detail, e.tries) for e in after.values()] == [
        (e.id, e.origin, e.detail, 2) for e in before.values()
    ]
    (tmp_path / "in/p.csv").write_text("k,f\n1,2\n2,5\n")
    beside = next(entry.id for entry in after.values() if entry.joined_to == ("in/o.csv", "3"))
    assert _replay("--id", beside) == 2
    assert "1 done" in capsys.readouterr().out
    assert [entry.row for entry in work_list.read(dead).entries] == ["1", "1"]
    assert _replay() == 0
    assert sorted((tmp_path / "out/out.csv").read_text().splitlines()) == ["1,5", "2,2", "3,5", "id,x"]


def test_what_failed_downstream_of_an_aggregate_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
    pipeline: {name: p}
    nodes:
      - {type: source, name: s, config: {type: csv, path: in/s.csv, schema: {k: string, n: int}}}
      - {type: aggregate, name: a, input: s, config: {group_by: [k], cxl: "emit total = sum(n)"}}
      - {type: transform, name: t, input: a, config: {cxl: "emit part = 10 / total"}}
      - {type: output, name: out, input: t, config: {type: csv, path: out/out.csv}}
    error_handling: {strategy: continue, dlq: {path: out/dead.csv}}
    """
    _run(tmp_path, text, {"in/s.csv": "k,n\na,1\nb,1\nb,-1\nc,0\n"})
    before = pipelines.outputs(tmp_path)
    assert _replay() == 2
    told = capsys.readouterr().out
    assert "not replayed: 2 dead letters, rows that an aggregate made: such a row stands for all records of its" in told
    assert "cannot be replayed alone; correct the records of the group in their source file, or the pipeline" in told
    assert "and run the whole pipeline again" in told
    assert pipelines.outputs(tmp_path) == before


def test_a_run_that_fails_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _BRANCHES, _TWO)
    _edit(tmp_path / "out/dead.csv", id="2", n="7")
    (tmp_path / "in/names.csv").unlink()
    before = pipelines.outputs(tmp_path)
    assert _replay() == 4
    assert pipelines.outputs(tmp_path) == before
    assert "in/names.csv" in capsys.readouterr().err


def test_discarded_entries_leave_the_file_with_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(tmp_path, _ORDERS, {"in/orders.csv": "1;a;02.01.2026;x\n2;b;03.01.2026;y\n"})
    dead = tmp_path / "out/dead.csv"
    first, second = work_list.read(dead).entries
    discard = ["dlq", "discard", "out/dead.csv", "--reason", "a test order"]
    assert clinker.main(discard) == 1
    assert clinker.main([*discard, "--id", first.id]) == 0
    assert [entry.id for entry in work_list.read(dead).entries] == [second.id]
    event = json.loads((tmp_path / "out/dead.csv.ledger.ndjson").read_text())
    assert (event["event"], event["reason"], event["entry"]["price"]) == ("discarded", "a test order", "x")
    assert clinker.main([*discard, "--all"]) == 0
    assert not dead.exists()
    assert "discarded 1 dead letter; 0 left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "is not a dead-letter file: it has no column _cxl_dlq_id"),
        ("_cxl_dlq_id,a\nx,1,2\n", "line 2: 3 cells, but the header has 2"),
        ("_cxl_dlq_id,a\nx,1\nx,2\n", "line 3: the id x is on line 2, too"),
        ('_cxl_dlq_id,a\nx,"1\n', "close the quotes that are open there"),
    ],
)
def test_a_broken_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "dead.csv"
    path.write_text(text)
    with pytest.raises(work_list.NotDeadLetters) as caught:
        work_list.read(path)
    assert message in str(caught.value)


def test_a_file_that_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dead.csv"
    path.write_bytes("\ufeff_cxl_dlq_id;a\nx;1,5\n".encode())
    assert [dict(entry.cells) for entry in work_list.read(path).entries] == [{"_cxl_dlq_id": "x", "a": "1,5"}]


def test_a_broken_ledger_stops_everything(tmp_path: Path) -> None:
    path = tmp_path / "dead.csv"
    path.write_text("_cxl_dlq_id,a\nx,1\n")
    work_list.ledger_of(path).write_text("{\n")
    with pytest.raises(work_list.NotDeadLetters, match="line 1: it is not an event of a ledger"):
        work_list.read(path)
