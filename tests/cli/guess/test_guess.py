"""`clinker guess`: the source that is printed, what is told beside it, and that both are true."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import random
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest
import yaml

from spark_jobs.cli import clinker
from spark_jobs.cli.guess import charset, checking, command, sampling
from spark_jobs.cli.guess.command import NotGuessed
from tests.execute import without_spark

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.cli.guess.together import Answer

    Captured = pytest.CaptureFixture[str]

EXPORT = """Bericht Mai

Nr;Datum;Kunde;Menge;Menge;Preis;Bezahlt
1;01.02.2026;Müller;3;1;1.234,50;ja
2;03.02.2026;"Groß; KG";n/a;2;5,25;nein
3;31.03.2026;Ärzte;4;3;12,00;ja
4;31.02.2026;Öl;4;3;12,00;ja
Summe;;;;;1.263,75;
"""


def look(folder: Path, content: str | bytes, name: str = "orders.csv") -> Answer:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return command.look(path, name, set())


def config(answer: Answer) -> dict[str, Any]:
    (node,) = yaml.safe_load(command.source.node(answer.guess))
    found: dict[str, Any] = node["config"]
    return found


def columns(answer: Answer) -> dict[str, dict[str, Any]]:
    return {column.pop("name"): column for column in config(answer)["schema"]}


def test_an_export_of_excel_is_read(tmp_path: Path) -> None:
    answer = look(tmp_path, EXPORT.replace("\n", "\r\n").encode("cp1252"))
    assert config(answer)["options"] == {
        "delimiter": ";",
        "duplicate_columns": "number",
        "skip_rows": 2,
        "skip_footer": 1,
        "encoding": "cp1252",
    }
    assert columns(answer) == {
        "Nr": {"type": "int"},
        "Datum": {"type": "date", "format": "%d.%m.%Y"},
        "Kunde": {"type": "string"},
        "Menge": {"type": "int", "null_values": ["n/a"]},
        "Menge_2": {"type": "int"},
        "Preis": {"type": "float", "decimal_separator": ",", "thousands_separator": "."},
        "Bezahlt": {"type": "bool", "true_values": ["ja"], "false_values": ["nein"]},
    }
    assert command.notes(answer) == [
        "column `Datum`: 1 record does not fit, conversion failed: cannot convert … to Date (row 4: `31.02.2026`)",
        "1 of 4 records would be dead letters",
        "column `Menge`: `n/a` is null (`null_values`)",
        "2 lines before the table left out (`skip_rows`): `Bericht Mai`",
        "1 line after the table left out (`skip_footer`): `Summe 1.263,75`",
    ]


def test_errors_of_spreadsheets_are_no_nulls(tmp_path: Path) -> None:
    answer = look(tmp_path, "a,b\n1,2.5\n2,#REF!\n3,-\n4,#DIV/0!\n5,4\n")
    assert columns(answer)["b"] == {"type": "float", "null_values": ["-"]}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (5, 2)
    assert command.notes(answer)[-2:] == [
        "column `b`: `-` is null (`null_values`)",
        "column `b`: `#DIV/0!`, `#REF!` are errors of a spreadsheet, and no null: their records become dead letters",
    ]


def test_what_is_printed_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "export.csv").write_bytes(EXPORT.encode("cp1252"))
    (tmp_path / "events.ndjson").write_text('{"id": 1, "at": "2026-03-02T10:15:00Z"}\n{"id": 2, "at": null}\n')
    assert clinker.main(["init", "shop", "--from", "export.csv", "events.ndjson"]) == 0
    assert clinker.main(["validate", "shop/pipeline.yaml"]) == 0
    assert clinker.main(["run", "shop/pipeline.yaml", "--quiet"]) == 2
    with (tmp_path / "shop/output/export.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["Kunde"] for row in rows] == ["Müller", "Groß; KG", "Ärzte"]
    assert [(row["Datum"], row["Menge"], row["Preis"], row["Bezahlt"]) for row in rows] == [
        ("2026-02-01", "3", "1234.5", "true"),
        ("2026-02-03", "", "5.25", "false"),
        ("2026-03-31", "4", "12", "true"),
    ]
    assert (tmp_path / "shop/output/events.csv").read_text().splitlines()[1:] == ["1,2026-03-02T10:15:00", "2,"]
    assert "31.02.2026" in (tmp_path / "shop/output/rejected.csv").read_text("utf-8")
    assert "1 of 4 records would be dead letters" in capsys.readouterr().err


def test_a_folder_with_a_pipeline_is_not_overwritten(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "pipeline.yaml").write_text("mine")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert clinker.main(["init", str(tmp_path), "--from", str(tmp_path / "a.csv")]) == 1
    assert (tmp_path / "pipeline.yaml").read_text() == "mine"
    assert "use --force" in capsys.readouterr().err


def test_a_file_within_the_folder_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("a,b\n1,2\n")
    assert clinker.main(["init", str(tmp_path), "--from", str(tmp_path / "in/a.csv")]) == 0
    assert "path: in/a.csv" in (tmp_path / "pipeline.yaml").read_text()
    assert list((tmp_path / "data").iterdir()) == []


def test_several_files_get_names_of_their_own(tmp_path: Path, capsys: Captured) -> None:
    for folder, names in (("x", "a,b"), ("y", "a,c")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1 Sales.csv").write_text(f"{names}\n1,2\n")
    assert clinker.main(["guess", str(tmp_path / "x/1 Sales.csv"), str(tmp_path / "y/1 Sales.csv")]) == 0
    nodes = yaml.safe_load(capsys.readouterr().out)
    assert [node["name"] for node in nodes] == ["source_1_sales", "source_1_sales_2"]


def test_all_columns_can_be_texts(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.csv").write_text("id,day\n1,2026-01-02\n")
    assert clinker.main(["guess", "--text", str(tmp_path / "a.csv")]) == 0
    (node,) = yaml.safe_load(capsys.readouterr().out)
    assert {column["type"] for column in node["config"]["schema"]} == {"string"}


# ---- tables ----------------------------------------------------------------------------------------


def test_of_several_tables_below_one_another_the_first_keeps_its_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    met = "".join(f"Minister {name},Oct-14,Group {name},On {name},,,,\n,,World {name},,,,,\n" for name in "ABCDEF")
    text = (
        "Meetings,,,,,,,\nMinister,Date,Name of organisation,Purpose of meeting,,,,\n" + met + ",,,,,,,\n,,,,,,,\n"
        "Travel,,,,,,,\nMinister,Date,Destination,Purpose,Mode,Cost of plane,Officials,Total\n"
        "Minister A,Oct-14,Cairo,Conference,Scheduled,,No,3271.41\nMinister B,Nov-14,Berlin,Talks,Train,,No,82.84\n"
    )
    (tmp_path / "a.csv").write_text(text)
    assert clinker.main(["guess", "--text", str(tmp_path / "a.csv")]) == 0
    (node,) = yaml.safe_load(capsys.readouterr().out)
    assert node["config"]["options"]["skip_rows"] == 1
    assert [column["name"] for column in node["config"]["schema"]][:5] == [
        "Minister", "Date", "Name of organisation", "Purpose of meeting", "col_4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("a,b\n1,2\n3,4\n", {}, ["a", "b"]),
        ("a\tb\n1\t2\n3\t4\n", {"delimiter": "\t"}, ["a", "b"]),
        ("a||b\n1||x|y\n3||4\n", {"delimiter": "||"}, ["a", "b"]),
        ('a, b\n1, "x, y"\n3, "z"\n', {"trim": True}, ["a", "b"]),
        ("a,b\n1,'x, y'\n3,'z, w'\n", {"quote_char": "'"}, ["a", "b"]),
        ('a,b\n1,"x \\"y\\", z"\n3,"w"\n', {"escape_char": "\\"}, ["a", "b"]),
        ("id,name~1,Ada~2,Bob~3,Eve~", {"record_separator": "~"}, ["id", "name"]),
        ("sep=;\na;b\n1;2\n", {"delimiter": ";", "skip_rows": 1}, ["a", "b"]),
        ("# by hand\na,b,c\n1,2,3\n# more, later\n3,4,5\n4,5,6\n", {"comment": "#"}, ["a", "b", "c"]),
        ("1,x,2026-01-02\n2,y,2026-01-03\n", {"has_header": False}, ["col_0", "col_1", "col_2"]),
        ("a,b\n1,2\na,b\n3,4\n", {"skip_repeated_header": True}, ["a", "b"]),
        (",May,May\nid,net,gross\n1,2,3\n2,3,4\n3,4,5\n", {"header_rows": 2}, ["id", "May_net", "May_gross"]),
        ('a,"b,c\n1,"x, y",2\n2,"y, z",3\n3,"z",4\n', {"quotes": "repair"}, ["a", '"b', "c"]),
        ("a b c\n1,x,2\n2,y,3\n3,z,4\n", {"has_header": False, "skip_rows": 1}, ["a", "b", "c"]),
        ("a,,b,c\n1,x,2\n2,y,3\n3,z,4\n", {"has_header": False, "skip_rows": 1}, ["a", "b", "c"]),
        ("a,,c\n1,2,3\n2,3,4\n", {"columns": ["a", "col_1"]}, ["a", "col_1", "c"]),
        ("a,b,c\n1,2,3,\n2,3,4,\n", {"ragged": "cut"}, ["a", "b", "c"]),
        ("a,b,c\n1,2,3\n2,3\n5,6,7\n", {"ragged": "pad"}, ["a", "b", "c"]),
        ("a,b\nr1,1,2\nr2,3,4\n", {"has_header": False, "skip_rows": 1}, ["row", "a", "b"]),
        ("name\nAda\nBob Smith\n", {}, ["name"]),
        ("geo,2021 ,2022 \nDE,5.5 ,6.5 \nFR,4.5 ,5.0 \n", {"trim": True}, ["geo", "2021", "2022"]),
        # Keys with values stand before the table, as in statements of banks.
        (
            "Konto;DE00 1234\nZeitraum;01.01.2026 - 31.03.2026\n\nTag;Art;Zweck;Betrag\n"
            "02.01.2026;Miete;Nord;-1.250,00\n03.01.2026;Gehalt;Januar;3.100,55\n05.02.2026;Essen;Markt;-8,90\n",
            {"delimiter": ";", "skip_rows": 3},
            ["Tag", "Art", "Zweck", "Betrag"],
        ),
        (
            "Konto;DE00 1234\nZeitraum;Jan\n\nTag;Art;Betrag\n02.01.2026;Miete;-1.250,00\n03.01.2026;Lohn;3.100,55\n"
            "05.02.2026;Essen;-8,90\n",
            {"delimiter": ";", "skip_rows": 3},
            ["Tag", "Art", "Betrag"],
        ),
        # The names stand in the last comment before the records.
        (
            "# made by a logger\n# time temp load\n1 2.5 3\n2 3.5 4\n3 4.5 5\n4 5.5 6\n",
            {"delimiter": " ", "comment": "#", "has_header": False},
            ["time", "temp", "load"],
        ),
        (
            "#TYPE,DATA ALL\n#SAMPLE,PLA\n##Temp./C,Time,E'(1 Hz)\n" + "20.5,0.1,3.4\n21.5,0.2,3.5\n" * 3,
            {"comment": "#", "has_header": False},
            ["Temp./C", "Time", "E'(1 Hz)"],
        ),
        # The header ends in delimiters that the records do not have.
        (
            "RUN,a,b,,,\n1,0.5,1.5\n2,0.6,1.6\n3,0.7,1.7\n4,0.8,1.8\n",
            {"has_header": False, "skip_rows": 1},
            ["RUN", "a", "b"],
        ),
        # Headings over several columns, in two rows.
        (
            "Name,Staff,,,,Total\n,AO,,EO,,\n,Heads,FTE,Heads,FTE,Heads\n"
            + "".join(f"Dept {number},{number},{number}.5,{number},{number}.6,9{number}\n" for number in range(1, 8)),
            {"header_rows": 3, "duplicate_columns": "number"},
            ["Name", "Staff_AO_Heads", "FTE", "EO_Heads", "FTE_2", "Total_Heads"],
        ),
        # Blanks within quotes belong to names, for guess as for the source.
        ('id, name ,"\t of it "\n1, ab ,"x"\n2, cd ," ""y"" "\n3, e,z\n', {"trim": True}, ["id", "name", "\t of it "]),
        ('geo ,"2021 ","net, of all"\nDE,5.5 ,1\nFR,4.5 ,2\n', {"trim": True}, ["geo", "2021 ", "net, of all"]),
        (
            "EXTF;700;21;x;13;;RE;1;2;3\na;b;c\n1;x;2\n2;y;3\n3;z;4\n",
            {"delimiter": ";", "skip_rows": 1},
            ["a", "b", "c"],
        ),
        (
            " id | name \n----+------\n  1 | a\n  2 | b\n(2 rows)\n",
            {"delimiter": "|", "trim": True, "comment": "--", "skip_footer": 1},
            ["id", "name"],
        ),
        (
            "+----+------+\n| id | name |\n+----+------+\n|  1 | a    |\n|  2 | b    |\n+----+------+\n",
            {"delimiter": "|", "trim": True, "comment": "+-", "columns": ["col_0", "id", "name", "col_3"]},
            ["col_0", "id", "name", "col_3"],
        ),
    ],
)
def test_signs_and_headers_are_found(text: str, options: dict[str, Any], names: list[str], tmp_path: Path) -> None:
    answer = look(tmp_path, text)
    assert config(answer).get("options", {}) == options
    assert list(columns(answer)) == names
    assert answer.read is not None
    assert (answer.read.bad, answer.read.refusal) == (0, None)


def test_records_that_lose_a_cell_are_never_cut(tmp_path: Path) -> None:
    answer = look(tmp_path, "a,b\n1,2\n3,4\n5,6,7\n8,9\n")
    assert "options" not in config(answer)
    assert command.notes(answer)[-2:] == [
        "1 of 4 records would be dead letters",
        "1 of 4 records have more than 2 cells (row 3): they become dead letters",
    ]


_WORDS = ["Ada", "x, y", "a;b", 'say "hi"', "it's", "Groß", "two words", "", "10:15", "line\nend", "tab\there"]


@pytest.mark.parametrize("seed", range(60))
def test_a_table_that_was_written_is_read_again(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    delimiter, quote, end = chance.choice(",;\t|"), chance.choice('""\''), chance.choice(["\n", "\r\n"])
    names = ["id", "name", "city", "amount", "note"][: chance.randint(2, 5)]
    rows = [
        [str(number), *(chance.choice(_WORDS) for _ in names[1:3]), *(f"{chance.random():.3f}" for _ in names[3:4]),
         *(chance.choice(_WORDS) for _ in names[4:])]
        for number in range(chance.randint(4, 40))
    ]  # fmt: skip
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, quotechar=quote, lineterminator=end).writerows([names, *rows])
    guess = command.look(path, "t.csv", set(), as_text=True).guess
    guess.paths = ["t.csv"]
    assert [column.name for column in guess.columns] == names
    step = checking.bound(guess)
    assert not isinstance(step, str)
    found = checking.read(guess, [path])
    assert (found.records, found.bad, found.refusal) == (len(rows), 0, None)
    assert (step.options.delimiter, step.options.has_header) == (delimiter, True)


# ---- encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Müller;Straße;Größe;10 €", "cp1252"),
        ("Müller;Straße;Größe", "cp850"),
        ("Müller;Straße;Größe", "mac-roman"),
        ("Łódź;Wałęsa;zażółć gęślą jaźń", "cp1250"),
        ("Łódź;Wałęsa;zażółć gęślą", "iso8859-2"),
        ("Иванов;Москва;привет мир", "cp1251"),
        ("Иванов;Москва;привет мир", "koi8-r"),
        ("日本語;テスト;東京です", "shift_jis"),
        ("Müller;日本", "utf-8"),
        ("Müller;日本", "utf-16"),
        ("Mueller;Strasse", "utf-16-le"),
        ("Mueller;Strasse", "utf-16-be"),
        ("Region;Preis\nSüd;1,00 €\nOst;2,00 €", "cp1252"),
        ("Ort;Preis in €;Kosten in €\nSüd;1;2", "cp1252"),
        ("Region;Notiz\nSüd;„gut“\nOst;„schlecht“", "cp1252"),
        ("Region;Menge\nSüd;1\u00a0234\u00a0567,50\nOst;2\u00a0345\u00a0678,50", "cp1252"),
        ("Region;Menge\nWest;1\u00a0234\u00a0567,50", "cp1252"),
        ("Größe;50 m²\nLänge;20 °C, 10 µm", "cp1252"),
        ("señor;niño;¿qué?;año nº 3", "cp1252"),
        ("café;élève;à 5;1ère;très", "cp850"),
        ("Größe;Ärzte;Übung\nähnlich;äußern", "cp850"),
        ("Kunde;Betrag €;Straße\nMüller;1,00;Weg", "iso8859-15"),
        ("Preis;Menge\n1,00 €;2\n2,00€;3", "iso8859-15"),
        ("zł;ą;Łódź ¤;świat", "iso8859-2"),
    ],
)
def test_encodings_are_told_by_their_letters(text: str, encoding: str) -> None:
    found = charset.guess(f"{text}\n{text}\n".encode(encoding))
    assert found.name == encoding
    assert found.rival != "cp850"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_a_file_of_an_encoding_is_read_in_it(encoding: str, tmp_path: Path) -> None:
    answer = look(tmp_path, "id;stadt\n1;Köln\n2;Gießen\n".encode(encoding))
    assert config(answer).get("options", {}).get("encoding", "utf-8") == encoding
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (2, 0)


def test_a_character_that_is_cut_is_no_reason_to_doubt_utf8() -> None:
    data = ("Köln;" * 3000).encode()
    for cut in range(6):
        assert charset.guess(data[: len(data) - cut], (data[cut : -cut or None],)).name == "utf-8"


# ---- other formats ---------------------------------------------------------------------------------


def test_json_lines_are_read(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "user": {"name": "Ada", "tags": ["x"]}, "at": "2026-01-02", "n": 1, "big": 12345678901234567890},
        {"id": 2, "user": {"name": None}, "at": "2026-02-03", "n": 1.5, "big": 3},
    ]
    answer = look(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "a.ndjson")
    assert config(answer)["options"] == {"format": "ndjson"}
    assert columns(answer) == {
        "id": {"type": "int"},
        "user.name": {"type": "string"},
        "user.tags": {"type": "array"},
        "at": {"type": "date"},
        "n": {"type": "float"},
        "big": {"type": "string"},
    }
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (2, 0)


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        (("0.1", "12.50", "1e300", "0.30000000000000004"), "float"),
        (("12345678901234567890.123", "1.5", "7"), "decimal(23,3)"),
        (("9007199254740993", "0.5"), "decimal(17,1)"),
        (("9007199254740992", "0.5"), "float"),
        (("0.10000000000000001", "1e30"), "string"),
        (("1e400", "1"), "string"),
        (("12345678901234567890.5", '"1.25"'), "decimal(22,2)"),
        (("1.5", '"0.10000000000000001"'), "decimal(18,17)"),
    ],
)
@pytest.mark.parametrize("is_array", [True, False])
def test_json_numbers_that_a_float_would_round_are_exact(
    numbers: tuple[str, ...], kind: str, is_array: bool, tmp_path: Path
) -> None:
    lines = [f'{{"n": {number}}}' for number in numbers]
    answer = look(tmp_path, f"[{','.join(lines)}]" if is_array else "\n".join(lines) + "\n", "a.json")
    assert columns(answer) == {"n": {"type": kind}}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (len(numbers), 0)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('[{"a": 1}, {"a": 2}]', {"format": "array"}),
        (
            '{"meta": {"n": 2}, "data": {"rows": [{"a": 1}, {"a": 2}]}}',
            {"format": "object", "record_path": "$.data.rows"},
        ),
    ],
)
def test_records_within_json_are_found(text: str, options: dict[str, str], tmp_path: Path) -> None:
    answer = look(tmp_path, text, "a.json")
    assert config(answer)["options"] == options
    assert columns(answer) == {"a": {"type": "int"}}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (2, 0)


def test_numbers_in_quotes_among_numbers_are_numbers(tmp_path: Path) -> None:
    text = '{"id":1,"amount":10,"n":1}\n{"id":2,"amount":"7.5","n":"x"}\n{"id":3,"amount":2.5,"n":3}\n'
    answer = look(tmp_path, text, "a.ndjson")
    assert columns(answer) == {"id": {"type": "int"}, "amount": {"type": "float"}, "n": {"type": "any"}}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)
    assert command.notes(answer) == [
        "decide: column `n`: values of several kinds: int, string",
        "column `amount`: texts such as `7.5` are read as numbers",
    ]


def test_whole_numbers_in_quotes_among_whole_numbers_are_whole(tmp_path: Path) -> None:
    answer = look(tmp_path, '{"id":1}\n{"id":"2"}\n{"id":3}\n', "a.ndjson")
    assert columns(answer) == {"id": {"type": "int"}}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)


def test_an_object_that_is_null_in_some_records_is_no_column_of_its_own(tmp_path: Path) -> None:
    answer = look(tmp_path, '{"c":{"name":"Ada"},"d":null}\n{"c":null,"d":null}\n', "a.ndjson")
    assert columns(answer) == {"c.name": {"type": "string"}, "d": {"type": "string"}}


def test_fields_at_fixed_places_are_found(tmp_path: Path) -> None:
    answer = look(
        tmp_path, "0001Ada       12.50\n0002Bob Bell   3.00\n0003Cleo     100.25\n0004Dora       1.00\n", "a.txt"
    )
    assert config(answer)["type"] == "fixed_width"
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (4, 0)


def test_a_line_with_the_names_of_fields_is_skipped(tmp_path: Path) -> None:
    answer = look(tmp_path, "ID  NAME      AMOUNT\n001 Ada        12.50\n002 Bob         3.00\n003 Cleo      100.25\n")
    assert config(answer)["options"] == {"skip_rows": 1}
    assert list(columns(answer)) == ["ID", "NAME", "AMOUNT"]
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)


REPORT = """MONTHLY STATEMENT         2026-10

ACCT  NAME           AMOUNT
----- ---------- ----------
00012 Smith, J       123.45
00013 O'Neil, P     1200.10
"""


@pytest.mark.parametrize("after", ["", "           ----------\nTOTAL           1323.55\n\n2 rows selected.\n", "\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_ruler_of_a_report_shows_its_fields(tmp_path: Path, after: str, end: str) -> None:
    answer = look(tmp_path, (REPORT + after).replace("\n", end), "report.txt")
    options = config(answer)["options"]
    assert (options["skip_rows"], options.get("skip_footer", 0)) == (4, after.count("\n"))
    assert columns(answer) == {"ACCT": {"type": "string"}, "NAME": {"type": "string"}, "AMOUNT": {"type": "float"}}
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (2, 0)


def test_a_sum_below_the_records_of_a_report_is_told(tmp_path: Path) -> None:
    (doubt,) = look(tmp_path, REPORT + "TOTAL               1323.55\n", "report.txt").guess.doubts
    assert doubt.startswith("row 3 looks like a sum of others")


@pytest.mark.parametrize(
    "text",
    [
        REPORT + "\n" + REPORT * 3,  # pages
        REPORT.replace("00013 O'Neil, P ", "00013 O'Neil, Pat"),  # a value that reaches into another field
        REPORT + "00014 Very long name\n".replace("name", "name to"),
    ],
)
def test_reports_whose_fields_are_not_where_the_ruler_is_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotGuessed, match=r"fields stand at positions"):
        look(tmp_path, text, "report.txt")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b"PK\x03\x04" + bytes(30) + b"xl/workbook.xml", "broken"),
        (b"PAR1abc", "`type: parquet`"),
        (b"<?xml version='1.0'?><a/>", "no element has anything in it"),
        (b'{"a": 1', "it is broken JSON"),
        (b"\x00\x01\x02\x03" * 20, "it is no text"),
    ],
)
def test_what_is_no_table_is_told(data: bytes, said: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert clinker.main(["guess", str(path)]) == 4
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


def test_a_file_that_is_missing_is_told(tmp_path: Path, capsys: Captured) -> None:
    assert clinker.main(["guess", str(tmp_path / "nope.csv")]) == 4
    assert capsys.readouterr().err == f"clinker guess error: {tmp_path / 'nope.csv'}: file not found\n"


# ---- large and compressed files --------------------------------------------------------------------


def _large(rows: int) -> bytes:
    lines = ["id;name;amount", *(f"{n};customer {n};{n},5" for n in range(rows)), f"{rows};last;some"]
    return "\n".join(lines).encode() + b"\n"


def test_a_large_file_is_looked_at_all_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE_BYTES", 100_000)
    monkeypatch.setattr(sampling, "_HEAD_BYTES", 20_000)
    monkeypatch.setattr(sampling, "_PIECE_BYTES", 4_000)
    answer = look(tmp_path, _large(50_000))
    assert columns(answer)["amount"] == {"type": "float", "decimal_separator": ","}
    assert "from all over the file" in answer.guess.about
    assert answer.read is None
    assert "the file is large" in command.notes(answer)[0]


@pytest.mark.parametrize("whole", [True, False])
def test_a_compressed_file_is_unpacked(whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(sampling, "WHOLE_BYTES", 100_000)
        monkeypatch.setattr(sampling, "_HEAD_BYTES", 20_000)
        monkeypatch.setattr(sampling, "_PIECE_BYTES", 4_000)
    data = _large(50_000)
    answer = look(tmp_path, gzip.compress(data), "a.csv.gz")
    assert "compression" not in config(answer)["options"]
    assert "gzip" in answer.guess.about
    assert config(look(tmp_path, gzip.compress(data), "a.csv"))["options"]["compression"] == "gzip"
    sample = sampling.read(tmp_path / "a.csv.gz", "a")
    assert sample.size == len(data)
    assert sample.is_whole == whole
    assert sample.tail.endswith(b"last;some\n")


def test_what_is_not_guessed_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(NotGuessed):
        look(tmp_path, "")


HEAD = "Nr;Region;Datum;Betrag\n1;A;01.02.2026;10,00\n2;B;15.02.2026;20,00\n"


@pytest.mark.parametrize(
    ("end", "doubts"),
    [
        ("3;C;16.02.2026;5,00\n", []),
        ("3;C;16.02.2026;\n", []),
        (
            "3;C;16.02.2026;5,00\n;Alle;;35,00\n",
            ["the last row has nothing in column `Nr`, which all others have: if it is a sum, set `skip_footer`"],
        ),
        (
            "Zwischensumme;;;30,00\n3;C;16.02.2026;5,00\n4;C;17.02.2026;5,00\nSubtotal;;;10,00\n5;D;18.02.2026;1,00\n",
            [
                "rows 3, 6 look like sums of others; in a transform, this leaves such rows out: "
                "filter not Region.is_empty()"
            ],
        ),
        (
            "Zwischensumme;;;30,00\n3;C;16.02.2026;5,00\n4;C;17.02.2026;5,00\n",
            [
                "row 3 looks like a sum of others; in a transform, this leaves such rows out: "
                "filter not Region.is_empty()"
            ],
        ),
    ],
)
def test_records_that_are_sums_of_others_are_asked_about(tmp_path: Path, end: str, doubts: list[str]) -> None:
    path = tmp_path / "in.csv"
    path.write_text(HEAD + end)
    assert command.look(path, path.name, set()).guess.doubts == doubts


@pytest.mark.parametrize(
    ("text", "footer"),
    [
        ("region,amount\nNorth,100\nSouth,50\nEast,70\nTotal,220\n", 1),
        ("Region;Menge;Umsatz\nNord;3;1.100,50\nSued;4;50,25\nOst;2;70,00\nGesamt;9;1.220,75\n", 1),
        ("Région;Qté;Montant\nNord;3;1 100,50\nSud;4;50,25\nEst;2;70,00\nTotal général;9;1 220,75\n", 1),
        ("Region;Kwota\nN;100,50\nS;50,25\nO;70,00\nRazem;220,75\n", 1),
        ("date,amount\n2026-01-01,100\n2026-01-02,50\n2026-01-03,70\nTOTAL:,220\n", 1),
        ("region,amount\nNorth,100\nSouth,50\nEast,70\nTotal,999\n", 0),
        ("name,score\nAnn,1.5\nBob,2.5\nCy,3.5\nAverage,2.5\n", 0),
    ],
)
def test_sums_with_all_their_cells_are_no_records_in_silence(tmp_path: Path, text: str, footer: int) -> None:
    answer = look(tmp_path, text)
    assert config(answer).get("options", {}).get("skip_footer", 0) == footer
    said = [line for line in command.notes(answer) if "looks like a sum" in line or "skip_footer" in line]
    assert len(said) == 1


def test_a_value_that_is_a_word_for_sums_is_a_value(tmp_path: Path) -> None:
    rows = "".join(f"{kind},{n}\n" for n in range(5) for kind in ("Total", "Male", "Female"))
    answer = look(tmp_path, "sex,n\n" + rows)
    assert command.notes(answer) == []
    assert answer.read is not None
    assert answer.read.records == 15


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n", "\r\n\r\n"])
def test_blank_lines_after_a_sum_are_left_out_with_it(end: str, tmp_path: Path) -> None:
    answer = look(tmp_path, f"region,amount\nNorth,100\nSouth,50\nEast,70\nTotal,220{end}")
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)


def test_sums_of_groups_are_asked_about(tmp_path: Path) -> None:
    text = "region,shop,amount\nN,a,100\nN,b,50\nN Total,,150\nS,c,70\nS,d,1\nS Total,,71\nT,e,2\n"
    assert look(tmp_path, text).guess.doubts == [
        "rows 3, 6 look like sums of others; in a transform, this leaves such rows out: filter not shop.is_empty()"
    ]


STATEMENT = """Kontoauszug;DE12 5001 0517 5407 3249 31
Zeitraum;01.01.2026 - 31.03.2026

Buchungs-Tag;Text;Betrag;Saldo;Kategorie
;Anfangssaldo;;1.000,00;
02.01.2026;Strom;-84,00;916,00;Wohnen
05.01.2026;Gehalt;2.450,00;3.366,00;Gehalt
;Saldo per 31.01.2026;;3.366,00;
01.02.2026;Miete;-890,00;2.476,00;
11.02.2026;Einkauf;-41,18;2.434,82;Essen
;Endsaldo;;2.434,82;
"""


@pytest.mark.parametrize("blank", ["", "\n"])
def test_balances_between_bookings_are_asked_about(tmp_path: Path, blank: str) -> None:
    answer = look(tmp_path, (STATEMENT + blank).encode("latin-1"))
    assert answer.guess.doubts == [
        "rows 1, 4, 7 look like sums or balances of others; in a transform, this leaves such rows out: "
        "filter not `Buchungs-Tag`.is_empty()"
    ]
    assert columns(answer)["Saldo"]["type"] == "float"


def test_without_a_column_that_only_sums_leave_empty_no_column_is_named(tmp_path: Path) -> None:
    text = STATEMENT.replace("05.01.2026;Gehalt", ";Gehalt").replace(";-84,00", ";")
    (doubt,) = look(tmp_path, text.encode("latin-1")).guess.doubts
    assert doubt == (
        "rows 1, 4, 7 look like sums or balances of others; a `filter` in a transform leaves such rows out"
    )


def test_bookings_about_balances_are_bookings(tmp_path: Path) -> None:
    text = "id,day,text,amount\n1,2026-01-01,Opening balance,5\n2,2026-01-02,Balance due,6\n3,,Saldo vom Mai,7\n"
    assert look(tmp_path, text).guess.doubts == []


LOG = """# station 7
id,kind,unit
t1,temperature,C
h1,humidity,%

[readings]
time,sensor,value
2026-01-01 00:00,t1,3.5
2026-01-01 00:10,h1,81
2026-01-01 00:20,t1,NaN
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("after", ["", "\n\n"])
def test_another_table_below_is_told_with_the_keys_that_read_each(tmp_path: Path, end: str, after: str) -> None:
    answer = look(tmp_path, (LOG + after).replace("\n", end))
    (doubt,) = answer.guess.doubts
    footer = 6 + after.count("\n")
    assert doubt == (
        "row 4 looks like the header of another table (`time`, `sensor`, `value`), and a source reads one table: "
        f"`skip_footer: {footer}` ends this one above it, and a second source with `skip_rows: 6` begins at it; for "
        "the types, guess each table from a file of its own"
    )
    text = (LOG + after).splitlines()
    assert text[6] == "time,sensor,value"
    assert text[len(text) - footer - 1] == "h1,humidity,%"


def test_where_no_option_skips_so_many_lines_the_file_is_to_be_cut(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-01 00:00,t1,{n}\n" for n in range(10_001))
    answer = look(tmp_path, LOG + rows)
    assert list(columns(answer)) == ["id", "kind", "unit"]  # and the records above are no rows of the header
    (doubt,) = [each for each in answer.guess.doubts if "another table" in each]
    assert doubt.endswith(": cut the file above it, and read each part with a source of its own")


@pytest.mark.parametrize(
    "text",
    [
        "id;name;n\n1;a;2\n2;b;3\n;;\nday;city;t\n2026-01-01;Rome;5\n2026-01-02;Oslo;4\n",
        "key,v\na,2\nb,3\n\nnumber,letter\n1,x\n2,y\n",
    ],
)
def test_another_table_after_a_gap_is_told(tmp_path: Path, text: str) -> None:
    assert any("header of another table" in doubt for doubt in look(tmp_path, text).guess.doubts)


@pytest.mark.parametrize(
    "text",
    [
        "id,name,n\n1,a,2\n\n2,b,3\n\n3,x,n/a\n4,y,4\n5,z,4\n",
        "name,state\nAnn,5\nBob,6\n\nCyd,pending\nDan,7\nEve,8\n",
        "id,n\n1,2\n2,3\n\nid,n\n3,4\n4,5\n",
        "name,city\nAnn,Rome\nBob,Oslo\n\nCyd,Bern\nDan,Rome\nEve,Wien\n",
    ],
)
def test_groups_between_blank_lines_are_one_table(tmp_path: Path, text: str) -> None:
    assert not any("another table" in doubt for doubt in look(tmp_path, text).guess.doubts)


def test_another_table_below_on_a_sheet_is_told_with_its_rows(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["id", "kind", "unit"], ["t1", "heat", "C"], ["h1", "damp", "%"], [], ["day", "sensor", "value"]):
        book.active.append(row)
    for day in (1, 2, 3):
        book.active.append([datetime.date(2026, 1, day), "t1", day / 2])
    book.save(tmp_path / "a.xlsx")
    doubts = command.look(tmp_path / "a.xlsx", "a.xlsx", set()).guess.doubts
    assert (
        "row 3 looks like the header of another table (`day`, `sensor`, `value`), and a source reads one table: a "
        "`range` that ends at row 3 reads this one, and a second source reads from row 5 on"
    ) in doubts


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["35", None, "n/a", "35"], "type: int, null_values: [n/a]"),
        (["3.5", "4", "7.25", "1"], "type: float"),
        (["7", "8", "", "7"], "type: int, null_values: ['']"),
        (["1", "2", "3", "4"], None),  # a key
        (["35", "many", "35", "1"], None),
        (["007", "007", "1", "1"], None),
        (["n/a", "n/a", None, "n/a"], None),
    ],
)
def test_numbers_as_texts_in_json_are_told_with_their_keys(
    tmp_path: Path, values: list[str | None], said: str | None
) -> None:
    records = [{"subject": "a", "minutes": value} for value in values]
    answer = look(tmp_path, json.dumps(records), "tickets.json")
    node = command.source.node(answer.guess)
    assert (f"numbers written as texts: to compute with them, {said}" in node) is (said is not None)
    assert ("numbers written as texts" in node) is (said is not None)
    assert columns(answer)["minutes"]["type"] == "string"


@pytest.mark.parametrize(
    "header", ["country,2021,2022,2023", "account,01/2026,02/2026,03/2026", "name,2026-01-01,2026-01-02,2026-01-03"]
)
def test_years_months_and_days_may_be_names_of_columns(header: str, tmp_path: Path) -> None:
    answer = look(tmp_path, f"{header}\nDE,5,6,7\nFR,7,8,9\nIT,1,2,3\n")
    assert list(columns(answer)) == header.split(",")
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)


def test_years_in_the_first_record_are_values_where_the_others_have_years_too(tmp_path: Path) -> None:
    answer = look(tmp_path, "DE,2021,2022\nFR,2022,2023\nIT,2020,2021\n")
    assert list(columns(answer)) == ["col_0", "col_1", "col_2"]


@pytest.mark.parametrize("first", ["0.5,1.5", "52.1234,13.1234", "1.2021,2.2021"])
def test_fractions_in_the_first_record_are_no_months(first: str, tmp_path: Path) -> None:
    answer = look(tmp_path, f"{first}\n1,2\n3,4\n5,6\n")
    assert list(columns(answer)) == ["col_0", "col_1"]
    assert answer.read is not None
    assert answer.read.records == 4


def test_years_that_are_names_of_columns_are_told(tmp_path: Path) -> None:
    answer = look(tmp_path, "land,2021,2022\nDE,5,6\nFR,7,8\n")
    assert command.notes(answer) == [
        "the first line is taken for names: `land`, `2021`, `2022`; if it is a record, set `has_header: false`"
    ]


@pytest.mark.parametrize("last", ["Media Markt;;5", "Suma Foods;;7", "Mean Beans;;8"])
def test_names_that_begin_like_sums_are_records(last: str, tmp_path: Path) -> None:
    answer = look(tmp_path, f"name;city;n\nAldi;Essen;5\nLidl;Neckarsulm;6\nRewe;Berlin;7\n{last}\n")
    assert answer.read is not None
    assert answer.read.records == 4


def test_a_header_that_may_be_a_record_is_told(tmp_path: Path) -> None:
    answer = look(tmp_path, "Smith,Berlin\nJones,Paris\nBrown,Rome\n")
    assert command.notes(answer) == [
        "the first line is taken for names: `Smith`, `Berlin`; if it is a record, set `has_header: false`"
    ]
    assert command.notes(look(tmp_path, "name,n\nJones,5\nBrown,6\n")) == []


def test_lines_that_quotes_join_are_asked_about(tmp_path: Path) -> None:
    answer = look(tmp_path, 'id\tname\tn\n1\t"abc\t5\n2\tdef"\t6\n3\tghi\t7\n')
    assert any("if the quotes are text, set `quote_char: ''`" in line for line in answer.guess.doubts)
    other = look(tmp_path, 'id,note,n\n1,"one\ntwo, with more",5\n2,"x",6\n')
    assert other.guess.doubts == []


@pytest.mark.parametrize("amounts", [("12,50", "5,25", "2,50"), ("1,234.50", "5,678.00", "2,500.00")])
def test_numbers_that_the_delimiter_splits_are_asked_about(amounts: tuple[str, ...], tmp_path: Path) -> None:
    rows = "".join(f"{number},{amount},Berlin\n" for number, amount in enumerate(amounts, 1))
    (doubt,) = look(tmp_path, "id,amount,city\n" + rows).guess.doubts
    assert f"if `{amounts[0]}` is one number" in doubt
    assert look(tmp_path, "a,b\nr1,1,2\nr2,3,4\n").guess.doubts == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"a": 1}]\n[{"a": 2}]\n', "line 2, column 1: something follows the value"),
        ('[{"a": 1}, {"a": 2},]', "a value is missing, perhaps after a comma"),
        ('{"a": 1}{"a": 2}', "something follows the value"),
        ('[{"a": 1} {"a": 2}]', "a comma is missing"),
        ("[]", "its array has no objects"),
        ("[1, 2]", "its array has no objects"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
        ('[{"": 1}]', "no members with names"),
        ("<html><body><table><tr><td>1</td></tr></table></body></html>", "it is a page of HTML"),
        ('<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"><a/></Workbook>', "Excel 2003"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "it is no text"),
        (
            "ID NAME              AMOUNT\n1 Smith              12.50\n2 Jones           1,234.50\n",
            "`type: fixed_width`",
        ),
        ("a,b\n1," + "x" * 200_000 + "\n", "a cell has more than 131,072 characters"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_table_is_never_read_as_one(text: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(NotGuessed) as raised:
        look(tmp_path, text)
    assert said in str(raised.value)


def test_lines_that_begin_with_a_bracket_are_fields(tmp_path: Path) -> None:
    assert list(columns(look(tmp_path, "[id],[n]\n1,2\n3,4\n"))) == ["[id]", "[n]"]


def test_long_whole_numbers_of_a_workbook_keep_their_digits(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["id", "n"], [1, 1234567890123456], [2, 4006381333931]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    answer = command.look(tmp_path / "a.xlsx", "a.xlsx", set())
    assert columns(answer)["n"] == {"type": "int"}


def test_merged_cells_of_a_workbook_are_told(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["region", "n"], ["North", 1], [None, 2], ["South", 3]):
        book.active.append(row)
    book.active.merge_cells("A2:A3")
    book.save(tmp_path / "a.xlsx")
    said = command.notes(command.look(tmp_path / "a.xlsx", "a.xlsx", set()))
    assert said == ["1 row with nothing in `region`: merged cells have their value in their first row"]


def test_the_file_that_no_source_is_guessed_for_is_named(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.json").write_text('[{"a": 1}')
    assert clinker.main(["init", str(tmp_path / "p"), "--from", str(tmp_path / "a.csv"), str(tmp_path / "b.json")]) == 4
    assert "b.json: it is broken JSON" in capsys.readouterr().err


def test_postal_codes_of_a_workbook_keep_their_zeros(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["zip", "n"], [1234, 5], [10115, 6]):
        book.active.append(row)
    for row in (2, 3):
        book.active.cell(row, 1).number_format = "00000"
    book.save(tmp_path / "a.xlsx")
    assert columns(command.look(tmp_path / "a.xlsx", "a.xlsx", set())) == {
        "zip": {"type": "string"},
        "n": {"type": "int"},
    }


def test_days_and_texts_in_a_column_of_a_workbook_are_asked_about(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["id", "d"], [1, "05.01.2026"], [2, datetime.date(2026, 1, 6)], [3, datetime.date(2026, 1, 7)]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert command.look(tmp_path / "a.xlsx", "a.xlsx", set()).guess.doubts == [
        "column `d`: text: values of several kinds: date, text or number"
    ]


def test_a_column_that_the_file_lacks_is_no_column_of_nulls(tmp_path: Path) -> None:
    answer = look(tmp_path, "a,b\n1,2\n3,4\n")
    answer.guess.columns[1].name = "c"
    read = checking.read(answer.guess, [tmp_path / "orders.csv"])
    assert read.refusal == "the header does not have the column 'c'"


def test_records_without_values_are_told(tmp_path: Path) -> None:
    answer = look(tmp_path, "id,name\n1,Ann\n,\n2,Bob\n3,Cy\n")
    assert "1 record has nothing in any cell; `filter` in a transform leaves them out" in command.notes(answer)


def test_quotes_that_nobody_escaped_are_told(tmp_path: Path) -> None:
    answer = look(tmp_path, 'id,name,note\n1,Ann,"He said "hi, you" to me"\n2,Bob,"fine"\n3,"Cy,"x"\n4,Dee,"y"\n')
    assert config(answer)["options"] == {"quotes": "repair"}
    assert answer.read is not None
    assert answer.read.records == 4
    assert not answer.read.bad
    said = "3 quotes within quoted cells, or at the start of cells, are not doubled: they are text (`quotes: repair`)"
    assert said in command.notes(answer)


def test_quotes_that_are_doubled_need_no_repair(tmp_path: Path) -> None:
    answer = look(tmp_path, 'id,name,note\n1,Ann,"He said ""hi, you"" to me"\n2,Bob,5" pipe\n3,"Cy","x"\n')
    assert "options" not in config(answer)


def test_a_record_that_may_be_cut_is_told(tmp_path: Path) -> None:
    answer = look(tmp_path, "id;at\n1;01.02.2026 10:00\n2;02.02.2026 11:00\n3;03.02.2026 12:00\n4;04.02.2026 1")
    assert "the file ends within a line: the last record may be cut, `04.02.2026 1`" in command.notes(answer)
    whole = look(tmp_path, "id;at\n1;01.02.2026 10:00\n2;02.02.2026 11:00\n3;03.02.2026 12:00\n4;04.02.2026 13:00")
    assert not [line for line in command.notes(whole) if "cut" in line]


def test_a_cell_of_several_lines_with_quotes_is_repaired(tmp_path: Path) -> None:
    text = 'id;note;by\n1;"It broke.\nPlease "now" call!";Ann\n2;"fine";Bob\n3;"Line 1\nline 2; and more\n";Cy\n'
    answer = look(tmp_path, text)
    assert config(answer)["options"] == {"delimiter": ";", "quotes": "repair"}


def workbook(path: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_a_workbook_is_read_where_its_table_is(tmp_path: Path) -> None:
    first, second = datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)
    path = workbook(
        tmp_path / "shops.xlsx",
        ["Sales 2026"],
        [],
        ["Shop", "Day", "Count", "Price", "Count"],
        ["North", first, 3, 2.5, 4],
        ["South", second, "n/a", 3.5, 5],
        ["West", second, 5, 1.25, 6],
        ["East", first, 7, 1.5, 8],
        ["Total", None, 15, 8.75, 23],
    )
    answer = command.look(path, "shops.xlsx", set())
    found = config(answer)
    assert found["options"] == {"range": "A3:E7", "columns": ["Shop", "Day", "Count", "Price", "Count_2"]}
    assert columns(answer) == {
        "Shop": {"type": "string"},
        "Day": {"type": "date"},
        "Count": {"type": "int", "null_values": ["n/a"]},
        "Price": {"type": "float"},
        "Count_2": {"type": "int"},
    }
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (4, 0)
    assert any("`Total 15 8.75 23`" in line for line in command.notes(answer))


def test_headings_over_several_columns_of_a_workbook_are_joined(tmp_path: Path) -> None:
    days = [datetime.date(2026, 1, day) for day in (3, 17, 31)]
    path = workbook(
        tmp_path / "sales.xlsx",
        ["Sales 2026"],
        ["Customer", None, "Sales", None, "Day"],
        ["No", "Name", "Q1", "Q2", None],
        [1, "Ada", 10.5, 20, days[0]],
        [2, "Bob", None, 5, days[1]],
        [3, "Cleo", "n/a", 7, days[2]],
        ["Total", None, 10.5, 32],
        [],
        ["* preliminary"],
    )
    answer = command.look(path, "sales.xlsx", set())
    assert config(answer)["options"] == {"range": "A4:E6", "has_header": False}
    assert columns(answer) == {
        "Customer_No": {"type": "int"},
        "Customer_Name": {"type": "string"},
        "Sales_Q1": {"type": "float", "null_values": ["n/a"]},
        "Sales_Q2": {"type": "int"},
        "Day": {"type": "date"},
    }
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (3, 0)


def test_a_record_with_empty_cells_is_no_second_header(tmp_path: Path) -> None:
    path = workbook(
        tmp_path / "a.xlsx", ["id", "a", "b"], ["n/a", None, None], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]
    )
    answer = command.look(path, "a.xlsx", set())
    assert "options" not in config(answer)
    assert [*columns(answer)] == ["id", "a", "b"]


def test_a_plain_workbook_needs_no_options(tmp_path: Path) -> None:
    path = workbook(tmp_path / "b.xlsx", ["id", "code", "at"], [1, "007", datetime.datetime(2026, 1, 2, 3, 4)],
                    [2, "008", datetime.datetime(2026, 1, 2, 3, 5)])  # fmt: skip
    answer = command.look(path, "b.xlsx", set())
    assert "options" not in config(answer)
    assert columns(answer) == {"id": {"type": "int"}, "code": {"type": "string"}, "at": {"type": "date_time"}}


@pytest.mark.parametrize(
    ("text", "where", "names"),
    [
        ("<o><r id='1'><a>x</a></r><r id='2'><a>y</a></r></o>", "/o/r", {"@id": "int", "a": "string"}),
        (
            "<o><h><at>2026-01-02</at></h><l><r><a>1</a><i><b>2</b></i></r><r><a>2</a><i><b>3</b></i></r></l></o>",
            "/o/l/r",
            {"a": "int", "i.b": "int"},
        ),
        (
            "<o><r><a>1</a><p><q>1</q><s>2</s></p><p><q>3</q><s>4</s></p></r><r><a>2</a><p><q>3</q><s>1</s></p></r></o>",
            "/o/r",
            None,
        ),
    ],
)
def test_records_of_xml_are_found(text: str, where: str, names: dict[str, str] | None, tmp_path: Path) -> None:
    answer = look(tmp_path, text, "o.xml")
    assert config(answer)["options"] == {"record_path": where}
    if names is not None:
        assert {name: column["type"] for name, column in columns(answer).items()} == names
    assert answer.read is not None
    assert (answer.read.records, answer.read.bad) == (2, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [("<a><b", "it is no XML"), ("<a/>", "no element has anything in it"),
     ("<!DOCTYPE a [<!ENTITY e 'x'>]><a><b c='1'/><b c='2'/></a>", "declares entities")],
)  # fmt: skip
def test_xml_without_records_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(NotGuessed, match=said):
        look(tmp_path, text, "o.xml")


def test_files_of_one_kind_are_one_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jan.csv").write_text("id;day;amount\n1;02.01.2026;1,5\n2;03.01.2026;2,5\n13;23.01.2026;3,5\n")
    (tmp_path / "feb.csv").write_text("id;day;amount\n4;02.02.2026;1\n5;13.02.2026;2\n6;14.02.2026;3\n")
    (tmp_path / "other.csv").write_text("id,name\n1,x\n2,y\n")
    assert clinker.main(["guess", "jan.csv", "feb.csv", "other.csv"]) == 0
    printed = capsys.readouterr().out
    first, second = yaml.safe_load(printed)
    assert first["config"]["paths"] == ["jan.csv", "feb.csv"]
    assert {column["name"]: column["type"] for column in first["config"]["schema"]} == {
        "id": "int", "day": "date", "amount": "float",
    }  # fmt: skip
    assert second["config"]["path"] == "other.csv"
    assert printed.startswith("# jan.csv: read whole, 3 records, utf-8\n# feb.csv: read whole")


def test_files_that_are_written_in_other_ways_stay_sources_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,day\n1,02/01/2026\n2,23/01/2026\n3,24/01/2026\n")
    (tmp_path / "b.csv").write_text("id,day\n1,01/02/2026\n2,01/23/2026\n3,01/24/2026\n")
    assert clinker.main(["guess", "a.csv", "b.csv"]) == 0
    assert [node["config"]["path"] for node in yaml.safe_load(capsys.readouterr().out)] == ["a.csv", "b.csv"]
