"""The documentation is true: what it shows is what comes out."""

from __future__ import annotations

import csv
import doctest
import importlib
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing, redirect_stderr, redirect_stdout
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from spark_jobs import plan
from spark_jobs.cli import clinker
from spark_jobs.cli.cxl import command as cxl_command
from spark_jobs.cxl import types
from spark_jobs.cxl.builtins import declare
from spark_jobs.cxl.syntax import parser
from tests import iceberg_tables
from tests.cxl.both_engines import check_agreement
from tests.execute import without_spark
from tests.pages import FENCE, PAGES, ROOT, blocks, shown

if TYPE_CHECKING:
    from tests.object_store import AnyBucket


def matches(wanted: str, got: str) -> bool:
    return doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)


def run(command: str) -> str:
    """What a command prints; `clinker` runs in this process, without Spark."""
    words = command.split()
    if words[0] != "clinker":
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        clinker.main(words[1:])
    return printed.getvalue()


def check_console(text: str) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, wanted = part.partition("\n")
        got = run(command)
        assert matches(wanted, got), f"$ {command}\n{got}"


def check_python(text: str, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, "tour", "docs/tour.md", 0)
    report = io.StringIO()
    doctest.DocTestRunner().run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert report.getvalue() == ""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of the example, and of the one with the tour's mistake."""
    orders = tmp_path / "examples" / "orders"
    shutil.copytree(ROOT / "examples" / "orders", orders, ignore=shutil.ignore_patterns("output"))
    text = (orders / "pipeline.yaml").read_text(encoding="utf-8")
    (orders / "wrong.yaml").write_text(text.replace("filter status", "filter statis"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    return tmp_path


def test_the_tour_is_true(elsewhere: Path) -> None:
    names: dict[str, Any] = {}
    seen = set()
    for language, _, text in FENCE.findall((ROOT / "docs/tour.md").read_text(encoding="utf-8")):
        seen.add(language)
        if language == "console":
            check_console(text)
        elif language == "python":
            check_python(text, names)
    assert seen == {"console", "python"}


def test_the_page_on_reuse_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _, name, text in FENCE.findall((ROOT / "docs/reuse.md").read_text(encoding="utf-8")):
        if name:
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
    assert [str(item) for item in plan.validate("pipeline.yaml")] == []
    commands = blocks(ROOT / "docs/reuse.md", "console")
    assert len(commands) == 2
    for text in commands:
        check_console(text)


@pytest.mark.parametrize("split_bytes", [10**9, 40])
def test_the_page_on_time_windows_is_true(split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", str(split_bytes))
    shown = {name: text for _, name, text in FENCE.findall((ROOT / "docs/time_windows.md").read_text("utf-8")) if name}
    for name in ("pipeline.yaml", "clicks.csv"):
        (tmp_path / name).write_text(shown.pop(name), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with redirect_stderr(io.StringIO()):
        assert clinker.main(["run", "pipeline.yaml"]) == 2
    assert {name: (tmp_path / name).read_text("utf-8") for name in shown} == shown
    (late,) = csv.DictReader((tmp_path / "dead.csv").open(encoding="utf-8"))
    assert (late["_cxl_dlq_source_row"], late["_cxl_dlq_error_category"]) == ("6", "late_record")


def test_the_page_on_correlation_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    page = ROOT / "docs/correlation.md"
    for _, name, text in FENCE.findall(page.read_text(encoding="utf-8")):
        if name:
            Path(name).write_text(text, encoding="utf-8")
    (further,) = blocks(page, "yaml")
    text = Path("pipeline.yaml").read_text(encoding="utf-8")
    Path("further.yaml").write_text(
        text.replace("  - type: output\n", f"{further}\n  - type: output\n"), encoding="utf-8"
    )
    assert [str(item) for item in plan.validate("further.yaml") if item.is_error] == []
    for text in blocks(page, "console"):
        check_console(text)


def test_invoices_are_posted_whole_or_not_at_all_and_again_when_they_are_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples/invoices", tmp_path / "invoices", ignore=shutil.ignore_patterns("output"))
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    assert clinker.main(["run", "invoices/pipeline.yaml"]) == 2
    expected = sorted(Path("invoices/expected").iterdir())
    assert [path.name for path in expected] == sorted(path.name for path in Path("invoices/output").iterdir())
    for path in expected:
        wanted, found = rows_of(path), rows_of(Path("invoices/output") / path.name)
        assert len(found) == len(wanted)
        for row, pattern in zip(found, wanted, strict=True):
            assert ["*" if want == "*" else cell for cell, want in zip(row, pattern, strict=True)] == pattern
    rejected = Path("invoices/output/rejected_lines.csv").read_text()
    Path("invoices/mended.csv").write_text(rejected.replace("4oo", "400"))
    monkeypatch.setenv("INVOICE_LINES", "mended.csv")
    assert clinker.main(["run", "invoices/pipeline.yaml", "--force"]) == 2
    assert [row[:2] for row in rows_of(Path("invoices/output/postings.csv"))[1:]] == [["I2", "1"], ["I2", "2"]]


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


#: Pages whose programs all run on the one record that they show.
CXL = [ROOT / "docs/cxl.md", ROOT / "docs/semantics/cxl.md"]


@pytest.mark.parametrize("engine", ["interpreter", "arrow"])
@pytest.mark.parametrize(("page", "program"), [(page, program) for page in CXL for program in blocks(page, "cxl")])
def test_the_pages_on_cxl_are_true(page: Path, program: str, engine: str) -> None:
    (record,) = blocks(page, "json")
    wanted = program.split("# => ")[1].strip()
    printed = io.StringIO()
    with redirect_stdout(printed):
        cxl_command.main(["eval", "--json", "--engine", engine, "--record", record, "-e", program])
    told = json.loads(printed.getvalue())
    if wanted.startswith("fails: "):
        assert told["status"] == "failed"
        assert told["message"].endswith(wanted.removeprefix("fails: "))
    else:
        assert told == {"status": "ok", "records": json.loads(wanted)}


def test_the_page_on_object_stores_is_true(tmp_path: Path, bucket: AnyBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    page = ROOT / "docs/stores.md"
    start = {
        "s3": "s3://acme-data/",
        "gs": "gs://acme-data/",
        "abfss": "abfss://data@acme.dfs.core.windows.net/",
        "hdfs": "hdfs://namenode:8020/",
    }
    texts = [text for _, name, text in FENCE.findall(page.read_text(encoding="utf-8")) if name]
    (text,) = [text for text in texts if start[bucket.scheme] in text]
    Path("pipeline.yaml").write_text(text.replace(start[bucket.scheme], bucket.uri("")), encoding="utf-8")
    for name in ("2026-01", "2026-02", "2026-02-test", "2025-12"):
        bucket.put(f"in/{name}.csv", f"order_id,amount\n1,99.5\n{name[5:7]},100.5\n")
    (command,) = blocks(page, "sh")
    assert clinker.main(command.split()[1:]) == 0
    if bucket.scheme == "s3":
        written = bucket.get("out/large_orders.csv").decode()
        assert written == "order_id,amount,day\n1,100.5,2026-01\n2,100.5,2026-02\n"
    else:
        table = pq.read_table(io.BytesIO(bucket.get("out/orders.parquet")))
        assert table.to_pydict() == {"order_id": [1, 1, 1, 2, 1, 2], "amount": [99.5, 100.5] * 3}


def test_the_page_on_messy_files_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    page = (ROOT / "docs/messy-files.md").read_text("utf-8")
    for name, amounts in (("jan", "1.5"), ("feb", "2")):
        Path(f"{name}.csv").write_text(f"id,amount\n1,{amounts}\n2,{amounts}\n", encoding="utf-8")
    for language, name, text in FENCE.findall(page):
        if language == "csv":
            Path(name).write_text(text, encoding="cp1252", newline="\r\n")
        elif name == "changes.yaml":
            pipeline = Path("sales/pipeline.yaml")
            before, _, after = pipeline.read_text("utf-8").partition("  - type: output\n")
            pipeline.write_text(before + text + "\n" + after[after.index("error_handling:") :], encoding="utf-8")
        elif language == "console":
            check_console(text)


RECIPES = sorted((ROOT / "docs/recipes").glob("*.md"))


def _write(name: str, text: str) -> None:
    """Write a file of a page; `budget.xlsx/January` is a sheet of a workbook."""
    path = Path(name)
    if path.parent.suffix != ".xlsx":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    book = openpyxl.load_workbook(path.parent) if path.parent.exists() else openpyxl.Workbook()
    sheet = book.create_sheet(path.name)
    for cells in csv.reader(text.splitlines()):
        sheet.append([float(cell) if re.fullmatch(r"[\d.]+", cell) else cell for cell in cells])
    book.save(path.parent)


@pytest.mark.parametrize("page", RECIPES, ids=shown)
def test_the_recipes_are_true(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    for section in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE):
        wanted = next((int(code) for code in re.findall(r"exits\s+with (\d)", section)), 0)
        title = section.partition("\n")[0]
        for language, name, text in FENCE.findall(section):
            if language == "console":
                check_console(text)
            elif name.startswith("out/"):
                assert Path(name).read_text("utf-8") == text, f"{title}: {name}"
            elif name:
                _write(name, text)
            if name.endswith(".yaml"):
                assert clinker.main(["run", name, "--quiet"]) == wanted, title


def test_each_recipe_is_listed_and_shows_what_comes_out() -> None:
    listed = re.findall(r"^- \[(.*)\]\((.*)\.md#", (ROOT / "docs/recipes.md").read_text("utf-8"), re.MULTILINE)
    found, shows = [], 0
    for page in RECIPES:
        for section in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
            found.append((section.partition("\n")[0], f"recipes/{page.stem}"))
            names = [name for _, name, _ in FENCE.findall(section)]
            has_output = any(name.startswith("out/") for name in names) or "exits with 3" in section
            assert has_output or not any(name.endswith(".yaml") for name in names), found[-1]
            shows += has_output
    assert sorted(listed) == sorted(found)
    assert shows >= 40


def test_the_page_on_excel_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    ((_, name, text),) = [found for found in FENCE.findall((ROOT / "docs/excel.md").read_text("utf-8")) if found[1]]
    Path(name).write_text(text, encoding="utf-8")
    book = openpyxl.Workbook()
    book.active.append(["a note"])
    for month in ("2026-01", "2026-02"):
        sheet = book.create_sheet(month)
        header = ["account", "amount", "due", "by"]
        for row, cells in enumerate([header, ["A1", 10.5, date(2026, 1, 5), "me"], ["A2", "n/a", None, None]], 3):
            for column, value in enumerate(cells, 2):
                sheet.cell(row, column, value)
    book["2026-02"]["C4"] = "#DIV/0!"
    book.save("budget.xlsx")
    assert clinker.main(["run", name]) == 2
    written = openpyxl.load_workbook("out/due.xlsx")["Due"].iter_rows(values_only=True)
    due = ("A1", 10.5, datetime(2026, 1, 5), "2026-01", "me")
    assert [*written] == [("account", "amount", "due", "month", "by"), due]
    (letter,) = csv.DictReader(Path("out/dead_letters.csv").read_text().splitlines())
    assert letter["_cxl_dlq_error_detail"].endswith("the cell has the error #DIV/0! (cell '2026-02'!C4)")
    assert (letter["account"], letter["amount"]) == ("A1", "#DIV/0!")


def test_the_page_on_databases_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    ((_, name, text),) = [found for found in FENCE.findall((ROOT / "docs/databases.md").read_text("utf-8")) if found[1]]
    Path(name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("CLINKER_CONNECTION_WAREHOUSE", "sqlite:///sales.db")
    with closing(sqlite3.connect("sales.db")) as opened, opened:
        opened.execute("CREATE TABLE orders (order_id INTEGER PRIMARY KEY, product TEXT, quantity)")
        opened.execute("INSERT INTO orders VALUES (1, 'pen', 3), (2, 'ink', 'two'), (3, 'pen', 1)")
        opened.execute("CREATE TABLE prices (product TEXT, price REAL, is_current INTEGER)")
        opened.execute("INSERT INTO prices VALUES ('pen', 9, 0), ('pen', 1.5, 1), ('ink', 2, 1)")
    assert clinker.main(["run", name]) == 2
    assert Path("out/totals.csv").read_text() == "order_id,total\n1,4.5\n3,1.5\n"
    assert "warehouse:orders,orders,2," in Path("out/dead_letters.csv").read_text()


def test_the_page_on_delta_tables_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    ((_, name, text),) = [found for found in FENCE.findall((ROOT / "docs/delta.md").read_text("utf-8")) if found[1]]
    Path(name).write_text(text, encoding="utf-8")
    for month in (12, 1, 2):
        days = [date(2025 if month == 12 else 2026, month, day) for day in (1, 2)]
        rows = pa.table({"order_id": [month * 10, month * 10 + 1], "day": days, "quantity": ["1", "two"]})
        write_deltalake("lake/orders", rows, mode="append", partition_by=["day"])
    assert clinker.main(["run", name]) == 2
    assert Path("out/january.csv").read_text() == "order_id,day,quantity\n10,2026-01-01,1\n"
    assert len(Path("out/dead_letters.csv").read_text().splitlines()) == 4


def test_the_page_on_iceberg_tables_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    for _, name, text in FENCE.findall((ROOT / "docs/iceberg.md").read_text("utf-8")):
        if name:
            Path(name).write_text(text, encoding="utf-8")
    Path("lake").mkdir()
    catalog = load_catalog(
        "lake", uri=f"sqlite:///{tmp_path}/lake/catalog.db", warehouse=f"file://{tmp_path}/lake/warehouse"
    )
    for month in (12, 1, 2):
        days = [date(2025 if month == 12 else 2026, month, day) for day in (1, 2)]
        rows = pa.table({"order_id": [month * 10, month * 10 + 1], "day": days, "quantity": ["1", "two"]})
        iceberg_tables.append(catalog, "shop.orders", rows, partition_by="day")
    assert clinker.main(["run", "pipeline.yaml"]) == 2
    (found,) = iceberg_tables.rows(catalog, "shop.january", "order_id")
    assert found == {"order_id": 10, "day": date(2026, 1, 1), "quantity": 1}
    assert len(Path("out/dead_letters.csv").read_text().splitlines()) == 4


def test_the_page_on_incremental_sources_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    page = FENCE.findall((ROOT / "docs/incremental.md").read_text("utf-8"))
    ((_, name, text),) = [found for found in page if found[1]]
    Path(name).write_text(text, encoding="utf-8")
    Path("incoming/mon").mkdir(parents=True)
    for number, each in enumerate(("incoming/a.csv", "incoming/mon/b.csv")):
        Path(each).write_text(f"order_id,amount\n{number},1.5\n")
        assert clinker.main(["run", name, "--force"]) == 0
        assert max(Path("out").glob("*.csv"), key=os.path.getmtime).read_text() == f"order_id,amount\n{number},1.5\n"
    (console,) = [text for language, _, text in page if language == "console"]
    check_console(console)


def test_the_page_on_data_rules_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    without_spark.install(monkeypatch)
    page = FENCE.findall((ROOT / "docs/data_rules.md").read_text("utf-8"))
    for language, name, text in page:
        if name:
            Path(name).write_text(text, encoding="utf-8")
        elif language == "console":
            check_console(text)
    assert Path("out/orders.csv").read_text("utf-8") == "order_id,customer,amount\n1,ann,10.5\n2,bob,20\n3,cy,7.5\n"
    (dead,) = csv.DictReader(io.StringIO(Path("out/dead.csv").read_text("utf-8")))
    detail = dead["_cxl_dlq_error_detail"]
    assert f"`{detail}`" in (ROOT / "docs/data_rules.md").read_text("utf-8")


def test_the_builtin_that_contributing_adds_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"^   ```python\n(.*?)^   ```$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S)
    assert found is not None
    text = "from __future__ import annotations\nfrom spark_jobs.cxl.builtins.declare import Bool, String, method\n"
    (tmp_path / "contributed.py").write_text(text + textwrap.dedent(found.group(1)), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("contributed")
    builtin = declare.registry()["String.is_ascii"]
    monkeypatch.delitem(sys.modules, "contributed")
    try:
        for example, result in builtin.examples:
            receiver = example.split(".")[0].strip('"')
            outcomes = check_agreement("emit r = s.is_ascii()", {"s": types.STRING}, [{"s": receiver}, {"s": None}])
            assert [outcome.outputs[0][0]["r"] for outcome in outcomes] == [result == "true", None]
    finally:
        del declare.registry()["String.is_ascii"]


def test_what_does_not_come_out_is_found(elsewhere: Path) -> None:
    with pytest.raises(AssertionError, match="order_id"):
        check_console("$ head -1 examples/orders/input/orders.csv\nnothing\n")
    with pytest.raises(AssertionError, match="Expected"):
        check_python(">>> 1 + 1\n3\n", {})


PIPELINES = [
    pytest.param(text, id=f"{shown(page)}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "yaml"))
    if isinstance(found := yaml.load(text, yaml.CSafeLoader), dict) and {"pipeline", "nodes"} <= set(found)
]


@pytest.mark.parametrize("text", PIPELINES)
def test_whole_pipelines_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(text, encoding="utf-8")
    assert [str(item) for item in plan.validate(tmp_path / "pipeline.yaml") if item.is_error] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_cxl_parses(page: Path) -> None:
    for text in blocks(page, "cxl"):
        for line in text.splitlines() if "reference" in str(page) else [text]:
            assert [problem.message for problem in parser.parse(line).problems] == []
