"""A pipeline in which groups are rejected, rows fail, and records are taken back, with an input to any size."""

from __future__ import annotations

#: Lines of orders and accounts. Lines without a number fail, totals of some accounts are refused, rows of some orders
#: too, one of them behind a merge that has cut its key; the group of an order is too large.
PIPELINE = """
    pipeline: {name: correlated}
    error_handling: {strategy: continue, max_group_buffer: 60, dlq: {path: out/dead.csv}}
    nodes:
      - type: source
        name: lines
        config:
          {type: csv, path: lines.csv, correlation_key: ord, on_unmapped: drop,
           schema: {ord: string, account: string, line: int, v: string}}
      - type: source
        name: accounts
        config:
          {type: csv, path: accounts.csv, correlation_key: account, on_unmapped: drop,
           schema: {account: string, owner: string, rate: int}}
      - {type: transform, name: parsed, input: lines, config: {cxl: emit v = v.to_int()}}
      - type: combine
        name: priced
        input: {l: parsed, a: accounts}
        config:
          where: l.account == a.account
          match: first
          on_miss: null_fields
          propagate_ck: all
          cxl: |
            emit ord = l.ord
            emit account = l.account
            emit line = l.line
            emit v = l.v * 100 / a.rate
      - {type: aggregate, name: orders, input: priced, config: {group_by: [ord, account], cxl: emit total = sum(v)}}
      - {type: aggregate, name: books, input: parsed, config: {group_by: [account], cxl: emit total = sum(v)}}
      - {type: aggregate, name: sums, input: parsed, config: {group_by: [ord], cxl: emit total = sum(v)}}
      - {type: aggregate, name: owners, input: accounts, config: {group_by: [account], cxl: emit total = sum(rate)}}
      - type: transform
        name: booked
        input: books
        config: {cxl: "emit left = 900 - total", validations: [{name: budget, check: left >= 0, message: over budget}]}
      - {type: transform, name: orders_shown, input: sums, config: {cxl: emit account = ord}}
      - {type: transform, name: owners_shown, input: owners, config: {cxl: emit ord = account}}
      - {type: merge, name: totals, inputs: [orders_shown, owners_shown]}
      - {type: transform, name: checked, input: totals, config: {cxl: emit ok = 1 / (total - 77)}}
      - type: aggregate
        name: everything
        input: sums
        config: {group_by: [], cxl: "emit total = sum(total)\\nemit ord = any(ord)"}
      - type: output
        name: o1
        input: priced
        config: {type: csv, path: out/lines.csv, include_correlation_keys: true}
      - {type: output, name: o2, input: orders, config: {type: csv, path: out/orders.csv}}
      - {type: output, name: o3, input: booked, config: {type: csv, path: out/booked.csv, sort_order: [account]}}
      - {type: output, name: o4, input: checked, config: {type: json, path: out/checked.json}}
      - {type: output, name: o5, input: everything, config: {type: csv, path: out/everything.csv}}
"""


def files(count: int, run: str = "") -> dict[str, str]:
    """The inputs: so many lines; all lines of a run can be told by its name."""
    lines = ["ord,account,line,v"]
    for number in range(count):
        order = 0 if number % 5 == 0 and number < 400 else number // 4 + 1
        amount = "?" if number % 97 == 50 else "77" if number % 89 == 7 else str(number % 13 + 1)
        lines.append(f"{run}{order},{run}a{number * 7 % 40 if number % 3 else 3},{number},{amount}")
    accounts = [f"{run}a{number},n{number % 5},{0 if number == 11 else number + 40}" for number in range(38)]
    return {
        "lines.csv": "\n".join(lines) + "\n",
        "accounts.csv": "\n".join(["account,owner,rate", *accounts]) + "\n",
        "pipeline.yaml": PIPELINE,
    }
