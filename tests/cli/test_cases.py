"""`clinker test`: cases of pipelines, without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml

from spark_jobs.cli import clinker
from spark_jobs.cli.cases import command, model, reading, running
from spark_jobs.cli.cases.json_text import json_text
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.plan import planner
from spark_jobs.plan.physical import fragments
from spark_jobs.plan.reading import scalars

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent.parent
Captured = pytest.CaptureFixture[str]

_PIPELINE = """
pipeline:
  name: p
  vars: {limit: 10}
nodes:
  - type: source
    name: s
    config: {type: csv, path: "${IN:-in.csv}", schema: {id: int, n: int, day: {type: date, format: "%d.%m.%Y"}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit twice = n * 2"}}
  - {type: route, name: r, input: t, config: {conditions: {big: "twice > $vars.limit"}, default: small}}
  - {type: output, name: big, input: r.big, config: {type: csv, path: big.csv, exclude: [day]}}
  - {type: output, name: small, input: r.small, config: {type: json, path: small.json, mapping: {number: n}}}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(_PIPELINE)
    return tmp_path


def _cases(folder: Path, text: str) -> Path:
    path = folder / "p.test.yaml"
    path.write_text("pipeline: p.yaml\ncases:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "  ") + "\n")
    return path


def _test(*arguments: str) -> int:
    return clinker.main(["test", *arguments])


_GOOD = """
- name: good
  given:
    s:
      - {id: 1, n: 6, day: "02.01.2026"}
      - {id: 2, n: 5}
      - {id: 3, n: six}
  expect:
    big:
      - {id: 1, n: 6, twice: 12}
    small:
      - {id: 2, number: 5, twice: 10}
    r.small:
      partial: true
      rows: [{id: 2}]
    t:
      ordered: false
      rows:
        - {id: 2, n: 5, twice: 10}
        - {id: 1, n: 6, day: "2026-01-02", twice: 12}
  dead_letters:
    - {row: 3, field: n, value: six, detail: cannot convert 'six' to Int, id: 3}
"""


def test_a_case_that_holds(folder: Path, capsys: Captured) -> None:
    _cases(folder, _GOOD)
    assert _test() == 0
    assert "1 case: 1 passed, 0 failed" in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == ["p.test.yaml", "p.yaml"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("twice: 12}\n    small", "twice: 13}\n    small", ["11:11: 'big'", "- twice: 13", "+ twice: 12", '"id": 1']),
        ("- {id: 2, number: 5, twice: 10}", "- {id: 2, number: 5}", ["13:11: 'small'", "- twice: null", "+ twice: 10"]),
        ("rows: [{id: 2}]", "rows: []", ["14:7: 'r.small': 0 rows expected, 1 came", "row 1: is not expected"]),
        ("- {id: 2, n: 5, twice: 10}", "- {id: 9}", ["20:13: 't'", "- id: 9"]),
        ("value: six", "value: seven", ["23:9: 1 dead letter expected", "- value: seven", "+ value: six"]),
        ("n: six}", "n: 6}", ["dead letter 1 is missing"]),
        ("r.small:", "nothing:", ["14:7: the pipeline has no node 'nothing'"]),
        ("    s:\n", "    sauce:\n", ["5:7: the pipeline has no source 'sauce'"]),
    ],
)
def test_a_difference_is_told_with_its_line(
    before: str, after: str, said: list[str], folder: Path, capsys: Captured
) -> None:
    assert before in _GOOD
    _cases(folder, _GOOD.replace(before, after, 1))
    assert _test() == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL p.test.yaml:3:11 good\n")
    for text in said:
        assert text in out


def test_unexpected_dead_letters_fail_a_case(folder: Path, capsys: Captured) -> None:
    _cases(folder, "- {name: c, given: {s: [{id: 1, n: x}]}, expect: {t: []}}")
    assert _test() == 1
    assert "0 dead letters expected, 1 came" in capsys.readouterr().out


def test_variables_environment_files_and_texts(folder: Path) -> None:
    (folder / "other.csv").write_text("id,n,day\n1,1,02.01.2026\n")
    _cases(
        folder,
        """
        - name: a variable
          vars: {limit: 1}
          given: {s: {file: other.csv}}
          expect:
            big: [{id: 1, n: 1, twice: 2}]
        - name: a text
          given:
            s:
              text: |
                id,n,day
                1,1,
          expect:
            small: [{id: 1, number: 1, twice: 2}]
        - name: an environment variable
          environment: {IN: "../up.csv"}
          diagnostics: [E-SEC-001]
        """,
    )
    assert _test() == 0


def test_errors_of_planning_and_of_the_run(folder: Path, capsys: Captured) -> None:
    (folder / "p.yaml").write_text(
        _PIPELINE.replace("n * 2", "m * 2").replace("strategy: continue", "strategy: fail_fast")
    )
    _cases(folder, "- {name: c, given: {}}")
    assert _test() == 1
    assert "the pipeline has errors" in (out := capsys.readouterr().out)
    assert "E200" in out
    _cases(folder, "- {name: c, given: {}, diagnostics: [E200]}")
    assert _test() == 0
    (folder / "p.yaml").write_text(_PIPELINE.replace("strategy: continue", "strategy: fail_fast"))
    _cases(folder, "- {name: c, given: {s: [{id: x}]}, error: cannot convert 'x' to Int}")
    assert _test() == 0
    _cases(folder, "- {name: c, given: {s: [{id: x}]}, error: nothing of that}")
    assert _test() == 1
    _cases(folder, "- {name: c, given: {s: [{id: 1}]}, error: something}")
    assert _test() == 1
    assert "is expected to end with an error" in capsys.readouterr().out


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a pipeline is planned, and its jobs."""
    counts: Counter[str] = Counter()

    def counting(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            counts[what] += 1
            return work(*args)

        return counted

    monkeypatch.setattr(planner, "plan_document", counting("plans", planner.plan_document))
    monkeypatch.setattr(fragments._Builder, "build", counting("jobs", fragments._Builder.build))
    return counts


def _ran(folder: Path, text: str) -> list[command.Result]:
    return [command.run(case) for case in reading.read(_cases(folder, text), Diagnostics())]


def test_cases_of_a_pipeline_share_its_plan_and_the_plan_of_its_jobs(folder: Path, planning: Counter[str]) -> None:
    one = "- name: number {n}\n  given: {{s: [{{id: {n}, n: 1}}, {{id: {n}, n: x}}]}}\n"
    one += "  expect: {{small: [{{id: {n}, number: 1, twice: 2}}]}}\n  dead_letters: [{{id: {n}}}]\n"
    results = _ran(folder, "".join(one.format(n=number) for number in range(8)))
    assert [result.differences for result in results] == [[]] * 8
    assert planning == {"plans": 1, "jobs": 1}
    other = '- name: a text\n  given: {s: {text: "id,n,day\\n1,1,\\n"}}\n'
    other += "  expect: {small: [{id: 1, number: 1, twice: 2}]}\n"
    assert [result.differences for result in _ran(folder, other * 2)] == [[], []]
    assert planning == {"plans": 1, "jobs": 2}
    variable = "- {name: v, vars: {limit: 1}, given: {s: [{id: 1, n: 1}]}, expect: {small: []}}\n"
    assert [result.differences for result in _ran(folder, variable * 2)] == [[], []]
    assert planning == {"plans": 2, "jobs": 3}


def test_cases_that_share_a_plan_have_nothing_of_one_another(folder: Path) -> None:
    results = _ran(
        folder,
        """
        - name: records and dead letters
          given: {s: [{id: 1, n: 6}, {id: 2, n: x}]}
          expect: {big: [{id: 1, n: 6, twice: 12}]}
          dead_letters: [{id: 2}]
        - name: nothing
          given: {}
          expect: {big: [], small: []}
        - name: others
          given: {s: [{id: 3, n: 7}]}
          expect: {big: [{id: 3, n: 7, twice: 14}]}
        """,
    )
    assert [result.differences for result in results] == [[], [], []]


def test_a_folder_that_somebody_else_has_made_is_not_used(folder: Path) -> None:
    good = "- {name: c, given: {s: [{id: 1, n: 6}]}, expect: {big: [{id: 1, n: 6, twice: 12}]}}\n"
    assert _ran(folder, good)[0].differences == []
    known = running._FOLDERS[os.getpid()]
    known.mkdir()
    (known / "theirs").touch()
    try:
        assert _ran(folder, good)[0].differences == []
        assert running._FOLDERS[os.getpid()] != known
        assert [path.name for path in known.iterdir()] == ["theirs"]
    finally:
        shutil.rmtree(known)


_UPDATED = """\
pipeline: p.yaml
cases:
  - name: wrong  # a comment
    given: {s: [{id: 1, n: 6}, {id: 2, n: x}]}
    expect:
      big:
        - {id: 1, n: 6, twice: 12}
      # of the small ones
      small: []
      t:
        partial: true
        rows:
          - {id: 1, twice: 12}
    dead_letters:
      - {source: s, row: 2, field: n, category: type_coercion_failure}

  - name: right
    given: {s: [{id: 1, n: 6}]}
    expect:
      big: [{id: 1,   n: 6, twice: 12}]
"""


def test_update_writes_what_came(folder: Path, capsys: Captured) -> None:
    path = _cases(
        folder,
        """
        - name: wrong  # a comment
          given: {s: [{id: 1, n: 6}, {id: 2, n: x}]}
          expect:
            big:
              - {id: 7}
              - {id: 8}
            # of the small ones
            small: [{id: 1}]
            t:
              partial: true
              rows:
                - {id: 5, twice: 1}

        - name: right
          given: {s: [{id: 1, n: 6}]}
          expect:
            big: [{id: 1,   n: 6, twice: 12}]
        """,
    )
    assert _test("--update") == 0
    assert "2 passed" in capsys.readouterr().out
    assert path.read_text() == _UPDATED
    assert _test() == 0


def test_update_keeps_braces_and_leaves_alone_what_aliases_name(folder: Path, capsys: Captured) -> None:
    path = _cases(
        folder,
        """
        - name: in braces
          given: {s: [{id: 1, n: 6}, {id: 2, n: x}]}
          expect: {big: [{id: 7},
                         {id: 8}], small: {rows: [{id: 3}], ordered: false}}  # both
        - {name: all in braces, given: {s: [{id: 1, n: 6}, {id: 2, n: x}]},
           expect: {big: []},
          }
        - name: an alias
          given:
            s: &rows
              - {id: 1, n: 6}
          expect:
            big: *rows
        """,
    )
    assert _test("--update") == 0
    assert "3 passed" in capsys.readouterr().out
    text = path.read_text()
    assert "expect: {big: [{id: 1, n: 6, twice: 12}], small: {rows: [], ordered: false}}  # both\n" in text
    assert "expect: {big: [{id: 1, n: 6, twice: 12}]}, dead_letters: [{source: s, row: 2, " in text
    assert "s: &rows\n" in text
    assert "big: [{id: 1, n: 6, twice: 12}]\n" in text
    assert _test() == 0


def test_update_leaves_a_file_as_it_is_whose_anchors_are_in_the_way(folder: Path, capsys: Captured) -> None:
    path = _cases(
        folder,
        """
        - name: an anchor
          given: {s: [{id: 1, n: 6}]}
          expect:
            big: &rows [{id: 1}]
        - name: its alias
          given: {s: *rows}
          error: E350
        """,
    )
    before = path.read_text()
    assert _test("--update") == 1
    captured = capsys.readouterr()
    assert "is left as it is" in captured.err
    assert "2 failed" in captured.out
    assert path.read_text() == before


def test_a_case_is_recorded_from_the_first_records(folder: Path, capsys: Captured) -> None:
    (folder / "in.csv").write_text("id,n,day\n" + "".join(f"{i},{i},0{i}.01.2026\n" for i in range(1, 10)))
    assert _test("--record", "the beginning", "--rows", "2", "p.yaml") == 0
    (case,) = reading.read(folder / "tests/p.test.yaml", Diagnostics())
    assert case.config.given["s"].rows == [
        {"id": 1, "n": 1, "day": "2026-01-01"},
        {"id": 2, "n": 2, "day": "2026-01-02"},
    ]
    assert case.config.expect["small"].rows == [
        {"id": 1, "number": 1, "day": "2026-01-01", "twice": 2},
        {"id": 2, "number": 2, "day": "2026-01-02", "twice": 4},
    ]
    assert _test() == 0
    assert _test("--record", "another: one", "p.yaml") == 0
    assert [case.name for case in reading.read(folder / "tests/p.test.yaml", Diagnostics())] == [
        "the beginning", "another: one"
    ]  # fmt: skip
    assert _test() == 0


_EXACT = """
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      type: json
      path: in.ndjson
      options: {format: ndjson}
      schema: {id: int, price: "decimal(38,9)", free: any, tree: map, list: array, text: string}
  - {type: transform, name: t, input: s, config: {cxl: "emit twice = price * 2\\nemit kind = free.type_of()"}}
  - {type: output, name: o, input: t, config: {type: json, path: out.json, include_unmapped: true}}
"""


def test_a_recorded_case_keeps_all_digits_and_characters(folder: Path) -> None:
    """The records of the case are those of the source, and what comes is expected from these, digit by digit."""
    (folder / "p.yaml").write_text(_EXACT)
    number = "12345678901234567890.123456789"
    texts = [
        "$$x",
        "$x ${HOME}",
        "@a",
        "- a",
        "null",
        "0x10",
        " lead",
        "a\x85b\u2028\x7f\x80\ufeff",
        "\a\t\n",
        "é😀",
        "",
    ]
    lines = [
        f'{{"id": 9007199254740993, "price": {number}, "free": {number}, "tree": {{"x": {number}, "a.b": 1.50}}, '
        f'"list": [1e400, 123456789012345678901, {number}], "text": "{number}", "other": {number}, "big": 1e22}}',
        '{"id": 2, "price": 1.100000000, "free": 1.0, "a$ (b": 1, "a.b": 3, "other": 0.1}',
        *(json.dumps({"id": 3, "text": text, "other": text}) for text in texts),
    ]
    (folder / "in.ndjson").write_text("\n".join(lines))
    assert _test("--record", "exact", "--rows", "50", "p.yaml") == 0
    (case,) = reading.read(folder / "tests/p.test.yaml", Diagnostics())
    rows = case.config.given["s"].rows or []
    assert [(row["text"], row["other"]) for row in rows[2:]] == [(text, text) for text in texts]
    wanted = [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines[:2]]
    wanted[0]["list"][0] = "1e400"
    wanted[0]["list"][1] = Decimal(123456789012345678901)
    given = [json.loads(json_text(row), parse_float=Decimal, parse_int=Decimal) for row in rows[:2]]
    assert given == wanted
    assert [str(row["price"].text) for row in rows[:2]] == [number, "1.100000000"]
    ran = command.run(case).ran
    assert ran is not None
    (first, second, *_) = ran.rows["o"]
    assert (first["twice"], first["kind"]) == (Decimal("24691357802469135780.246913578"), "Decimal")
    assert (second["twice"], second["kind"]) == (Decimal("2.2"), "Float")
    assert _test() == 0


def test_a_digit_that_differs_fails_a_case_of_decimals(folder: Path, capsys: Captured) -> None:
    (folder / "p.yaml").write_text(_EXACT)
    given = "given: {s: [{id: 1, price: 12345678901234567890.12}]}"
    for written, expected_code in (("24691357802469135780.24", 0), ("24691357802469135780.25", 1)):
        expected = f"expect: {{o: {{partial: true, rows: [{{twice: {written}}}]}}}}"
        _cases(folder, f"- name: digits\n  {given}\n  {expected}\n")
        assert _test() == expected_code
    assert "24691357802469135780.24" in capsys.readouterr().out


def test_dotted_names_and_objects_of_one_record_are_both_given(folder: Path) -> None:
    (folder / "p.yaml").write_text(_EXACT)
    _cases(
        folder,
        """
        - name: both
          given: {s: [{id: 1, tree: {x: 1}, tree.y: 2, deep.a: 3, deep.b: 4, deep: 5}]}
          expect: {o: [{id: 1, tree: {x: 1}, tree.y: 2, deep.a: 3, deep.b: 4, deep: 5, kind: "Null"}]}
        """,
    )
    assert _test() == 0


@pytest.mark.parametrize(
    ("written", "text"), [("12.50", "12.50"), ("+1.5", "1.5"), (".5", "0.5"), ("5.", "5.0"), ("007.5", "7.5"),
                          ("-0.0", "-0.0"), ("1e400", "1e400"), ("5.e3", "5e3"), (".inf", "Infinity")]
)  # fmt: skip
def test_numbers_of_cases_are_json_with_their_digits(written: str, text: str) -> None:
    assert json_text([scalars.resolve(written)]) == f"[{text}]"


def test_a_case_is_recorded_from_dead_letters(folder: Path) -> None:
    (folder / "in.csv").write_text("id,n,day\n1,1,\n2,two,\n")
    (folder / "dead.csv").write_text(
        "_cxl_dlq_id,_cxl_dlq_source_file,_cxl_dlq_source_name,_cxl_dlq_source_row,_cxl_dlq_triggering_field,id,n,day\n"
        "x,in.csv,s,2,n,2,two,03.01.2026\n"
    )
    assert _test("--record", "last night", "--dead-letters", "dead.csv", "p.yaml") == 0
    (case,) = reading.read(folder / "tests/p.test.yaml", Diagnostics())
    assert case.config.given["s"].rows == [{"id": 2, "n": "two", "day": "2026-01-03"}]
    assert case.config.dead_letters == [{"source": "s", "row": 1, "field": "n", "category": "type_coercion_failure"}]
    assert _test() == 0


def test_coverage_shows_what_no_case_reaches(folder: Path, capsys: Captured) -> None:
    _cases(folder, "- {name: c, given: {s: [{id: 1, n: 1}]}}")
    assert _test("--coverage") == 0
    out = capsys.readouterr().out
    assert "p.yaml: 5 of 7 nodes and branches reached\n  no case reaches big\n  no case reaches r.big\n" in out


def test_junit_has_failures_with_their_places(folder: Path) -> None:
    _cases(folder, _GOOD + '- {name: "bad <one>", given: {s: [{id: 1, n: 1}]}, expect: {t: []}}\n')
    assert _test("--junit", "out.xml") == 1
    suite = ElementTree.parse(folder / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(case) for case in suite] == [0, 1]
    assert suite[1].get("name") == "bad <one>"
    assert "p.test.yaml:24:" in str(suite[1][0].get("message"))


def test_only_cases_with_a_text_in_their_names(folder: Path, capsys: Captured) -> None:
    _cases(folder, "- {name: Large ones}\n- {name: small ones}")
    assert _test("-k", "large") == 0
    assert "1 case: 1 passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pipeline: p.yaml\ncases:\n  - {name: c, expekt: {}}\n", "did you mean `expect`?"),
        ("pipeline: q.yaml\ncases:\n  - {name: c}\n", "cannot read `q.yaml`: no such file"),
        ("pipeline: p.yaml\ncases: []\n", "cases"),
        ("- a\n", "a file of cases is a mapping"),
        (_PIPELINE, "this is a pipeline and not a file of cases"),
    ],
)
def test_a_wrong_file_of_cases_is_told_with_its_place(text: str, said: str, folder: Path, capsys: Captured) -> None:
    (folder / "x.test.yaml").write_text(text)
    assert _test() == 1
    assert said in (err := capsys.readouterr().err)
    assert "x.test.yaml:" in err


def test_no_cases_are_an_error_that_says_how_to_make_one(folder: Path, capsys: Captured) -> None:
    assert _test() == 1
    assert "clinker test --record NAME PIPELINE" in capsys.readouterr().err
    assert _test("nowhere") == 1
    assert "nowhere: no such file" in capsys.readouterr().err


def test_many_cases_are_shared_by_processes(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(command.cores, "available", lambda: 2)
    case = "- {name: c%d, given: {s: [{id: %d, n: 1}]}, expect: {t: {partial: true, rows: [{id: %d}]}}}"
    cases = "\n".join(case % (i, i, 8 if i == 7 else i) for i in range(40))
    _cases(folder, cases)
    began = time.perf_counter()
    assert _test() == 1
    assert time.perf_counter() - began < 60
    out = capsys.readouterr().out
    assert out.count("FAIL") == 1
    assert "FAIL p.test.yaml:10:12 c7" in out
    assert "40 cases: 39 passed, 1 failed" in out


def test_a_case_needs_no_spark(folder: Path) -> None:
    _cases(folder, _GOOD)
    statement = "import sys\nfrom spark_jobs.cli import clinker\nstatus = clinker.main(['test'])\n"
    statement += "assert 'pyspark' not in sys.modules\nsys.exit(status)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", statement], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_collects_the_same_files(folder: Path) -> None:
    _cases(folder, _GOOD + "- {name: bad, given: {s: [{id: 1, n: 1}]}, expect: {t: []}}\n")
    # The installed distribution brings the plugin.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "p.test.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "'t': 0 rows expected, 1 came" in done.stdout
    assert "running.py" not in done.stdout


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.test.yaml")), ids=lambda path: path.parent.parent.name)
def test_cases_of_examples_hold(path: Path) -> None:
    found = Diagnostics()
    results = [command.run(case) for case in reading.read(path, found)]
    assert results
    assert [line for result in results if result.differences for line in command.failure_lines(result)] == []
    assert not found.has_errors


def test_every_example_has_cases() -> None:
    folders = {path.parent for path in ROOT.glob("examples/*/pipeline.yaml")}
    assert folders
    assert {folder for folder in folders if not any((folder / "tests").glob("*.test.yaml"))} == set()


def test_init_makes_cases_that_hold(folder: Path) -> None:
    assert clinker.main(["init", "shop"]) == 0
    assert _test("shop") == 0


def test_the_schema_for_editors_takes_the_cases_of_examples(folder: Path, capsys: Captured) -> None:
    assert clinker.main(["schema", "--cases"]) == 0
    schema = json.loads(capsys.readouterr().out)
    for path in ROOT.glob("examples/**/*.test.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"pipeline": "p", "cases": [{"name": "c", "expekt": {}}]}, schema)


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs/testing.md").read_text()
    keys = {*model.Case.model_fields, *model.Given.model_fields, *model.Expected.model_fields}
    assert {key for key in keys if f"`{key}" not in page and f"{key}:" not in page} == set()


def test_a_plan_is_made_once_for_cases_that_differ_in_records(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    plan = running.planner.plan_document
    monkeypatch.setattr(running, "_PLANS", {})
    monkeypatch.setattr(running.planner, "plan_document", lambda *given: made.append(1) or plan(*given))
    _cases(folder, "- {name: a, given: {s: [{id: 1}]}}\n- {name: b}\n- {name: c, vars: {limit: 3}}")
    assert _test() == 0
    assert len(made) == 2


_COMPOSED = """
pipeline: {name: p, vars: {limit: 10}}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int}}}
  - {type: composition, name: c, input: s, use: times.comp.yaml}
  - {type: transform, name: t, input: c, config: {cxl: "emit factor = ${FACTOR:-1}\\nemit limit = $vars.limit"}}
  - {type: output, name: o, input: t, config: {type: json, path: o.json}}
"""


def _times(factor: int) -> str:
    return f"""
_compose: {{name: times, inputs: {{rows: {{schema: [{{name: id, type: int}}]}}}}, outputs: {{all: t}}}}
nodes:
  - {{type: transform, name: t, input: rows, config: {{cxl: "emit times = id * {factor}"}}}}
"""


def test_a_case_sees_what_its_pipeline_is_made_of_now(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment, files that the pipeline includes, the channel and the workspace may change between cases."""
    monkeypatch.setattr(running, "_PLANS", {})
    (folder / "p.yaml").write_text(_COMPOSED)
    (folder / "times.comp.yaml").write_text(_times(2))
    channel = folder / "eu.channel.yaml"
    channel.write_text("channel: {name: eu, target: ./p.yaml}\nvars: {static: {limit: 3}}\n")

    def records(**more: Any) -> list[dict[str, Any]]:
        config = model.Case.model_validate({"name": "a", "given": {"s": [{"id": 5}]}, **more})
        ran = running.run(running.Setup(folder / "p.yaml", folder, config))
        assert ran.error is None, ran.error
        assert not ran.diagnostics or ran.is_planned, ran.diagnostics
        return ran.rows["o"]

    assert records() == [{"id": 5, "times": 10, "factor": 1, "limit": 10}]
    (folder / "times.comp.yaml").write_text(_times(3))
    assert records()[0]["times"] == 15
    monkeypatch.setenv("FACTOR", "7")
    assert records()[0]["factor"] == 7
    monkeypatch.delenv("FACTOR")
    assert records()[0]["factor"] == 1
    assert records(environment={"FACTOR": "8"})[0]["factor"] == 8
    assert records(channel="eu.channel.yaml")[0]["limit"] == 3
    channel.write_text("channel: {name: eu, target: ./p.yaml}\nvars: {static: {limit: 4}}\n")
    assert records(channel="eu.channel.yaml")[0]["limit"] == 4
    assert records()[0]["limit"] == 10
    os.utime(folder / "p.yaml", ns=(1, 1))
    (folder / "p.yaml").write_text(_COMPOSED.replace("limit: 10", "limit: 11"))
    os.utime(folder / "p.yaml", ns=(1, 1))
    assert records()[0]["limit"] == 11
