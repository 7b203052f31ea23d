"""`clinker profile`: what the columns of files and nodes have in them."""

from __future__ import annotations

import json
import textwrap
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker, observation, profile

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, schema: {id: int, n: {type: int, null_values: [x]}, who: string}}
  - {type: transform, name: t, input: s, config: {cxl: "emit big = n > 2"}}
  - {type: output, name: out, input: t, config: {type: csv, path: out.csv}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "in.csv").write_text("id,n,who\n1,2,ann\n2,x,\n3,4,<b>\n4,2,ann\n", encoding="utf-8")
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert clinker.main(["profile", *arguments]) == 0
    return capsys.readouterr().out


def test_the_columns_of_a_node_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "p.yaml", "t") == textwrap.dedent("""\
        t: 4 records
        column  type    nulls    empty    distinct  from  to   mean     length  top
        ------  ------  -------  -------  --------  ----  ---  -------  ------  --------
        id      Int     0        0        4, a key  1     4    2.5
        n       Int     1 (25%)  0        2         2     4    2.66667          2 ×2
        who     String  0        1 (25%)  3         ""    ann           0 to 3  ann ×2
        big     Bool    1 (25%)  0        2                                     false ×2
        """)


def test_a_file_is_read_as_it_is_guessed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "sales.csv").write_text("day;eur\n05.03.2026;1.234,50\n06.03.2026;2,00\n07.03.2026;2,00\n")
    before = sorted(here.iterdir())
    found = json.loads(shown(capsys, "sales.csv", "--format", "json"))
    (only,) = found["profiles"]
    assert (only["node"], only["records"]) == ("sales", 3)
    day, eur = only["columns"]
    assert (day["type"], day["least"], day["most"], day["distinct"]) == ("Date", "2026-03-05", "2026-03-07", 3)
    assert (eur["type"], eur["least"], eur["most"], eur["mean"]) == ("Float", 2.0, 1234.5, 1238.5 / 3)
    assert eur["top"][0] == {"value": 2.0, "count": 2}
    assert sorted(here.iterdir()) == before


def test_a_page_has_all_figures_and_no_text_of_the_data_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, "p.yaml", "s", "--format", "html")
    cells: list[str] = []
    tags: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags.add(tag)
            assert not any(name in ("src", "href") for name, _ in attrs)

        def handle_data(self, data: str) -> None:
            cells.append(data)

    Reader(convert_charrefs=True).feed(page)
    assert "b" not in tags
    assert {"who", "ann ×2", "1 (25%)", "75%"} <= set(cells)
    assert any("from 4 of s" in cell for cell in cells)


def column(*values: Any) -> profile.Column:
    node = observation.Node("n", [json.dumps({"c": value}) for value in values], {})
    (found,) = profile.of(node).columns
    return found


def test_true_is_not_one_and_containers_count() -> None:
    found = column(1, True, [1], [1], {"b": 1, "a": 2}, {"a": 2, "b": 1}, None)
    assert (found.count, found.nulls, found.distinct) == (6, 1, 4)
    assert (found.least, found.most, found.mean) == (None, None, None)
    assert found.top[0] == profile.Top([1], 2)


@pytest.mark.parametrize("kind", ["Decimal(29,9)", "Decimal", "Any"])
def test_decimals_keep_their_digits(kind: str) -> None:
    texts = ["12345678901234567890.123456788", "12345678901234567890.123456789", "-0.5"]
    node = observation.Node("n", [f'{{"c": {text}}}' for text in texts], {"c": kind})
    (found,) = profile.of(node).columns
    assert (found.distinct, str(found.most), str(found.least)) == (3, texts[1], texts[2])
    assert found.mean == 8230452600823045260.0
    text, page, document = (profile._FORMS[form]([profile.of(node)], []) for form in ("text", "html", "json"))
    assert texts[1] in text
    assert texts[1] in page
    assert json.loads(document)["profiles"][0]["columns"][0]["most"] == texts[1]


def test_nothing_has_no_range() -> None:
    assert column(None, None) == profile.Column("c", "", 0, 2, 0, 0)
    assert profile.of(observation.Node("n", [], {"c": "Int"})).columns == [profile.Column("c", "Int", 0, 0, 0, 0)]


def test_a_value_for_each_record_is_a_key() -> None:
    assert column("a", "b").is_key
    assert not column("a", "a").is_key
    assert not column("a", None).is_key
    assert not column("a").is_key


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["p.yaml", "x"], 1, "the pipeline has no node 'x'"),
        (["in.csv", "x"], 1, "in.csv is no pipeline, so it has no node 'x'"),
        (["missing.csv"], 4, "missing.csv"),
        (["empty.csv"], 4, "empty.csv: it is empty"),
    ],
)
def test_what_cannot_be_profiled_is_told(
    here: Path, arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "empty.csv").touch()
    assert clinker.main(["profile", *arguments]) == code
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("clinker profile error: ")
    assert says in found.err
