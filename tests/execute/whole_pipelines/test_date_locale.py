"""Date formats in other languages: the names of months and weekdays, read by sources, read and written by CXL."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cxl.dates import strftime
from spark_jobs.plan import date_locale
from tests.execute import pipelines, without_spark
from tests.plan.pipelines import problems

if TYPE_CHECKING:
    from pathlib import Path

PIPELINE = """
pipeline: {name: dates, date_locale: de, date_formats: ["%d. %B %Y", "%a %d %b %y"]}
nodes:
  - type: source
    name: s
    config: {type: csv, path: in.csv, schema: [{name: d, type: date}, {name: t, type: string}, {name: f, type: string}]}
  - type: transform
    name: x
    input: s
    config:
      cxl: |
        emit long = d.format_date("%A, %-d. %B %Y")
        emit short = d.format_date("%a %b")
        emit read = t.try_date("%d %B %Y")
        emit by_column = d.format_date(f)
        emit iso = d.format_date("%F")
  - {type: output, name: o, input: x, config: {type: csv, path: out/o.csv, include_unmapped: false}}
"""
RECORDS = """d,t,f
3. März 2024,31 DEZEMBER 2023,%B
1. OKTOBER 2024,1 March 2024,%Y
Fr. 09 Feb. 24,7 Mai 2024,%A
fr 09 Feb 24,,%j
"""
WANTED = """long,short,read,by_column,iso
"Sonntag, 3. März 2024",So. März,2023-12-31,März,2024-03-03
"Dienstag, 1. Oktober 2024",Di. Okt.,,2024,2024-10-01
"Freitag, 9. Februar 2024",Fr. Feb.,2024-05-07,Freitag,2024-02-09
"Freitag, 9. Februar 2024",Fr. Feb.,,040,2024-02-09
"""


@pytest.mark.parametrize("split_bytes", ["100000", "40"])
def test_names_of_the_pipelines_language_are_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split_bytes: str
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split_bytes)
    pipelines.write(tmp_path, {"pipeline.yaml": PIPELINE, "in.csv": RECORDS})
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 0, outcome.error
    assert pipelines.outputs(tmp_path)["o.csv"].decode() == WANTED


DAY = "{name: d, start: 2, width: 28, type: date, format: '%A, %d. %B %Y'}"
LAYOUT = f"{{fields: [{{name: n, start: 0, width: 2, type: integer}}, {DAY}]}}"


@pytest.mark.parametrize("split_bytes", ["100000", "40"])
@pytest.mark.parametrize(
    ("kind", "records"),
    [
        ("fixed_width", " 3Sonntag, 03. März 2024     \n 7Freitag, 01. Dezember 2023  \n"),
        ("csv", 'n,d\n3,"Sonntag, 03. März 2024"\n7,"Freitag, 01. Dezember 2023"\n'),
        ("json", '[\n{"n":3,"d":"Sonntag, 03. März 2024"},\n{"n":7,"d":"Freitag, 01. Dezember 2023"}\n]\n'),
    ],
)
def test_format_schemas_read_and_write_dates_in_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, records: str, split_bytes: str
) -> None:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("CLINKER_SPLIT_BYTES", split_bytes)
    source = f"{{type: source, name: s, config: {{type: {kind}, path: in.x, format_schema: {LAYOUT}}}}}"
    iso = "{type: output, name: i, input: s, config: {type: csv, path: out/iso.csv}}"
    output = f"{{type: output, name: o, input: s, config: {{type: {kind}, path: out/o.x, schema: {LAYOUT}}}}}"
    text = f"pipeline: {{name: p, date_locale: de}}\nnodes:\n  - {source}\n  - {iso}\n  - {output}\n"
    pipelines.write(tmp_path, {"pipeline.yaml": text, "in.x": records.encode()})
    outcome = pipelines.run(tmp_path).result
    assert outcome.exit_code == 0, outcome.error
    written = {name: data.decode() for name, data in pipelines.outputs(tmp_path).items()}
    assert written == {"iso.csv": "n,d\n3,2024-03-03\n7,2023-12-01\n", "o.x": records}


@pytest.mark.parametrize(
    "locale", ["en", "de", "fr", "pt_BR", "pt-BR", "pl", "tr", "el", "ru", "ja", "zh_Hans", "ar", "cs"]
)
def test_what_is_written_in_a_language_is_read_in_it(locale: str) -> None:
    header = date_locale.header(locale)
    for month in range(1, 13):
        moment = datetime(2024, month, 3 + month, 13, 5)
        for form in ("%d %B %Y %I:%M %p", "%a %d.%b.%Y %H:%M", "%A %e %b %Y %I:%M %P", "%B/%d/%y %H:%M"):
            text = strftime.write(moment, header + form)
            for spelling in (text, text.upper()) if locale not in ("tr", "el") else (text,):
                assert strftime.parse_datetime(spelling, header + form) == moment, (spelling, form)


def test_names_of_other_languages_are_none_here() -> None:
    assert strftime.parse_date("3 March 2024", date_locale.header("de") + "%d %B %Y") is None
    assert strftime.parse_date("3 März 2024", "%d %B %Y") is None


@pytest.mark.parametrize("locale", ["xx_Nowhere", "german please", "..", "de_DE_DE"])
def test_a_language_that_nobody_knows_is_an_error(tmp_path: Path, locale: str) -> None:
    found = problems(tmp_path, PIPELINE.replace("date_locale: de", f"date_locale: '{locale}'"))
    assert [one.code.id for one in found if one.is_error] == ["E007"]
    assert found[0].span
    assert found[0].span.line == 1
