"""Aggregate programs taken apart: what runs on records, what is accumulated, what runs on groups."""

from __future__ import annotations

import pytest

from spark_jobs.cxl import typed, types
from spark_jobs.cxl.checking.scope import Mode
from tests.cxl.test_checker import compiled, refused

COLUMNS = {"region": types.STRING, "store": types.INT, "amount": types.FLOAT, "units": types.INT, "note": types.STRING}


def parts(text: str, group_by: tuple[str, ...] = ("region",)) -> typed.AggregateProgram:
    result = compiled(text, COLUMNS, mode=Mode.AGGREGATE, group_by=group_by)
    assert isinstance(result.program, typed.AggregateProgram), result.diagnostics
    return result.program


def shape(program: typed.Program) -> list[str]:
    """The statements of a program, by kind and name."""
    return [f"{type(one).__name__} {getattr(one, 'name', '')}".strip() for one in program.statements]


def test_plain_columns_are_accumulated_as_they_are() -> None:
    program = parts("emit total = sum(amount)\nemit rows = count(*)")
    assert [(call.function, call.arguments, str(call.type)) for call in program.calls] == [
        ("sum", ("amount",), "Nullable(Float)"),
        ("count", (), "Int"),
    ]
    assert shape(program.before) == []
    assert program.before.columns == {"amount"}
    assert shape(program.after) == ["Emit total", "Emit rows"]


def test_equal_calls_share_an_accumulator() -> None:
    program = parts("emit a = sum(units * 2) / sum(units*2)\nemit b = max(units * 2.0)\nemit c = count() + count(*)")
    assert [(call.function, call.arguments) for call in program.calls] == [
        ("sum", ("$arg.0",)),
        ("max", ("$arg.1",)),
        ("count", ()),
    ]
    assert shape(program.before) == ["Emit $arg.0", "Emit $arg.1"]


def test_filters_come_first_and_lets_that_cannot_fail_stand_for_their_expressions() -> None:
    program = parts(
        "let net = amount * 0.8\nlet unused = amount / 0\nlet big = net > 10\nemit t = sum(net)\nfilter big\nemit u = t"
    )
    assert shape(program.before) == ["Let unused", "Filter", "Emit $arg.0"]
    assert parts("let unused = note\nemit t = sum(units)").before.columns == {"units"}
    assert shape(program.after) == ["Emit t", "Emit u"]
    assert parts("let k = units * 2\nemit a = sum(k) + sum(units * 2)").calls[1:] == ()


@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("note.to_int()", True),
        ("units + 1", True),
        ("-units", True),
        ("units / store", True),
        ("v < 1", True),
        ("v.upper()", True),
        ("amount * 2.5 - 1.0", False),
        ("amount / 2.0", True),
        ('note.upper() + "x"', False),
        ("if units > 3 then note else region", False),
        ("note.split(region).map(it => it.to_int())", True),
        ("note.split(region).map(it => it.upper())", False),
    ],
)
def test_a_let_that_nothing_reads_is_kept_where_it_may_fail(value: str, is_kept: bool) -> None:
    columns = {**COLUMNS, "v": types.ANY}
    result = compiled(f"let k = {value}\nemit n = count(*)", columns, mode=Mode.AGGREGATE, group_by=())
    assert isinstance(result.program, typed.AggregateProgram), result.diagnostics
    assert shape(result.program.before) == (["Let k"] if is_kept else [])


def test_a_later_let_of_the_same_name_is_another_let() -> None:
    first = parts("let k = units\nlet k = k + 1\nemit a = sum(k)").before.statements
    second = parts("emit a = sum(units + 1)").before.statements
    assert isinstance(first[-1], typed.Emit)
    assert isinstance(second[-1], typed.Emit)
    assert isinstance(first[-1].value, typed.Binary)
    assert isinstance(second[-1].value, typed.Binary)
    assert first[-1].value.operator == second[-1].value.operator


def test_large_lets_are_statements_before_what_reads_them() -> None:
    lets = "\n".join(f"let k{i} = k{i - 1} + k{i - 1}" for i in range(1, 40))
    program = parts(f"let k0 = units\n{lets}\nfilter k39 > 0\nemit a = sum(k39)\nemit b = count()")
    kinds = [type(one).__name__ for one in program.before.statements]
    assert kinds[-2:] == ["Filter", "Emit"]
    assert set(kinds[:-2]) == {"Let"}
    group = parts(f"let k0 = region\n{lets}\nemit a = k39")
    assert [type(one).__name__ for one in group.after.statements][-2:] == ["Let", "Emit"]


def test_lets_around_calls_read_group_keys() -> None:
    program = parts(
        'let label = region.upper()\nlet long = label + "!"\nemit a = long\nemit b = label.length() + count()'
    )
    assert shape(program.before) == []
    assert shape(program.after) == ["Emit a", "Emit b"]
    assert program.after.columns == {"region", "$agg.0"}


def test_any_expression_stands_around_calls() -> None:
    program = parts(
        'emit a = if max(amount) > 100 then "big" else region\n'
        "emit b = match count(*) { 1 => first(note), _ => any(note) }\n"
        "emit c = (sum(amount) - min(amount)) / count(amount) ?? 0.0\n"
        "emit d = collect(note).join(region)\nemit meta m = last(note)"
    )
    assert {name: str(static) for name, static in program.after.emits} == {
        "a": "Nullable(String)",
        "b": "Nullable(String)",
        "c": "Float",
        "d": "Nullable(String)",
    }
    assert [key for key, _ in program.after.metas] == ["m"]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "emit a = note",
            "E200",
            "field 'note' must appear in the GROUP BY list or be used inside an aggregate function",
        ),
        ("let k = note\nemit a = k", "E200", "field 'note' must appear"),
        ("let k = sum(units)\nemit a = k", "E210", "let-binding `k` references an aggregate"),
        ("emit a = sum(max(units))", "E200", "cannot be nested inside another aggregate"),
        ("filter sum(units) > 1", "E200", "not allowed in a filter predicate"),
        ("emit a = sum(note)", "E200", "sum() requires a Numeric argument, got String"),
        ("emit a = weighted_avg(units)", "E200", "weighted_avg() requires exactly two arguments (value, weight)"),
        ("emit a = sum()", "E200", "sum() requires exactly one argument"),
        ("emit a = max(*)", "E200", "`max(*)` is not valid"),
        ("emit a = $source.row", "E200", "`source.row` is per-record provenance"),
        ("distinct", "E210", "`distinct` is not permitted inside an aggregate transform"),
        ("emit each v in note { emit a = v }", "E210", "`emit each` is not permitted"),
        ("emit $pipeline.k = 1", "E210", "`emit $pipeline.k` is not permitted"),
        ("emit a = nope", "E200", "unknown field 'nope'"),
        ("emit a = sum(nope)", "E200", "unknown field 'nope'"),
    ],
)
def test_wrong_aggregates_are_refused(text: str, code: str, message: str) -> None:
    found = refused(text, columns=COLUMNS, mode=Mode.AGGREGATE, group_by=("region",))
    assert found.code.id == code
    assert message in found.message


def test_a_variable_that_an_aggregate_sets_is_refused_with_what_sets_it() -> None:
    found = refused("emit $pipeline.k = 1", columns=COLUMNS, mode=Mode.AGGREGATE, group_by=("region",))
    assert found.help == "$pipeline variables are written by `state` nodes; `emit k = …` writes a field"


def test_an_emitted_name_beats_a_column_that_is_no_key() -> None:
    program = parts("emit amount = sum(amount)\nemit twice = amount * 2")
    assert shape(program.after) == ["Emit amount", "Emit twice"]
    assert [call.function for call in program.calls] == ["sum"]


def test_per_record_values_may_stand_inside_calls() -> None:
    assert parts("emit a = max($source.row)").before.system == {"source.row"}


def test_a_state_nodes_value_is_of_each_record_or_of_all() -> None:
    each = compiled("this.region + note", COLUMNS, mode=Mode.STATE).program
    assert isinstance(each, typed.Program)
    assert each.columns == {"region", "note"}
    for text in (
        "first(this.region)",
        "max(this.units) + count(*)",
        '(if sum(units) > 3 then "a" else last(this.note))',
    ):
        whole = compiled(text, COLUMNS, mode=Mode.STATE).program
        assert isinstance(whole, typed.AggregateProgram)
        assert [name for name, _ in whole.after.emits] == ["value"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("this", "`this` is the record, not a value"),
        ("this.nope", "unknown field 'this.nope'"),
        ("first(this.regio)", "unknown field 'this.regio'"),
        ("first(this.region) + this.note", "is of single records, the value of all of them"),
    ],
)
def test_what_a_state_nodes_value_cannot_be(text: str, message: str) -> None:
    assert message in refused(text, columns=COLUMNS, mode=Mode.STATE).message
