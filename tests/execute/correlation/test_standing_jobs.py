"""Passes that know more than the one before: jobs and tasks that would do the same again are left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.formats import splits
from tests.execute import pipelines

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.execute.tasks.spec import JobSpec
    from spark_jobs.execute.tasks.task_inputs import Load

#: Orders look up their customers, who are written down by a job of their own.
PIPELINE = """
pipeline: {{name: standing}}
error_handling: {{strategy: continue, dlq: {{path: out/dead.csv}}}}
nodes:
  - type: source
    name: orders
    config:
      {{type: csv, path: orders.csv, correlation_key: ord, schema: {{ord: string, customer: int, amount: string}}}}
  - type: source
    name: customers
    config: {{type: csv, path: customers.csv, {customers_key} schema: {{id: int, name: string, rate: int}}}}
  - {{type: transform, name: rated, input: customers, config: {{cxl: "emit share = 100 / rate"}}}}
  - type: combine
    name: priced
    input: {{o: orders, c: rated}}
    config:
      where: o.customer == c.id
      match: first
      on_miss: null_fields
      propagate_ck: {propagated}
      cxl: |
        emit ord = o.ord
        emit name = c.name
        emit amount = o.amount
        emit share = c.share
  - {{type: transform, name: parsed, input: priced, config: {{cxl: "emit amount = amount.to_int() * share"}}}}
  - {{type: output, name: prices, input: parsed, config: {{type: csv, path: out/prices.csv}}}}
"""


def _files(*, bad_rate: bool = False, names: str = "ann bob eve", **pipeline: str) -> dict[str, str]:
    """Forty orders of five lines each, those of one beside each other; a line of the fourth has no amount."""
    told = {"customers_key": "", "propagated": "driver"} | pipeline
    lines = [f"{number // 5},{number % 3},{'many' if number == 18 else number}" for number in range(200)]
    rates = ["10", "20", "0" if bad_rate else "50"]
    customers = [f"{number},{name},{rates[number]}" for number, name in enumerate(names.split())]
    return {
        "orders.csv": "\n".join(["ord,customer,amount", *lines, ""]),
        "customers.csv": "\n".join(["id,name,rate", *customers, ""]),
        "pipeline.yaml": PIPELINE.format(**told),
    }


def _without_ids(found: dict[str, bytes]) -> dict[str, bytes]:
    """Each entry begins with an id and a time of its own."""
    return found | {"dead.csv": b"\n".join(line.split(b",", 2)[-1] for line in found["dead.csv"].splitlines())}


@pytest.fixture
def ran(tmp_path: Path, jobs: list[JobSpec], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs in small splits; gives the files and the loads of each job that ran.

    The files are those of a run in one split each.
    """

    def run(files: dict[str, str]) -> tuple[dict[str, bytes], list[tuple[int, list[Load]]]]:
        pipelines.write(tmp_path, files)
        assert pipelines.run(tmp_path, force=True).result.exit_code == 2
        expected = _without_ids(pipelines.outputs(tmp_path))
        jobs.clear()
        monkeypatch.setenv(splits.SPLIT_BYTES_VARIABLE, "256")
        outcome = pipelines.run(tmp_path, force=True)
        assert outcome.result.exit_code == 2, outcome.result.error
        monkeypatch.delenv(splits.SPLIT_BYTES_VARIABLE)
        assert _without_ids(pipelines.outputs(tmp_path)) == expected
        return expected, [(spec.job.number, list(spec.loads)) for spec in jobs]

    return run


def test_a_build_side_is_read_once_and_orders_where_one_failed(ran: Any) -> None:
    found, came = ran(_files())
    assert len(found["prices.csv"].splitlines()) == 1 + 195
    assert len(found["dead.csv"].splitlines()) == 1 + 5
    assert [number for number, _ in came] == [0, 1, 1]
    (_, first), (_, again) = (each for each in came if each[0] == 1)
    assert len(first) > 4
    assert 0 < len(again) <= 2


def test_a_build_side_that_loses_a_record_is_made_again_and_so_is_everything_behind(ran: Any) -> None:
    """Then it stands, while the order is found that fails in any case."""
    found, came = ran(_files(bad_rate=True))
    assert b"eve" not in found["prices.csv"]
    assert len(found["dead.csv"].splitlines()) == 1 + 1 + 5
    assert [number for number, _ in came] == [0, 1, 0, 1, 1]
    first, second, third = (len(loads) for number, loads in came if number == 1)
    assert first == second > third > 0


def test_groups_of_joined_records_reject_rows_of_any_task(ran: Any) -> None:
    """Whose rows are of the group of a customer is known only where it was looked up, so all are looked up again."""
    found, came = ran(
        _files(bad_rate=True, names="ann bob ann", customers_key="correlation_key: name,", propagated="all")
    )
    assert b"ann" not in found["prices.csv"]
    assert [number for number, _ in came] == [0, 1, 0, 1, 0, 1, 2], "the third writes all records down for others"
    assert len(came[1][1]) == len(came[3][1])


def test_groups_of_records_that_are_joined_to_others_of_their_source_reject_rows_of_any_task(ran: Any) -> None:
    """A row stands with the order that was joined to it, which another task has read."""
    files = _files()
    files["pipeline.yaml"] = (
        PIPELINE.split("  - type: source\n    name: customers")[0].format()
        + """
  - type: combine
    name: pairs
    input: {o: orders, n: orders}
    config:
      where: o.customer == n.customer
      match: first
      propagate_ck: all
      cxl: |
        emit ord = o.ord
        emit next = n.ord
        emit amount = o.amount
  - {type: transform, name: parsed, input: pairs, config: {cxl: "emit amount = amount.to_int()"}}
  - {type: output, name: prices, input: parsed, config: {type: csv, path: out/prices.csv}}
"""
    )
    lines = ["3,0,0", *files["orders.csv"].splitlines()[1:]]
    files["orders.csv"] = "\n".join(["ord,customer,amount", *lines, ""])
    found, _ = ran(files)
    # The first record of customer 0 is of the rejected order, and was joined to all others of that customer.
    amounts = [int(line.split(b",")[-1]) for line in found["prices.csv"].splitlines()[1:]]
    assert {amount % 3 for amount in amounts} == {1, 2}
