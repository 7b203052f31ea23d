"""What is told of a pipeline while some values are unknown: nothing that a value can mend, and everything else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.plan import planner, unknowns
from spark_jobs.plan.options import PlanOptions
from spark_jobs.plan.reading import yaml_tree
from spark_jobs.plan.unknowns import Unknown
from tests.plan.pipelines import NAMED, options, write

if TYPE_CHECKING:
    from spark_jobs.diagnostics.diagnostic import Diagnostic

REPOSITORY = Path(__file__).resolve().parent.parent.parent
EXAMPLES = sorted(path for path in (REPOSITORY / "examples").rglob("pipeline*.yaml"))

SHOP = """
pipeline: { name: shop, memory: { limit: 512M } }
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: "${IN}/orders.csv"
      schema:
        - { name: id, type: int }
        - { name: amount, type: float }
        - { name: region, type: string }
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        filter region == "${REGION}"
        emit net = amount / 1.2
  - type: aggregate
    name: sums
    input: priced
    config:
      group_by: [region]
      cxl: emit total = sum(net)
  - { type: output, name: out, input: sums, config: { type: csv, path: "${OUT}/sums.csv" } }
error_handling: { strategy: continue, dlq: { path: "${OUT}/dead.csv" } }
"""


def told(folder: Path, text: str, unknown: Unknown, **others: object) -> list[str]:
    """The codes and what they are about."""
    found = unknowns.problems(write(folder, text), options(**others), unknown)  # type: ignore[arg-type]
    return [f"{item.code.id} {shown(item)}" for item in found]


def shown(item: Diagnostic) -> str:
    assert item.span is not None
    return item.span.file.text[item.span.start : item.span.end]


VARIABLES = Unknown(frozenset({"IN", "OUT", "REGION"}))


def test_a_pipeline_that_some_value_makes_right_is_right(tmp_path: Path) -> None:
    assert told(tmp_path, SHOP, VARIABLES) == []
    assert told(tmp_path, SHOP, Unknown(variables=None)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        ("group_by: [region]", "group_buy: [region]", ["E005 group_buy"]),
        ("amount / 1.2", "amuont / 1.2", ["E200 amuont"]),
        ("amount / 1.2", "amount / / 1.2", ["E200 /"]),
        ("sum(net)", "sum(nett)", ["E200 nett"]),
        ("input: sums", "input: summs", ["E004 summs"]),
        ("type: float", "type: flaot", ["E007 flaot"]),
        ('filter region == "${REGION}"', 'filter regoin == "${REGION}"', ["E200 regoin"]),
        ("${OUT}/dead.csv", "${OTU}/dead.csv", ['E014 "${OTU}/dead.csv"', "E009 ${OTU}"]),
        ("limit: 512M", "limit: much", ["E215 much"]),
        ("pipeline:", "pipelin:", None),
    ],
)
def test_what_no_value_mends_is_told(right: str, wrong: str, found: list[str] | None, tmp_path: Path) -> None:
    assert right in SHOP
    problems = told(tmp_path, SHOP.replace(right, wrong), VARIABLES)
    if found is None:
        assert problems
    else:
        assert problems == found


@pytest.mark.parametrize(
    ("right", "unknown"),
    [
        ("sum(net)", "${CALL}"),
        ("net = amount", "${NAME} = amount"),
        ("[region]", '["${KEY}"]'),
        ("type: float", 'type: "${TYPE}"'),
        ("name: amount", 'name: "${NAME}"'),
        ("limit: 512M", 'limit: "${LIMIT}"'),
        ("type: aggregate", 'type: "${KIND}"'),
        ("input: priced", 'input: "${NODE}"'),
        ("strategy: continue", 'strategy: "${STRATEGY}"'),
    ],
)
def test_what_a_value_may_mend_is_not_told_and_the_rest_is(right: str, unknown: str, tmp_path: Path) -> None:
    text = SHOP.replace(right, unknown, 1)
    assert told(tmp_path, text, Unknown(variables=None)) == []
    misspelt = text.replace("type: csv, path", "type: csv, pth: x, path")
    assert [each for each in told(tmp_path, misspelt, Unknown(variables=None)) if "pth" in each] == ["E005 pth"]


def test_an_unknown_channel_may_declare_variables_and_stands_in_paths(tmp_path: Path) -> None:
    text = SHOP.replace("${OUT}/sums.csv", "{channel}/sums.csv").replace("amount / 1.2", "amount / $vars.rate")
    known = {"IN": "in", "OUT": "out", "REGION": "eu"}
    assert [each[:4] for each in told(tmp_path, text, Unknown(), variables=known)] == ["E014"]
    assert told(tmp_path, text, Unknown(channel=True), variables=known) == []
    assert told(tmp_path, text.replace("amount:", "x:").replace("sum(", "summ("), Unknown(), variables=known)


def test_files_below_an_unknown_folder_are_not_missed(tmp_path: Path) -> None:
    layout = "format_schema: layouts/orders.schema.yaml\n      schema:"
    text = SHOP.replace("type: csv\n", "type: fixed_width\n").replace("schema:", layout, 1)
    text += "_notes: {}\n"
    assert "E000" in "".join(told(tmp_path, text, VARIABLES))
    assert told(tmp_path, text, Unknown(VARIABLES.variables, base_dir=True)) == []
    rules = SHOP.replace("filter region", "use taxes\n        filter region")
    assert told(tmp_path, rules, VARIABLES) != []
    assert told(tmp_path, rules, Unknown(VARIABLES.variables, rules_path=True)) == []
    assert told(tmp_path, rules, Unknown(VARIABLES.variables, base_dir=True)) == []
    assert told(tmp_path, rules.replace("group_by", "group_buy"), Unknown(VARIABLES.variables, base_dir=True))


def scalars_of(text: str) -> list[tuple[int, int, str]]:
    """The values of a file that can be written as a variable: places, and texts."""
    from spark_jobs.diagnostics.source import SourceFile

    tree = yaml_tree.read(SourceFile("p.yaml", text), {}, Diagnostics())
    assert tree is not None
    found = [scalar for _, scalar in unknowns._scalars(tree)]
    return [(one.span.start, one.span.end, one.text) for one in found if one.style not in ("|", ">") and one.text]


@pytest.mark.parametrize("path", [*EXAMPLES, "NAMED"], ids=str)
def test_no_value_of_a_right_pipeline_is_wrong_when_it_is_unknown(path: Path | str, tmp_path: Path) -> None:
    """One value in four becomes a variable that nobody knows; with the value that was there all is right."""
    text = NAMED if isinstance(path, str) else path.read_text(encoding="utf-8")
    folder = tmp_path if isinstance(path, str) else path.parent
    file = tmp_path / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    chosen = PlanOptions(base_dir=folder, variables={})
    if planner.plan(file, chosen)[0] is None:
        pytest.skip("needs variables")
    tried = 0
    for start, end, value in scalars_of(text)[::4]:
        file.write_text(f'{text[:start]}"${{X}}"{text[end:]}', encoding="utf-8")
        if planner.plan(file, PlanOptions(base_dir=folder, variables={"X": value}))[0] is None:
            continue  # a list that is no list any more, say
        tried += 1
        assert unknowns.problems(file, chosen, Unknown(frozenset({"X"}))) == [], text[start:end]
    assert tried > 5


def test_documents_that_are_no_mapping_are_told(tmp_path: Path) -> None:
    assert told(tmp_path, "[1]\n", Unknown(variables=None)) == ["E000 [1]"]
