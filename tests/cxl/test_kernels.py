"""What the Arrow engine does beyond agreeing with the interpreter: deferral, order, system values, reasons."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.cxl import engine, tracing, types, values
from spark_jobs.cxl.kernels import frames, kernels
from tests.cxl.both_engines import batch_of, by_interpreter, by_kernels, check_agreement, program_of

INTS = {"n": types.INT, "m": types.INT}
TEXTS = {"s": types.STRING}


def run(text: str, columns: dict[str, types.Type], records: list[dict[str, Any]], **around: Any) -> engine.BatchResult:
    """A program's result on one batch."""
    return kernels.compile(program_of(text, columns))(batch_of(columns, records), engine.EvaluationContext(around))


def test_all_rows_alive_are_not_listed() -> None:
    result = run("emit r = n + 1", INTS, [{"n": 1}, {"n": None}])
    assert result.rows is None
    assert result.emits["r"].to_pylist() == [2, None]


def test_filtered_rows_are_counted_and_left_out() -> None:
    result = run("filter n > 1\nemit r = n", INTS, [{"n": 1}, {"n": 2}, {"n": None}, {"n": 3}])
    assert result.rows is not None
    assert (result.rows.to_pylist(), result.emits["r"].to_pylist(), result.filtered) == ([1, 3], [2, 3], 2)


def test_an_empty_batch_gives_typed_empty_columns() -> None:
    result = run('emit a = n.to_string().split(",")\nemit b = n / m', INTS, [])
    assert {name: array.type for name, array in result.emits.items()} == {"a": pa.list_(pa.string()), "b": pa.int64()}
    assert not result.failures


def test_failing_rows_leave_the_batch_with_their_failure() -> None:
    result = run("emit r = 10 / n", INTS, [{"n": 2}, {"n": 0}, {"n": None}, {"n": 5}])
    assert result.rows is not None
    assert result.rows.to_pylist() == [0, 2, 3]
    assert result.emits["r"].to_pylist() == [5, None, 2]
    assert [(one.row, one.failure.detail, one.failure.field) for one in result.failures] == [
        (1, "division by zero", "r")
    ]


def test_one_overflow_in_many_rows_is_found_and_the_others_stand() -> None:
    records = [{"n": 1, "m": row} for row in range(1000)]
    records[700] = {"n": 2**63 - 1, "m": 5}
    result = run("emit r = n + m", INTS, records)
    assert [(one.row, one.failure.detail) for one in result.failures] == [
        (700, "integer overflow in addition operation")
    ]
    assert result.rows is not None
    assert len(result.rows) == 999
    assert result.emits["r"][699].as_py() == 700
    assert result.emits["r"][700].as_py() == 702


def test_halving_blames_small_slices_only() -> None:
    frame = frames.Frame(1024, engine.EvaluationContext())
    calls: list[int] = []

    def kernel(array: pa.Array) -> pa.Array:
        calls.append(len(array))
        if 333 in array.to_pylist():
            raise pa.ArrowInvalid("row 333")
        return array

    result = frames.guarded(frame, kernel, [pa.array(range(1024))], pa.int64())
    assert frame.bad is not None
    blamed = [row for row, bad in enumerate(frame.bad.to_pylist()) if bad]
    assert 333 in blamed
    assert len(blamed) <= frames.SMALLEST_SLICE
    assert [row for row, value in enumerate(result.to_pylist()) if value != row] == blamed
    assert sum(calls) < 4 * 1024


def test_rows_that_kernels_cannot_judge_come_back_in_order() -> None:
    texts = ["1", "9223372036854775807", "+7", "x", "0x10", "0000000000000000000000000000000012", "9223372036854775808"]
    outcomes = check_agreement("emit r = s.to_int()\nemit t = s", TEXTS, [{"s": text} for text in texts])
    assert [outcome.outputs[0][0]["r"] if outcome.outputs else None for outcome in outcomes] == [
        1,
        9223372036854775807,
        7,
        None,
        None,
        12,
        None,
    ]


def test_an_error_in_an_untaken_branch_never_happens() -> None:
    records = [{"n": n, "m": m} for n in (0, 1, None, 2**63 - 1) for m in (0, 3, None)]
    check_agreement("emit r = if n == 0 then m else m / n + n * 2", INTS, records)
    check_agreement("emit r = n != 0 and m / n > 1 or m == 0", INTS, records)
    check_agreement("emit r = n ?? m / 0", INTS, records)
    check_agreement("emit r = match { n > 1 => n * 2, m == 0 => 1 / (n - 1), _ => m }", INTS, records)


def test_distinct_keeps_the_first_across_batches_and_deferred_rows() -> None:
    texts = ["a", "1", "+1", "1", "x", "+1", "2", "a", "2.0", None, None]
    program = "let k = s.try_float()\nemit r = s.to_int() + 1\ndistinct by r\nemit t = s"
    records = [{"s": text} for text in texts if text != "a"]
    outcomes = check_agreement(program, TEXTS, records, batch_rows=3)
    assert [outcome.outputs[0][0]["t"] for outcome in outcomes if outcome.outputs] == ["1", "2", None]


def test_a_deferred_row_takes_its_turn_in_distinct() -> None:
    # The overflow of row 1 is found by halving: a whole slice is deferred, distinct still sees rows in order.
    columns = {"n": types.INT, "k": types.INT}
    records = [{"n": 2**63 - 1 if row == 1 else row, "k": row % 5} for row in range(40)]
    outcomes = check_agreement("emit r = n + 1\ndistinct by k\nemit s = r", columns, records)
    assert [row for row, outcome in enumerate(outcomes) if outcome.outputs] == [0, 2, 3, 4, 6]


def test_a_row_deferred_after_distinct_is_not_its_own_duplicate() -> None:
    records = [{"n": row, "m": row % 3} for row in range(9)]
    outcomes = check_agreement("distinct by n\nemit r = 10 / m\nemit t = r", INTS, records)
    assert sum(bool(outcome.outputs) for outcome in outcomes) == 6
    assert sum(outcome.failure is not None for outcome in outcomes) == 3


def test_system_values_may_differ_from_row_to_row() -> None:
    rows, names = pa.array([4, 5, 6]), "orders"
    around = {"source.row": rows, "pipeline.name": names}
    program = program_of(
        "filter n > 0\nemit r = $source.row\nemit p = $pipeline.name\nemit q = 10 / (n - 1) + $source.row", INTS
    )
    result = kernels.compile(program)(batch_of(INTS, [{"n": 0}, {"n": 1}, {"n": 2}]), engine.EvaluationContext(around))
    assert result.emits["r"].to_pylist() == [6]
    assert result.emits["p"].to_pylist() == ["orders"]
    assert result.emits["q"].to_pylist() == [16]
    assert [one.row for one in result.failures] == [1]


def test_metadata_is_a_column_per_key() -> None:
    result = run("emit meta k = n * 2\nemit r = $meta.k + 1\nfilter n > 1", INTS, [{"n": 1}, {"n": 2}])
    assert result.metas["k"].to_pylist() == [4]
    assert result.emits["r"].to_pylist() == [5]


def test_trace_logs_each_row_once(caplog: pytest.LogCaptureFixture) -> None:
    text = "trace info if n > 0 n.to_string()\nemit r = 10 / m"
    records = [{"n": 1, "m": 1}, {"n": 0, "m": 1}, {"n": 2, "m": 0}, {"n": 3, "m": 2}]
    with caplog.at_level(logging.INFO, "clinker.cxl"):
        result = run(text, INTS, records)
    lines = [(one.message, one.__dict__["position"]) for one in caplog.records]
    assert lines == [("1", 0), ("2", 2), ("3", 3)]
    assert [one.row for one in result.failures] == [2]


def test_a_failing_guard_fails_the_row() -> None:
    check_agreement('trace if 1 / n > 0 "x"\nemit r = n', INTS, [{"n": 0}, {"n": 1}])


def test_columns_that_the_batch_lacks_are_null() -> None:
    program = program_of("emit r = m ?? n", INTS)
    result = kernels.compile(program)(pa.RecordBatch.from_pydict({"n": pa.array([1, 2])}), engine.EvaluationContext())
    assert result.emits["r"].to_pylist() == [1, 2]


def test_sliced_batches_are_read_where_they_lie() -> None:
    texts = ["0x1", "e", *[str(number) for number in range(10)]]
    program = program_of("emit r = s.to_int()\nemit t = s.to_float().to_string()", TEXTS)
    batch = batch_of(TEXTS, [{"s": text} for text in texts]).slice(2, 5)
    result = kernels.compile(program)(batch, engine.EvaluationContext())
    assert result.emits["r"].to_pylist() == [0, 1, 2, 3, 4]
    assert result.emits["t"].to_pylist() == ["0", "1", "2", "3", "4"]


def test_what_runs_row_by_row_is_listed_with_its_reason() -> None:
    columns = {"a": types.ANY, "n": types.INT, "s": types.STRING}
    compiled = kernels.compile(program_of("emit x = n + 1\nemit y = a.length()\nemit z = s.upper()", columns))
    assert [text for text, _ in compiled.interpreted] == ["a.length()"]
    assert "run time" in compiled.interpreted[0][1]
    each = kernels.compile(program_of("emit each p in a {\n  filter p\n  emit v = p\n}", columns))
    assert each.interpreted == (("emit each p in a", "a block with `filter` or `distinct` fails record by record"),)


@pytest.mark.parametrize(
    "text",
    [
        "emit each p in a {\n  emit each q in p {\n    emit v = q\n  }\n  emit each r in p {\n    emit v = n\n  }\n}",
        "emit each p in a {\n  emit v = p\n}\nlet k = n\nemit each q in a {\n  emit w = k\n}\nemit v = s",
        'emit each p in a {\n  emit v = n\n  trace info "x"\n}\ntrace info "y"',
    ],
)
def test_blocks_run_on_batches(text: str) -> None:
    columns = {"a": types.ANY, "n": types.INT, "s": types.STRING}
    assert kernels.compile(program_of(text, columns)).interpreted == ()


@pytest.mark.parametrize(
    ("text", "records", "limit"),
    [
        ("emit each p in a { emit v = p }\nemit each p in b { emit v = p }", [(1, 2), (2, 2), (2, 3), (4, 0)], 4),
        ("emit each p in a {\n emit each q in b { emit v = q }\n}", [(2, 2), (2, 3), (5, 1), (9, 0), (0, 9)], 4),
        ("emit each p in a {\n emit each q in b outer { emit v = q }\n}", [(4, 0), (5, 0), (2, 2)], 4),
        ("emit each p in a {\n emit v = 6 / (p - 2)\n}\nemit each p in b { emit v = p }", [(1, 4), (4, 4)], 4),
    ],
)
def test_the_limit_counts_the_records_of_all_blocks(text: str, records: list[tuple[int, int]], limit: int) -> None:
    numbers = types.Type(types.Kind.ARRAY, element=types.INT)
    given = [{"a": list(range(many)), "b": list(range(more))} for many, more in records]
    outcomes = check_agreement(text, {"a": numbers, "b": numbers}, given, max_expansion=limit)
    for (many, more), outcome in zip(records, outcomes, strict=True):
        if outcome.failure is not None:
            assert outcome.failure[0] == "expansion_limit_exceeded" or many > 2, (many, more)
        else:
            assert len(outcome.outputs) <= limit


def test_records_of_nested_blocks_come_by_their_outer_elements() -> None:
    text = "emit each p in a {\n emit each q in a { emit v = p * 10 + q }\n emit each q in a { emit w = p - q }\n}"
    result = run(text, {"a": types.Type(types.Kind.ARRAY, element=types.INT)}, [{"a": [1, 2]}, {"a": None}, {"a": [3]}])
    assert result.rows is not None
    assert result.rows.to_pylist() == [0] * 8 + [2] * 2
    assert result.emits["v"].to_pylist() == [11, 12, None, None, 21, 22, None, None, 33, None]
    assert result.emits["w"].to_pylist() == [None, None, 0, -1, None, None, 1, 0, None, 0]
    assert result.emitted["v"].to_pylist() == [value is not None for value in result.emits["v"].to_pylist()]


LOGGING = [
    'emit each p in a {\n trace info "x"\n trace info "y" + p.to_string()\n emit v = 10 / p\n}\ntrace info "z"',
    'emit each p in a {\n trace info if p > 1 "x"\n emit each q in a { trace info q.to_string() }\n trace info "y"\n}',
    'trace info "a"\nemit each p in a {\n emit v = p.debug("d")\n emit w = p\n}\nemit each p in a { trace info "b" }',
    'emit each p in a { emit v = p }\ntrace info "x"\nemit v = 1 / n\ntrace info "y"',
    'emit each p in a { trace info "x" }\nemit v = 1 / n\ntrace info "y"',
]


@pytest.mark.parametrize("text", LOGGING)
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG, logging.ERROR])
def test_lines_of_blocks_come_once_and_in_the_order_of_their_elements(
    text: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    columns = {"a": types.Type(types.Kind.ARRAY, element=types.INT), "n": types.INT}
    records = [{"a": [1, 2], "n": 1}, {"a": [], "n": 0}, {"a": [3, 0], "n": 0}, {"a": [4], "n": 0}, {"a": [5], "n": 2}]
    program = program_of(text, columns)
    with caplog.at_level(level, "clinker.cxl"):
        by_interpreter(program, records)
        wanted = [one.message for one in caplog.records]
        caplog.clear()
        by_kernels(program, columns, records)
    # Sorted as the driver sorts them: by record, those of one as they came.
    got = sorted(caplog.records, key=lambda one: one.__dict__["position"])
    assert [one.message for one in got] == wanted


@pytest.mark.parametrize(
    "expression",
    [
        "n + m * 2 - n / 3 % 5", "-n", "x * n", "x.round(2)", "s.trim().upper().left(3)", 's + "-" + t',
        's.pad_left(5, "0")',
        's.replace("a", "b")', 's.matches("[a-z]+")', 's.capture("(a)(b)", 1)', "if n > 1 then s else t", "s ?? t",
        'match s { "a" => 1, _ => 2 }', "match { n > 1 => x, _ => 0.0 }", "n > 1 and s == t or not b", "s.to_int()",
        "s.try_float()", "s.to_bool()", "x.to_string()", "d.year() + d.month()", "d.add_months(1)", "d.diff_days(w)",
        'w.format_date("%Y")', "s.to_date()", 's.try_date("%d.%m.%Y")', "n.is_null()", "s.is_empty()", "n.type_of()",
        "n.clamp(0, 9)", "n.min(m)", 's.split(",").map(it => it.trim()).join("+")', 's.split(",")[0]', "a.is_null()",
        's.split(",").filter(it => it != t).length()', "s.file_name()", "s.concat(n, x)", "s.reverse().length()",
    ],
)  # fmt: skip
def test_the_common_surface_is_native(expression: str) -> None:
    columns = {
        "n": types.INT, "m": types.INT, "x": types.FLOAT, "s": types.STRING, "t": types.STRING, "b": types.BOOL,
        "d": types.DATE, "w": types.DATETIME, "a": types.ANY,
    }  # fmt: skip
    assert kernels.compile(program_of(f"emit r = {expression}", columns)).interpreted == ()


def test_a_computation_that_stands_twice_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_jobs.cxl.kernels import calls

    applied: list[str] = []
    original = calls._applied
    monkeypatch.setattr(
        calls, "_applied", lambda builtin, *rest: (applied.append(builtin.name), original(builtin, *rest))[1]
    )
    run(
        'emit a = s.upper() + "1"\nfilter s.upper() != "X"\nemit b = s.upper()',
        TEXTS,
        [{"s": "a"}, {"s": "x"}, {"s": "b"}],
    )
    assert applied == ["upper"]


def test_dynamic_emits_are_tagged_texts() -> None:
    columns = {"a": types.ANY}
    result = run("emit r = a\nemit t = a ?? 1", columns, [{"a": [1, 2.0]}, {"a": None}])
    assert result.emits["r"].to_pylist() == ["[1,2.0]", None]
    assert values.from_arrow(result.emits["t"], types.ANY) == [[1, 2.0], 1]


def test_user_text_that_looks_like_a_tagged_float_is_no_failure() -> None:
    outcomes = by_kernels(program_of("emit r = a", {"a": types.ANY}), {"a": types.ANY}, [{"a": 'say "$float" please'}])
    assert outcomes[0].outputs == [({"r": 'say "$float" please'}, {})]
    check_agreement("emit r = a", {"a": types.ANY}, [{"a": {"$float": "nan"}}, {"a": [float("nan")]}])


@pytest.mark.slow
def test_executor_modules_load_without_the_front_end() -> None:
    code = (
        "import sys, spark_jobs.cxl.kernels.kernels, spark_jobs.cxl.interpreter.interpreter;"
        "from spark_jobs.cxl.builtins import declare; declare.registry();"
        "print(sorted({'pydantic', 'lark', 'yaml', 'pyspark'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


@pytest.mark.slow
def test_declarations_load_without_pyarrow() -> None:
    code = (
        "import sys; from spark_jobs.cxl.builtins import declare; from spark_jobs.cxl.interpreter import interpreter;"
        "declare.registry(); print(sorted({'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_levels_of_trace_are_known() -> None:
    assert tracing.LEVELS["trace"] < tracing.LEVELS["debug"] < tracing.LEVELS["error"]


@pytest.mark.parametrize("method", ["to_date", "try_date", "to_datetime", "try_datetime"])
@pytest.mark.parametrize("form", ["", '"%Y-%m-%d"', '"%F"', '"%Y-%m-%dT%H:%M:%S"', '"%Y-%m-%d %H:%M:%S"'])
@pytest.mark.parametrize("text", ["2024-02-29T23:59:59", "2024-02-29", "2024-02-29 23:59:59", "2024-02-30"])
def test_columns_of_iso_texts_are_read_by_their_format(method: str, form: str, text: str) -> None:
    check_agreement(f"emit f = s.{method}({form})", {"s": types.STRING}, [{"s": text}, {"s": None}])
