"""Rules on data that are written wrongly: one error each, which says what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan import pipelines

if TYPE_CHECKING:
    from pathlib import Path

_PIPELINE = """
pipeline: {{name: p}}
nodes:
  - type: source
    name: rows
    config:
      type: csv
      path: in.csv
      schema: {{id: int, name: string, tags: array, day: date}}
      validations: [{rule}]
  - {{type: output, name: o, input: rows, config: {{type: csv, path: out/o.csv}}}}
"""


@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ("{row_count: {min: null}}", "E351", "needs a number for `min`, `max` or both"),
        ("{row_count: {}}", "E351", "needs a number for `min`, `max` or both"),
        ("{row_count: {min: 5, max: 2}}", "E351", "no number is between them"),
        ("{row_count: {min: 1}, severity: error}", "E351", "write `fail`, which is the default, or `warn`"),
        ("{row_count: {least: 3}}", "E005", "allowed here: max, min"),
        ("{row_count: {min: 1, most: 3}}", "E005", "unknown key `most`"),
        ("{unique: null}", "E351", "nothing stands at `unique`"),
        ("{name: x}", "E351", "each entry has one of unique, references, row_count"),
        ("{unique: id, row_count: {min: 1}}", "E351", "write an entry for each"),
        ("{check: id > 1}", "E351", "belongs under `validations` of a transform"),
        ('{unique: "id, name"}', "E351", "a list names several columns: `[id, name]`"),
        ('{unique: "id, nam"}', "E351", "its columns: id, name, tags, day"),
        ("{unique: nane}", "E351", "did you mean `name`?"),
        ("{unique: [id, id]}", "E351", "name each column once"),
        ("{unique: tags}", "E351", "arrays, which cannot be compared"),
        ("{sum: {column: name, min: 1}}", "E351", "`sum` is about numbers, and column 'name' is `String`"),
        ("{min: {column: name, min: 1}}", "E351", "is about numbers, days or moments"),
        ("{freshness: {column: id, max_age: 1h}}", "E351", "is about days or moments"),
        ("{freshness: {column: day, max_age: 1}}", "E214", "expected a duration"),
        ("{freshness: {column: day}}", "E006", "max_age"),
        ("{sum: {column: id}}", "E351", "needs a number for `min`, `max` or both"),
        ("{sum: {column: idd, min: 1}}", "E351", "did you mean `id`?"),
        ("{sum: {column: id, min: x}}", "E351", "write a value like `100`"),
        ("{sum: {column: id, min: 3, max: 2.5}}", "E351", "no number is between them"),
        ("{sum: {column: id, min: 0.2, max: 0.1}}", "E351", "no number is between them"),
        ("{min: {column: day, min: 2030-01-02, max: 2030-01-01}}", "E351", "no value is between them"),
        ("{max: {column: day, max: 5}}", "E351", "write a value like `2026-01-31`"),
        ("{max: {column: day, max: 2026-02-30}}", "E351", "write a value like `2026-01-31`"),
        ("{completeness: {column: id, min: 95}}", "E351", "a share from 0 to 1"),
        ("{distinct_count: {column: tags, min: 1}}", "E351", "arrays, which cannot be compared"),
        ("{distinct_count: {column: id, min: 1}, severity: error}", "E351", "`distinct_count` is about no single"),
        ("{references: {columns: id, source: rows}}", "E351", "'rows' refers to its own records"),
        ("{references: {columns: id, source: row}}", "E351", "or another node whose records go on, and 'row' is none"),
        ("{unique: id}, {unique: id}", "E351", "give one of them another `name`"),
    ],
)
def test_a_rule_that_is_written_wrongly_is_one_error(rule: str, code: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,name,tags\n", encoding="utf-8")
    (found,) = pipelines.problems(tmp_path, _PIPELINE.format(rule=rule))
    assert found.code.id == code
    assert said in f"{found.message} {found.help}"
    assert found.span is not None


_OUTPUT = """
pipeline: {{name: p}}
nodes:
  - {{type: source, name: rows, config: {{type: csv, path: in.csv, schema: {{id: int, name: string}}}}}}
  - {{type: source, name: others, config: {{type: csv, path: in.csv, schema: {{id: int, name: string}}}}}}
  - {{type: transform, name: some, input: others, config: {{cxl: filter id > 1}}}}
  - type: route
    name: cut
    input: others
    config: {{mode: exclusive, conditions: {{large: id > 1}}, default: small}}
  - type: output
    name: o
    input: rows
    config: {{type: csv, path: out/o.csv, validations: [{{references: {rule}}}]}}
"""


@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ("{columns: id, source: other}", "E351", "did you mean `others`?"),
        ("{columns: id, source: o}", "E351", "nodes here: rows, others, some, cut.large, cut.small"),
        ("{columns: id, source: some, to: idd}", "E351", "'some' has no declared column 'idd'"),
        ("{columns: id, source: cut}", "E351", "nodes here: cut.large, cut.small"),
        ("{columns: id, source: cut.larg}", "E351", "did you mean `cut.large`?"),
        ("{columns: id}", "E006", "source"),
        ("{columns: idd, source: others, to: id}", "E351", "'o' has no declared column 'idd'"),
        ("{columns: id, source: others, to: idd}", "E351", "'others' has no declared column 'idd'"),
        ("{columns: id, source: others, to: name}", "E351", "no two values are equal"),
        ("{columns: id, source: others, to: [id, name]}", "E351", "1 columns refer to 2"),
        ("{columns: [id, id], source: others}", "E351", "name each column once"),
    ],
)
def test_a_reference_that_is_written_wrongly_says_why(rule: str, code: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,name\n", encoding="utf-8")
    found = [each for each in pipelines.problems(tmp_path, _OUTPUT.format(rule=rule)) if each.code.id[0] == "E"]
    assert {each.code.id for each in found} == {code}
    assert any(said in f"{each.message} {each.help}" for each in found)


_WAITING = """
pipeline: {{name: p}}
nodes:
  - type: source
    name: rows
    config:
      type: csv
      path: in.csv
      schema: {{id: int}}
      validations: [{{references: {{columns: id, source: {first}}}}}]
  - type: source
    name: others
    config:
      type: csv
      path: in.csv
      schema: {{id: int}}
      validations: [{{references: {{columns: id, source: {second}}}}}]
  - {{type: source, name: free, config: {{type: csv, path: in.csv, schema: {{id: int}}}}}}
  - {{type: transform, name: some, input: rows, config: {{cxl: filter id > 1}}}}
  - {{type: output, name: o, input: some, config: {{type: csv, path: out/o.csv}}}}
  - {{type: output, name: p, input: others, config: {{type: csv, path: out/p.csv}}}}
"""


@pytest.mark.parametrize(
    ("first", "second", "ring"),
    [
        ("some", "free", "rows → some → rows"),
        ("others", "rows", "rows → others → rows"),
        ("others", "some", "rows → some → others → rows"),
        ("others", "free", None),
        ("free", "some", None),
    ],
)
def test_rules_that_wait_for_each_other_are_a_cycle(first: str, second: str, ring: str | None, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id\n", encoding="utf-8")
    found = pipelines.problems(tmp_path, _WAITING.format(first=first, second=second))
    assert [each.code.id for each in found] == ([] if ring is None else ["E003"])
    if ring is not None:
        assert f"cycle detected: {ring}" in found[0].message
        assert "refer to a node upstream" in (found[0].help or "")
