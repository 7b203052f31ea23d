"""`clinker run --report`: the page of a run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker, run_page
from tests.execute import pipelines, without_spark

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: "p <1>"}
nodes:
  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {k: string, n: int}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit twice = n * 2"}}
  - {type: route, name: r, input: t, config: {conditions: {big: n > 2}, default: small}}
  - {type: output, name: big, input: r.big, config: {type: csv, path: big.csv}}
  - {type: output, name: small, input: r.small, config: {type: csv, path: small.csv}}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
"""


class Text(HTMLParser):
    """The rows of tables, and the tags that are open at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    without_spark.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    pipelines.write(tmp_path, {"p.yaml": PIPELINE, "in.csv": "k,n\na,1\nb,2\nc,<x>\nd,4\n"})
    return tmp_path


def read(folder: Path) -> tuple[str, list[list[str]]]:
    text = (folder / "run.html").read_text(encoding="utf-8")
    parsed = Text()
    parsed.feed(text)
    assert parsed.open == []
    return text, parsed.rows


def test_the_page_tells_what_became_of_the_records(folder: Path) -> None:
    assert clinker.main(["run", "p.yaml", "--report", "run.html", "--quiet"]) == 2
    text, rows = read(folder)
    assert "succeeded with dead letters" in text
    assert "<title>p &lt;1&gt; succeeded with dead letters</title>" in text
    assert ["t", "transform", "4", "3", "0", "0", "1", ""] in rows
    assert ["small", "output", "2", "2", "0", "0", "0", ""] in rows
    (reason,) = [row for row in rows if "type_coercion_failure" in row]
    assert reason[:3] == ["1", "transform:t", "n"]
    assert "in.csv, row 3" in text
    assert "&lt;x&gt;" in text
    assert "<x>" not in text
    # The numbers of records stand at the edges, those of branches too.
    assert {"big: 1", "small: 2"} <= set(re.findall(r'class="label"[^>]*>([^<]*)<', text))


def test_a_run_that_fails_has_a_page_too(folder: Path) -> None:
    (folder / "p.yaml").write_text(PIPELINE.replace("strategy: continue, dlq: {path: dead.csv}", "strategy: fail_fast"))
    assert clinker.main(["run", "p.yaml", "--report", "run.html", "--quiet"]) == 3
    text, _ = read(folder)
    assert '<span class="end bad">failed</span>' in text
    assert "<h2>Error</h2>" in text
    assert "Files written" not in text


def test_a_page_that_cannot_be_written_does_not_fail_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clinker.main(["run", "p.yaml", "--report", "none/run.html", "--quiet"]) == 2
    assert "the report is not written: none/run.html: No such file or directory" in capsys.readouterr().err
    assert (folder / "big.csv").exists()


def test_credentials_are_left_out() -> None:
    document = {
        "pipeline_name": "p", "exit_code": 4, "started_at": "2026-01-02T03:04:05", "duration_ms": 61_500,
        "error": "cannot reach https://u:marked@host", "records_total": 0, "records_written": 0, "records_dlq": 0,
        "records_filtered": 0, "nodes": {},
        "dlq_reasons": [
            {"stage": "s", "field": None, "category": "c", "count": 1,
             "example": {"file": "f", "row": None, "value": "marked", "detail": "marked"}},
        ],
    }  # fmt: skip
    text = run_page.page(document, None, lambda text: text.replace("marked", "***"))
    assert "marked" not in text
    assert "took 1 min 2 s" in text
