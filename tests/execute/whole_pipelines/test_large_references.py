"""A rule that refers to more values than a task may hold ends the run, and says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: p}
nodes:
  - {type: source, name: customers, config: {type: csv, path: customers.csv, schema: {id: string}}}
  - {type: source, name: orders, config: {type: csv, path: orders.csv, schema: {customer: string}}}
  - type: output
    name: o
    input: orders
    config:
      type: csv
      path: out/o.csv
      validations: [{references: {columns: customer, source: customers, to: id}}]
"""


@pytest.mark.parametrize(("count", "code"), [(1_000, None), (60_000, "E310")])
def test_values_that_fit_no_task_end_the_run(
    count: int, code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_spark.install(monkeypatch)
    known = [f"{number:0100}" for number in range(count)]
    files = {"customers.csv": "id\n" + "\n".join(known) + "\n", "orders.csv": f"customer\n{known[0]}\n{known[-1]}\n"}
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, **files})
    result = pipelines.run(tmp_path, threads=1, memory_limit_bytes=8 << 20).result
    if code is None:
        assert result.error is None, result.error
        assert (tmp_path / "out/o.csv").read_text() == files["orders.csv"]
        return
    assert result.error is not None
    assert (result.exit_code, result.error.code) == (1, code)
    for words in (
        "the values of 'customers', which validation 'references: customer' refers to,",
        "raise memory.limit",
    ):
        assert words in result.error.message
    assert not (tmp_path / "out/o.csv").exists()
