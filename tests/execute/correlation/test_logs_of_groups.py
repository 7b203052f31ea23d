"""Log lines of pipelines with correlation keys: passes that are repeated leave nothing out, and say nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from tests.execute import pipelines, without_spark
from tests.execute.correlation.test_correlation import output
from tests.execute.correlation.test_retraction import HEAD, summed

if TYPE_CHECKING:
    from pathlib import Path

#: Records 2 and 6 have a zero; totals of k1 and k2 are 5, of b1 and b2 they are 6, of b4 it is 9.
DATA = "k,a,b,v\nk1,a1,b1,5\nk1,a2,b1,0\nk2,a3,b1,1\nk3,a2,b2,2\nk2,a2,b2,4\nk4,a4,b3,0\nk5,a5,b4,9\n"


@pytest.fixture(params=[1, 4], ids=["whole", "split"])
def told(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)

    def run(pipeline: str, *options: str, exit_code: int = 2) -> list[str]:
        pipelines.write(tmp_path, {"pipeline.yaml": pipeline, "in.csv": DATA})
        if request.param > 1:
            pipelines.with_splits(monkeypatch, tmp_path, "in.csv", request.param)
        assert clinker.main(["run", "pipeline.yaml", "--force", *options]) == exit_code
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if "correlation: " not in line and "dropped" not in line]

    return run


def checked(name: str, node: str, cxl: str, message: str) -> str:
    log = f"{{level: warn, when: on_error, message: '{name} {message}{{_cxl_dlq_error_detail}}'}}"
    return f"      - {{type: transform, name: {name}, input: {node}, config: {{cxl: '{cxl}', log: [{log}]}}}}\n"


@pytest.mark.parametrize("key", ["k", "[k, a]", ""])
def test_a_record_that_fails_is_logged_once_with_keys_as_without(told: Any, key: str) -> None:
    """In both branches that it fails in."""
    head = HEAD.replace("correlation_key: k, ", f"correlation_key: {key}, " if key else "")
    text = head + checked("c", "s", "emit x = 9 / v", message="{a} {_source_row} ")
    text += checked("d", "s", "emit y = 7 / v", message="{a} ") + output("o", "c") + output("p", "d")
    assert sorted(told(text)) == [
        "WARNING c a2 2 row 2: field 'x': division by zero", "WARNING c a4 6 row 6: field 'x': division by zero",
        "WARNING d a2 row 2: field 'y': division by zero", "WARNING d a4 row 6: field 'y': division by zero",
    ]  # fmt: skip


def test_a_record_that_fails_in_a_program_keeps_what_that_has_traced(told: Any) -> None:
    program = 'trace warn "saw " + a\\nemit x = 9 / v'
    text = HEAD + f'      - {{type: transform, name: c, input: s, config: {{cxl: "{program}"}}}}\n'.replace(
        'warn "saw "', 'warn \\"saw \\"'
    )  # fmt: skip
    lines = told(text + output("o", "c"))
    assert sorted(lines) == sorted(
        f"WARNING source_row={row} source_file=in.csv: saw {name}"
        for row, name in enumerate(("a1", "a2", "a3", "a2", "a2", "a4", "a5"), 1)
    )


@pytest.mark.parametrize(
    ("by", "divisor", "rows"),
    [("k", "t - 5", {"k1": 1, "k2": 3}), ("b", "(t - 6) * (t - 9)", {"b1": 1, "b2": 4, "b4": 7})],
)
def test_the_row_of_an_aggregate_that_fails_is_logged_once(
    told: Any, by: str, divisor: str, rows: dict[str, int]
) -> None:
    """Strict and retractable; behind it others depend on the rows, so they are made again without it."""
    text = HEAD + summed("x", "s", by) + checked("c", "x", f"emit z = 1 / ({divisor})", message=f"{{{by}}} ")
    lines = told(text + summed("y", "c", "", "count(*)") + output("o", "y"))
    assert sorted(lines) == [f"WARNING c {name} row {row}: field 'z': division by zero" for name, row in rows.items()]


@pytest.mark.parametrize("key", ["k", ""])
def test_a_warning_of_a_check_names_the_record_also_one_that_fails_behind_it(told: Any, key: str) -> None:
    head = HEAD.replace("correlation_key: k, ", "" if not key else "correlation_key: k, ")
    checks = "validations: [{check: v > 1, severity: warn, message: small}, {check: v < 9, severity: warn}]"
    text = head + f"      - {{type: transform, name: w, input: s, config: {{cxl: emit n = v, {checks}}}}}\n"
    lines = told(text + checked("c", "w", "emit x = 9 / v", message="{a} ") + output("o", "c"))
    place = "WARNING source_row={} source_file=in.csv: transform:w: "
    assert sorted(lines) == sorted([
        *(f"{place.format(row)}small" for row in (2, 3, 6)), f"{place.format(7)}validation 'v < 9' failed",
        "WARNING c a2 row 2: field 'x': division by zero", "WARNING c a4 row 6: field 'x': division by zero",
    ])  # fmt: skip
