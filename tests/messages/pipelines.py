"""Mistakes in pipeline files, one in each, with all that `clinker validate` says of them, side by side.

    python -m tests.messages.pipelines           # writes `shown/pipelines.txt` anew

Each block of the file has a title, the lines that the pipeline below has in place of others, and what is said. Read the
difference before you keep it: it is what users see.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

from spark_jobs.cli import clinker

SHOWN = Path(__file__).parent / "shown/pipelines.txt"
_GOOD = """\
pipeline: { name: shop, vars: { rate: 0.2 } }
error_handling: { strategy: continue, dlq: { path: out/dead.csv } }
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: orders.csv
      options: { delimiter: ';' }
      schema:
        - { name: id, type: int }
        - { name: customer, type: string }
        - { name: price, type: float }
        - { name: day, type: date, format: '%d.%m.%Y' }

  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        filter price > 0
        emit gross = (price * 1.2).round(2)

  - type: aggregate
    name: totals
    input: priced
    config:
      group_by: [customer]
      cxl: |
        emit total = sum(gross)

  - type: output
    name: report
    input: totals
    config:
      type: csv
      path: out/report.csv
"""
#: Lists that grow with each key, format and node type.
_LISTS = re.compile(r"(allowed here:|is none of `csv`,|types: aggregate,)(?:(?!; did you)[^\n])*")
#: A mistake, what is replaced, and by what.
_MISTAKES = [
    ("name of a node misspelt", "input: priced\n", "input: prced\n"),
    ("type misspelt", "type: transform", "type: tranform"),
    ("type of SQL in capitals", "type: aggregate", "type: AGGREGATE"),
    ("type of another tool", "type: transform", "type: select"),
    ("type of a join", "type: transform", "type: join"),
    ("column of an output with table", "path: out/report.csv", "path: out/report.csv\n      columns: [totals.total]"),
    ("name of the source in a list of columns", "group_by: [customer]", "group_by: [priced.customer]"),
    ("format misspelt", "type: csv\n      path: orders", "type: cvs\n      path: orders"),
    ("format of another tool", "type: csv\n      path: orders", "type: tsv\n      path: orders"),
    ("xls", "type: csv\n      path: orders", "type: xlsx\n      path: orders"),
    ("format as a word", "type: csv\n      path: out", "format: csv\n      path: out"),
    ("key misspelt", "delimiter: ';'", "delimeter: ';'"),
    ("key of pandas", "delimiter: ';'", "sep: ';'"),
    ("header as in pandas", "delimiter: ';'", "header: true"),
    ("option in the wrong place", "path: orders.csv", "path: orders.csv\n      delimiter: ';'"),
    ("delimiter as a word", "delimiter: ';'", "delimiter: tab"),
    ("delimiter with backslash", "delimiter: ';'", "delimiter: '\\t'"),
    ("quote of two characters", "delimiter: ';'", "quote_char: '\"\"'"),
    ("encoding misspelt", "delimiter: ';'", "encoding: utf8-bom"),
    ("encoding of Excel", "delimiter: ';'", "encoding: ansi"),
    ("number as text", "delimiter: ';'", "skip_rows: two"),
    ("negative number", "delimiter: ';'", "skip_rows: -1"),
    ("boolean as text", "delimiter: ';'", "has_header: 'no'"),
    ("column type misspelt", "type: int }", "type: integr }"),
    ("column type of SQL", "type: string }", "type: varchar(20) }"),
    ("column type decimal(10,2)", "type: float }", "type: decimal(10,2) }"),
    ("column type number", "type: float }", "type: number }"),
    ("column type timestamp", "type: date, format: '%d.%m.%Y'", "type: timestamp"),
    ("column without a type", "{ name: id, type: int }", "{ name: id }"),
    ("column twice", "{ name: customer, type: string }", "{ name: id, type: string }"),
    ("date format of SQL", "%d.%m.%Y", "DD.MM.YYYY"),
    ("date format of Java", "%d.%m.%Y", "dd.MM.yyyy"),
    ("format on a text", "{ name: customer, type: string }", "{ name: customer, type: string, format: '%Y' }"),
    ("decimal comma without quotes", "type: float }", "type: float, decimal_separator: , }"),
    ("field misspelt in CXL", "price > 0", "prize > 0"),
    ("field of SQL with table", "price > 0", "orders.price > 0"),
    ("assignment without emit", "emit gross = (price * 1.2).round(2)", "gross = (price * 1.2).round(2)"),
    ("text compared with number", "price > 0", "customer > 0"),
    ("text and number added", "(price * 1.2).round(2)", "customer + price"),
    ("aggregate in a transform", "(price * 1.2).round(2)", "sum(price)"),
    ("aggregate in capitals", "sum(gross)", "SUM(gross)"),
    ("count(*)", "sum(gross)", "count(*)"),
    ("field not in group", "sum(gross)", "gross"),
    ("group_by unknown", "[customer]", "[custmer]"),
    ("group_by as text", "[customer]", "customer"),
    ("group_by missing", "      group_by: [customer]\n", ""),
    ("input missing", "    input: totals\n", ""),
    ("input as list", "input: totals", "input: [totals, priced]"),
    ("output feeds on itself", "input: totals", "input: report"),
    ("cycle", "    input: orders\n", "    input: totals\n"),
    ("two nodes of one name", "name: totals\n", "name: priced\n"),
    ("name with a blank", "name: priced\n", "name: priced orders\n"),
    ("name that begins with a digit", "name: priced\n", "name: 2priced\n"),
    (
        "cxl without a bar",
        "cxl: |\n        filter price > 0\n        emit gross = (price * 1.2).round(2)",
        "cxl: filter price > 0",
    ),
    ("cxl as a list", "cxl: |\n        emit total = sum(gross)", "cxl: [emit total = sum(gross)]"),
    ("cxl misspelt key", "      cxl: |\n        emit total", "      sql: |\n        emit total"),
    ("path missing", "      path: out/report.csv\n", ""),
    ("absolute path", "path: out/report.csv", "path: /tmp/report.csv"),
    ("path of Windows", "path: out/report.csv", "path: C:\\data\\report.csv"),
    ("path leaves the folder", "path: out/report.csv", "path: ../report.csv"),
    ("two outputs in one file", "path: out/report.csv", "path: out/dead.csv"),
    ("strategy misspelt", "strategy: continue", "strategy: contine"),
    ("strategy of another tool", "strategy: continue", "strategy: skip"),
    ("dlq as a text", "dlq: { path: out/dead.csv }", "dlq: out/dead.csv"),
    ("variable misspelt", "1.2).round", "$vars.rat).round"),
    ("variable without vars", "1.2).round", "$rate).round"),
    ("variable of the shell", "path: orders.csv", "path: ${ORDERS}"),
    ("template of Jinja", "path: orders.csv", "path: '{{ ds }}.csv'"),
    ("nodes misspelt", "nodes:", "node:"),
    ("pipeline without a name", "name: shop, ", ""),
    ("pipeline misspelt", "pipeline:", "pipline:"),
    ("config missing", "    config:\n      group_by: [customer]\n      cxl: |\n        emit total = sum(gross)\n", ""),
    (
        "config not indented",
        "    config:\n      type: csv\n      path: orders.csv",
        "    config:\n    type: csv\n    path: orders.csv",
    ),
    ("schema as a mapping of lists", "        - { name: id, type: int }", "        - id: int"),
    ("invisible character in a name", "input: priced", "input: priced\u200b"),
    ("no-break space in CXL", "price > 0", "price\u00a0> 0"),
    ("invisible character in a key", "delimiter:", "delimiter\u200b:"),
    ("curly quotes in YAML", "delimiter: ';'", "delimiter: “;”"),
    ("cyrillic letter", "input: totals", "input: t\u043etals"),
    ("two paths", "path: orders.csv", "path: [a.csv, b.csv]"),
    ("column as a word", "        - { name: id, type: int }", "        - id"),
    ("columns under fields", "schema:\n        - { name: id", "schema:\n        fields:\n        - { name: id"),
    ("column of another tool", "{ name: id, type: int }", "{ column: id, type: int }"),
    ("column that is not nullable", "{ name: id, type: int }", "{ name: id, type: int, nullable: false }"),
    ("column that is a primary key", "{ name: id, type: int }", "{ name: id, type: int, primary_key: true }"),
    ("column with a default", "{ name: id, type: int }", "{ name: id, type: int, default: 0 }"),
    ("column type bigint", "{ name: id, type: int }", "{ name: id, type: bigint }"),
    ("column type of pandas", "type: float }", "type: Float64 }"),
    ("null among words for null", "type: string }", "type: string, null_values: [NULL, n/a] }"),
    ("a word for the decimal comma", "type: float }", "type: float, decimal_separator: comma }"),
    ("points between groups alone", "type: float }", "type: float, thousands_separator: '.' }"),
    ("a city as time zone", "type: date, format: '%d.%m.%Y'", "type: date_time, timezone: Berlin"),
    ("date format without quotes", "format: '%d.%m.%Y'", "format: %d.%m.%Y"),
    ("a pattern without quotes", "path: orders.csv", "path: *.csv"),
    ("quote that is never closed", "format: '%d.%m.%Y'", "format: '%d.%m.%Y"),
    ("brace that is never closed", "{ name: id, type: int }", "{ name: id, type: int"),
    ("tabs", "    config:\n      type: csv\n      path: orders.csv", "\tconfig:\n\t  type: csv\n\t  path: orders.csv"),
    ("dash forgotten", "  - type: transform\n    name: priced", "  type: transform\n    name: priced"),
    ("no space after a colon", "name: priced\n", "name:priced\n"),
    ("one space too many", "    input: priced\n    config", "     input: priced\n    config"),
    ("nodes as a mapping", "nodes:\n", "nodes: {}\nx:\n"),
    ("emit of all columns", "emit gross = (price * 1.2).round(2)", "emit *"),
    ("two fields in one emit", "emit gross = (price * 1.2).round(2)", "emit gross = price, net = price"),
    ("per cent", "(price * 1.2).round(2)", "price * 20%"),
    ("decimal comma in CXL", "(price * 1.2).round(2)", "price * 1,2"),
    ("digits grouped in CXL", "(price * 1.2).round(2)", "price * 1_000"),
    ("parenthesis that is never closed", "(price * 1.2).round(2)", "(price * 1.2"),
    ("case of SQL", "(price * 1.2).round(2)", "case when price > 1 then 'a' else 'b' end"),
    ("between of SQL", "price > 0", "price between 1 and 5"),
    ("null compared", "price > 0", "price == null"),
    (
        "window of SQL",
        "      cxl: |\n        filter price > 0",
        "      analytic_window: { partition_by: [customer], order_by: [day] }\n      cxl: |\n        filter price > 0",
    ),
    ("having", "group_by: [customer]", "group_by: [customer]\n      having: total > 5"),
    ("order by in an aggregate", "group_by: [customer]", "group_by: [customer]\n      order_by: [total]"),
    ("order as in SQL", "path: out/report.csv", "path: out/report.csv\n      sort_order: [total desc]"),
    ("limit", "path: out/report.csv", "path: out/report.csv\n      limit: 10"),
    ("mode of Spark", "path: out/report.csv", "path: out/report.csv\n      mode: overwrite"),
    ("columns in one text", "path: out/report.csv", "path: out/report.csv\n      columns: total, customer"),
    (
        "inputs of a combine as a list",
        "type: aggregate\n    name: totals\n    input: priced",
        "type: combine\n    name: totals\n    inputs: [priced, orders]",
    ),
    ("dead letters switched on", "dlq: { path: out/dead.csv }", "dlq: true"),
    ("variables in one text", "vars: { rate: 0.2 }", "vars: rate=0.2"),
    ("most errors", "strategy: continue", "strategy: continue, max_errors: 10"),
    ("memory beside the name", "name: shop,", "name: shop, memory_limit: 2G,"),
    ("memory in words", "name: shop,", "name: shop, memory: { limit: 2 gigs },"),
    ("memory as a number of words", "name: shop,", "name: shop, memory: 2G,"),
    ("quotes repaired without a quote", "delimiter: ';'", "quote_char: '', quotes: repair"),
]


def said() -> dict[str, str]:
    """What is said of each mistake, by its title."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for title, old, new in _MISTAKES:
            assert _GOOD.count(old), title
            Path("p.yaml").write_text(_GOOD.replace(old, new, 1), encoding="utf-8")
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                clinker.main(["validate", "--no-inputs", "p.yaml"])
            found[title] = _LISTS.sub(r"\1 …", out.getvalue() + err.getvalue())
    return found


def shown() -> str:
    """The file of all of them."""
    return "".join(f"## {title}\n\n{text.rstrip()}\n\n" for title, text in said().items())


if __name__ == "__main__":
    os.environ.pop("ORDERS", None)
    SHOWN.write_text(shown(), encoding="utf-8")
