"""The interpreter's statements and its failures; expressions are covered by the examples and by the parity tests."""

from __future__ import annotations

import logging
import time

import pytest

from spark_jobs.cxl import engine, tracing, types
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.cxl.interpreter import interpreter
from tests.cxl.both_engines import by_interpreter, check_agreement, program_of

LISTS = {"xs": types.ANY, "n": types.INT}


def fields(text: str, columns: dict[str, types.Type], record: dict[str, object]) -> list[dict[str, object]]:
    """The fields of a record's outputs, which both engines must agree on."""
    return [found for found, _ in check_agreement(text, columns, [record])[0].outputs]


def test_emit_again_keeps_the_first_place() -> None:
    assert list(fields("emit a = 1\nemit b = 2\nemit a = n", {"n": types.INT}, {"n": 3})[0].items()) == [
        ("a", 3),
        ("b", 2),
    ]


def test_each_gives_a_record_per_element_with_the_fields_before() -> None:
    text = "emit k = n\nemit each it in xs {\n  emit v = it\n}"
    assert fields(text, LISTS, {"xs": [1, None], "n": 7}) == [{"k": 7, "v": 1}, {"k": 7, "v": None}]


@pytest.mark.parametrize(("xs", "plain", "outer"), [(None, 0, 1), ([], 0, 1), ([5], 1, 1)])
def test_outer_gives_a_record_for_nothing(xs: object, plain: int, outer: int) -> None:
    body = "{\n  emit v = it\n}"
    assert len(fields(f"emit each it in xs {body}", LISTS, {"xs": xs})) == plain
    assert len(fields(f"emit each it in xs outer {body}", LISTS, {"xs": xs})) == outer


def test_nested_blocks_multiply_and_only_their_records_count() -> None:
    text = 'emit each a in xs {\n  emit p = a["n"]\n  emit each b in a["l"] {\n    emit q = b\n  }\n}'
    record = {"xs": [{"n": 1, "l": [1, 2]}, {"n": 2, "l": []}, {"n": 3, "l": [9]}]}
    assert fields(text, LISTS, record) == [{"p": 1, "q": 1}, {"p": 1, "q": 2}, {"p": 3, "q": 9}]


def test_children_differ_in_what_they_emit() -> None:
    text = "emit each a in xs {\n  emit p = a\n}\nemit each a in xs {\n  emit q = a\n}"
    assert fields(text, LISTS, {"xs": [1]}) == [{"p": 1}, {"q": 1}]


def test_expansion_beyond_the_cap_is_a_failure_without_records() -> None:
    program = program_of("emit each it in xs {\n  emit v = it\n}", LISTS, max_expansion=2)
    assert len(by_interpreter(program, [{"xs": [1, 2]}])[0].outputs) == 2
    failed = by_interpreter(program, [{"xs": [1, 2, 3]}])[0]
    assert failed.failure == (Category.EXPANSION_LIMIT, "emit_each fan-out exceeded max_expansion (limit 2)", None)


def test_children_inherit_metadata() -> None:
    text = "emit meta tag = n\nemit each it in xs {\n  emit meta item = it\n  emit v = $meta.tag\n}"
    outputs = check_agreement(text, LISTS, [{"xs": [1, 2], "n": 5}])[0].outputs
    assert outputs == [({"v": 5}, {"tag": 5, "item": 1}), ({"v": 5}, {"tag": 5, "item": 2})]


@pytest.mark.parametrize(
    ("text", "category", "detail", "field"),
    [
        ("emit r = n / 0", Category.TYPE_COERCION, "division by zero", "r"),
        ("let k = n + 9223372036854775807\nemit r = k", Category.TYPE_COERCION,
         "integer overflow in addition operation", None),
        ('emit r = s.to_int() + 1', Category.TYPE_COERCION, "conversion failed: cannot convert 'x' to Int", "r"),
        ("filter 1 / (n - 1) > 0\nemit r = 1", Category.TYPE_COERCION, "division by zero", None),
        ("emit r = x * 1e0", Category.NAN_IN_OUTPUT, "not a finite number: inf", "r"),
        ("emit r = s.repeat(20000000)", Category.TYPE_COERCION,
         "string output exceeds maximum size (20000000 bytes, limit 10485760)", "r"),
        ('emit r = s.find("[" + s)', Category.TYPE_COERCION, "invalid regex '[x': missing ]: [x", "r"),
        ("distinct by a\nemit r = 1", Category.TYPE_COERCION,
         "type mismatch: expected hashable value, got Array", None),
    ],
)  # fmt: skip
def test_failures_say_what_went_wrong_and_where(text: str, category: Category, detail: str, field: str | None) -> None:
    columns = {"n": types.INT, "s": types.STRING, "x": types.FLOAT, "a": types.ANY}
    text = text.replace("1e0", "1.0")
    outcome = check_agreement(text, columns, [{"n": 1, "s": "x", "x": float("inf"), "a": [1]}])[0]
    assert outcome.failure == (category, detail, field)


def test_a_failure_carries_the_offending_value() -> None:
    run = interpreter.compile(program_of("emit r = s.to_date()", {"s": types.STRING}))
    with pytest.raises(Failure) as caught:
        run({"s": "tomorrow"}, engine.EvaluationContext())
    assert caught.value.value == "tomorrow"


def test_trace_logs_when_its_guard_is_true(caplog: pytest.LogCaptureFixture) -> None:
    program = program_of('trace warn if n > 1 "big " + n.to_string()\ntrace info n\nemit r = n', {"n": types.INT})
    with caplog.at_level(logging.INFO, "clinker.cxl"):
        by_interpreter(program, [{"n": 1}, {"n": 2}])
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("INFO", "1"),
        ("WARNING", "big 2"),
        ("INFO", "2"),
    ]


def test_debug_logs_the_value_and_hands_it_on(caplog: pytest.LogCaptureFixture) -> None:
    columns = {"n": types.INT, "s": types.STRING}
    with caplog.at_level(tracing.LEVELS["trace"], "clinker.cxl"):
        outcomes = check_agreement(
            'emit r = n.debug("price") ?? 0\nemit t = s.debug()', columns, [{"n": 100, "s": "x"}, {}]
        )
    assert [outcome.outputs[0][0] for outcome in outcomes] == [{"r": 100, "t": "x"}, {"r": 0, "t": None}]
    one_engine = ["price: Integer(100)", 'String("x")', "price: Null", "Null"]
    assert sorted(one.message for one in caplog.records) == sorted(one_engine * 2)


def test_now_is_read_once_per_record() -> None:
    run = interpreter.compile(program_of("emit a = now\nemit b = now"))
    first, second = (run({}, engine.EvaluationContext()).outputs[0] for _ in range(2))
    assert first["a"] == first["b"]
    assert first["a"] <= second["a"]


def test_missing_system_values_are_null() -> None:
    program = program_of("emit a = $pipeline.name\nemit b = $source.row")
    assert by_interpreter(program, [{}], {"source.row": 3})[0].outputs[0][0] == {"a": None, "b": 3}


@pytest.mark.slow
def test_deep_programs_run() -> None:
    chain = " + ".join(["n"] * 1500)
    assert fields(f"emit r = {chain}", {"n": types.INT}, {"n": 2}) == [{"r": 3000}]


@pytest.mark.slow
def test_twelve_emits_are_quick() -> None:
    """More than 100,000 records a second when the machine is free (benchmarks/cxl.py); half of that when it is busy."""
    columns = {"n": types.INT, "x": types.FLOAT, "s": types.STRING}
    lines = ["n + 1", "n * 2", "x.round(2)", "s.upper()", 'if n > 3 then s else "small"', "n ?? 0"] * 2
    program = program_of("\n".join(f"emit f{i} = {line}" for i, line in enumerate(lines)), columns)
    run, record, around = interpreter.compile(program), {"n": 5, "x": 1.25, "s": "abc"}, engine.EvaluationContext()
    best = 0.0
    for _ in range(5):
        start = time.process_time()
        for _ in range(5000):
            run(record, around)
        best = max(best, 5000 / (time.process_time() - start))
    assert best > 50_000


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('contains("a")', None),
        ('starts_with("a")', None),
        ('find("a")', None),
        ("reverse()", None),
        ("keys()", None),
        ("abs()", None),
        ("length()", 2),
        ('join("-")', "a-b"),
        ("remove(0)", ["b"]),
        ("is_empty()", False),
        ("type_of()", "Array"),
        ("catch(1)", ["a", "b"]),
        ('any(it => it == "a")', True),
    ],
)
def test_a_dynamic_array_has_the_methods_of_arrays_and_null_for_all_others(call: str, expected: object) -> None:
    assert fields(f"emit r = xs.{call}", LISTS, {"xs": ["a", "b"], "n": 1}) == [{"r": expected}]
