"""`clinker diff-data`: what differs between two files, folders or versions of a pipeline."""

from __future__ import annotations

import json
import textwrap
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import strategies as st

from spark_jobs.cli import clinker, diff_data, observation

if TYPE_CHECKING:
    from pathlib import Path

OLD = "id,name,amount\n1,ann,1.50\n2,bob,2.00\n3,cy,4\n"
NEW = "id,name,amount,extra\n1,ann,1.5,x\n2,bobby,2.50,y\n4,dee,5,z\n"
PIPELINE = """
pipeline: {{name: p}}
nodes:
  - {{type: source, name: s, config: {{type: csv, path: in.csv, schema: {{id: int, n: int}}}}}}
  - {{type: transform, name: t, input: s, config: {{cxl: "emit n = n * {factor}"}}}}
  - {{type: output, name: {output}, input: t, config: {{type: csv, path: out.csv}}}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.csv").write_text(OLD)
    (tmp_path / "new.csv").write_text(NEW)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert clinker.main(["diff-data", *arguments]) == code
    found = capsys.readouterr()
    assert found.err == ""
    return found.out


def test_records_are_matched_by_a_column_that_looks_like_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, "old.csv", "new.csv") == textwrap.dedent("""\
        new.csv: 3 records before, 3 records after, matched by id (see --key)
          + column extra
          1 equal, 1 changed, 1 only before, 1 only after
          name: changed in 1 record
            id=2: "bob" -> "bobby"
          amount: changed in 1 record
            id=2: 2.0 -> 2.5
          only before:
            id=3
          only after:
            id=4
        """)


def test_a_difference_is_an_exit_code_where_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "old.csv", "new.csv", "--exit-code", code=1)
    same = told(capsys, "old.csv", "old.csv", "--exit-code")
    assert same.splitlines()[-1] == "  no record differs"
    told(capsys, "old.csv", "new.csv", "--exit-code", "--ignore", "name,amount,extra", "--key", "id", code=1)


def test_key_ignored_columns_and_tolerance(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("old.csv", "new.csv", "--key", "id", "--ignore", "name,extra", "--tolerance", "0.5", "-n", "0")
    assert told(capsys, *arguments).splitlines() == [
        "new.csv: 3 records before, 3 records after, matched by id",
        "  2 equal, 0 changed, 1 only before, 1 only after",
        "  only before:",
        "  only after:",
    ]


def test_without_a_key_whole_records_are_compared(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.csv").write_text("a,b\n1,x\n1,x\n2,y\n2,z\n")
    (here / "b.csv").write_text("a,b\n2,y\n1,x\n2,w\n2,w\n")
    assert told(capsys, "a.csv", "b.csv").splitlines() == [
        "b.csv: 4 records before, 4 records after, compared whole, for no column has a value of its own in each record "
        "(see --key)",
        "  2 equal, 0 changed, 2 only before, 2 only after",
        "  only before:",
        '    a=1, b="x"',
        '    a=2, b="z"',
        "  only after:",
        '    a=2, b="w"',
        '    a=2, b="w"',
    ]


def test_records_with_one_key_are_compared_in_their_order(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.csv").write_text("k,v\na,1\na,2\nb,3\n")
    (here / "b.csv").write_text("k,v\na,1\na,5\nb,3\nb,4\n")
    lines = told(capsys, "a.csv", "b.csv", "--key", "k").splitlines()
    assert lines[1:4] == [
        "  2 keys have several records on a side; they are compared in their order",
        "  2 equal, 1 changed, 0 only before, 1 only after",
        "  v: changed in 1 record",
    ]


def test_folders_are_compared_file_by_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, text in (("a", OLD), ("b", OLD.replace("cy", "cyd"))):
        (here / side / "sub").mkdir(parents=True)
        (here / side / "same.csv").write_text(OLD)
        (here / side / "sub" / "other.csv").write_text(text)
        (here / side / ".hidden").write_text(side)
    (here / "a" / "gone.csv").write_text(OLD)
    found = json.loads(told(capsys, "a", "b", "--format", "json"))
    assert (found["only_old"], found["only_new"], found["differs"]) == (["gone.csv"], [], True)
    assert {one["name"]: (one["equal"], one["changed"]) for one in found["comparisons"]} == {
        "same.csv": (3, 0),
        "sub/other.csv": (2, 1),
    }


def test_pipelines_are_compared_by_the_records_of_their_outputs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in.csv").write_text("id,n\n1,0\n2,7\n3,x\n")
    (here / "a.yaml").write_text(PIPELINE.format(factor=1, output="out"))
    (here / "b.yaml").write_text(PIPELINE.format(factor=2, output="out"))
    before = sorted(here.iterdir())
    lines = told(capsys, "a.yaml", "b.yaml").splitlines()
    assert lines[:4] == [
        "out: 2 records before, 2 records after, matched by id (see --key)",
        "  1 equal, 1 changed, 0 only before, 0 only after",
        "  n: changed in 1 record",
        "    id=2: 7 -> 14",
    ]
    assert "new: 1 record is a dead letter" in lines
    assert sorted(here.iterdir()) == before
    (here / "b.yaml").write_text(PIPELINE.format(factor=1, output="other"))
    assert told(capsys, "a.yaml", "b.yaml").splitlines()[:2] == [
        "out: only on the old side",
        "other: only on the new side",
    ]
    assert told(capsys, "a.yaml", "b.yaml", "--node", "t").splitlines()[1] == "  no record differs"


def test_records_that_do_not_fit_the_guess_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{number},{number}\n" for number in range(300))
    (here / "a.csv").write_text(f"id,n\n{rows}")
    (here / "b.csv").write_text(f"id,n\n{rows}300,1,9\n")
    lines = told(capsys, "a.csv", "b.csv")
    assert "b.csv: 1 record is a dead letter" in lines or "301 records after" in lines


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["old.csv", "none.csv"], 4, "none.csv: no such file or folder"),
        (["old.csv", "."], 1, "old.csv is a file and . is a folder: compare two of one kind"),
        (["old.csv", "new.csv", "--node", "x"], 1, "old.csv is no pipeline, so it has no node 'x'"),
        (
            ["old.csv", "new.csv", "--key", "nmae"],
            1,
            "new.csv: there is no column 'nmae' on the old and the new side; did you mean `name`?",
        ),
        (["old.csv", "new.csv", "--key", "extra"], 1, "new.csv: there is no column 'extra' on the old side"),
    ],
)
def test_what_cannot_be_compared_is_told(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clinker.main(["diff-data", *arguments]) == code
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", f"clinker diff-data error: {message}\n")


@pytest.mark.parametrize("wrong", [["--key", "a,,b"], ["--tolerance", "-1"], ["--tolerance", "nan"]])
def test_wrong_arguments_are_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["diff-data", "old.csv", "new.csv", *wrong]) == 1
    assert "expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "tolerance", "expected"),
    [
        (1, 1.0, 0, True),
        (True, 1, 0, False),
        ("1.50", 1.5, 0, True),
        (1.5, "1.5x", 0, False),
        (None, "", 0, False),
        (None, None, 0, True),
        (1.0, 1.1, 0.2, True),
        (1.0, 1.3, 0.2, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 0, True),
        ([1, 2], [2, 1], 0, False),
        (2**53 + 1, float(2**53), 0, False),
        (Decimal(2**53 + 1), float(2**53), 0, False),
        (Decimal("0.10"), 0.1, 0, True),
        (Decimal("0.10000000000000001"), 0.1, 0, False),
        (Decimal("1.50"), Decimal("1.5"), 0, True),
        (Decimal("1.00"), 1, 0, True),
        (2**53 + 1, str(2**53 + 1), 0, True),
        (2**53 + 1, str(2**53), 0, False),
        (0.1, "0.10000000000000001", 0, False),
        (1e300, "1e300", 0, True),
        (Decimal("1.5"), "1.50", 0, True),
        ([Decimal("1.50")], [Decimal("1.51")], 0, False),
    ],
)
def test_values_are_the_same(old: Any, new: Any, tolerance: float, expected: bool) -> None:
    assert diff_data.same(old, new, tolerance) is expected
    assert diff_data.same(new, old, tolerance) is expected


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_last_digits_of_long_numbers_count(here: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {1: "12345678901234567890.123456788", 2: "9007199254740993", 3: "0.10", 4: "7"}
    after = {**before, 1: "12345678901234567890.123456789", 2: "9007199254740992", 3: "0.1"}
    for name, rows in (("a", before), ("b", after)):
        lines = [f"{key},{value}" if form == "csv" else f'{{"k":{key},"v":{value}}}' for key, value in rows.items()]
        (here / f"{name}.{form}").write_text("\n".join([*(["k,v"] if form == "csv" else []), *lines]) + "\n")
    found = told(capsys, f"a.{form}", f"b.{form}")
    assert "  2 equal, 2 changed" in found
    assert "k=1: 12345678901234567890.123456788 -> 12345678901234567890.123456789\n" in found
    assert "k=2: 9007199254740993.000000000 -> 9007199254740992.000000000\n" in found


def test_a_float_and_a_decimal_of_the_same_digits_are_one_key() -> None:
    old = observation.Node("n", ['{"k":0.1}', '{"k":2.0}'], {"k": "Float"})
    new = observation.Node("n", ['{"k":0.10}', '{"k":2.00}'], {"k": "Decimal(12,2)"})
    assert diff_data.compared(old, new, diff_data.Rules(("k",)), 2).equal == 2


_ROWS = st.lists(st.fixed_dictionaries({"k": st.integers(0, 3), "v": st.sampled_from(["x", "y", None])}), max_size=8)


@hypothesis.given(_ROWS, _ROWS, st.sampled_from([(), ("k",), ("k", "v")]))
def test_each_record_is_counted_once(old: list[Any], new: list[Any], key: tuple[str, ...]) -> None:
    nodes = [
        observation.Node("n", [json.dumps(row) for row in rows], {"k": "Int", "v": "String"}) for rows in (old, new)
    ]
    found = diff_data.compared(*nodes, diff_data.Rules(key), 2)
    assert found.equal + found.changed + found.only_old == found.old_records == len(old)
    assert found.equal + found.changed + found.only_new == found.new_records == len(new)
    assert found.differs is (found.equal != len(old) or found.equal != len(new))
    same = diff_data.compared(nodes[0], nodes[0], diff_data.Rules(key), 2)
    assert not same.differs
