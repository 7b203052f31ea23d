"""Iceberg tables of a catalogue that speaks REST: a server on loopback, with tokens, and what it may answer."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from tests import iceberg_rest, iceberg_tables
from tests.execute import pipelines, without_spark
from tests.iceberg_rest import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.iceberg_rest import Rest

PIPELINE = """
pipeline: {{ name: p }}
nodes:
  - type: source
    name: rows
    config:
      {{ type: json, path: in.ndjson, options: {{ format: ndjson }}, schema: {{ id: int, v: string }} }}
  - type: output
    name: table
    input: rows
    config: {{ type: iceberg, options: {{ catalog: lake, table: shop.sales, {options} }} }}
"""
READING = """
pipeline: { name: p }
nodes:
  - type: source
    name: rows
    config: { type: iceberg, options: { catalog: lake, table: shop.sales }, schema: { id: int, v: string } }
  - { type: output, name: out, input: rows, config: { type: csv, path: out/out.csv } }
"""
SECRETS = (iceberg_rest.TOKEN, iceberg_rest.CLIENT_SECRET, iceberg_rest.HEADER)
TABLE = "/v1/namespaces/shop/tables/sales"


class Lake:
    """A folder with a pipeline and a catalogue that a server knows."""

    def __init__(self, folder: Path, rest: Rest) -> None:
        self.folder = folder
        self.rest = rest
        (folder / "clinker.toml").write_text(f'[catalogs.lake]\ntype = "rest"\nuri = "{rest.uri}"\n')

    def write(self, *ids: int, options: str = "mode: append", v: str = "x") -> Any:
        lines = "".join(json.dumps({"id": each, "v": v}) + "\n" for each in ids)
        pipelines.write(self.folder, {"pipeline.yaml": PIPELINE.format(options=options), "in.ndjson": lines})
        return pipelines.run(self.folder, force=True).result

    def read(self) -> Any:
        pipelines.write(self.folder, {"pipeline.yaml": READING})
        return pipelines.run(self.folder, force=True).result

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in iceberg_tables.rows(self.rest.inner, "shop.sales")]

    def left(self) -> list[str]:
        known: set[str] = set()
        if self.rest.inner.table_exists("shop.sales"):
            files = self.rest.inner.load_table("shop.sales").inspect.all_files()["file_path"].to_pylist()
            known = {path.removeprefix("file://") for path in files}
        return sorted({str(path) for path in (self.folder / "warehouse").rglob("*.parquet")} - known)


@pytest.fixture(params=[False])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    without_spark.install(monkeypatch)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", iceberg_rest.TOKEN)
    with iceberg_rest.served(tmp_path, with_header=request.param) as rest:
        yield Lake(tmp_path, rest)


def done(result: Any) -> Any:
    assert result.exit_code == 0, result.error
    return result


def test_a_table_is_made_written_and_read(lake: Lake) -> None:
    done(lake.write(1, 2))
    done(lake.write(3))
    done(lake.write(2, options="mode: merge, key: id", v="new"))
    assert lake.rows() == [(1, "x"), (2, "new"), (3, "x")]
    done(lake.write(7, options="mode: overwrite"))
    assert lake.rows() == [(7, "x")]
    done(lake.read())
    assert (lake.folder / "out/out.csv").read_text().splitlines() == ["id,v", "7,x"]
    assert lake.left() == []
    assert all("Authorization" in headers for _, _, headers in lake.rest.requests)


@pytest.mark.parametrize("lake", [True], indirect=True)
def test_a_client_and_a_header_open_the_catalogue_and_are_shown_nowhere(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__TOKEN")
    credential = f"{iceberg_rest.CLIENT}:{iceberg_rest.CLIENT_SECRET}"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__CREDENTIAL", credential)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__HEADER__X_API_KEY", iceberg_rest.HEADER)
    caplog.set_level(logging.DEBUG)
    done(lake.write(1))
    done(lake.read())
    assert lake.rows() == [(1, "x")]
    assert any(path == "/v1/oauth/tokens" for _, path, _ in lake.rest.requests)
    plan = str(lake.folder / "pipeline.yaml")
    assert clinker.main(["explain", plan]) == 0
    assert clinker.main(["explain", plan, "--format", "json"]) in (0, 1)
    # The server says what it got, and the secret alone stands in that.
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__CREDENTIAL", credential + "wr0ng")
    result = lake.write(2)
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "invalid_client" in result.error.message
    assert "check the `token` or the `credential`" in result.error.message
    seen = capfd.readouterr()
    texts = [
        seen.out,
        seen.err,
        caplog.text,
        str(result),
        result.error.message,
        (lake.folder / "out/out.csv").read_text(),
    ]
    texts += [path.read_text("utf-8", "replace") for path in lake.folder.rglob("*.json")]
    for secret in (*SECRETS, iceberg_rest.CLIENT_SECRET + "wr0ng"):
        assert not [text for text in texts if secret in text]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "check the `token` or the `credential` of the catalogue"),
        (403, "whoever keeps the catalogue has to allow it"),
        (503, "try again later"),
        (429, "try again later"),
        (500, "try again later"),
        (0, "check the `uri` of the catalogue, and whether it runs"),
    ],
)
def test_what_the_catalogue_answers_is_said(status: int, text: str, lake: Lake) -> None:
    done(lake.write(1))
    lake.rest.failures = [Failure("GET", ".*", status)]
    for result in (lake.read(), lake.write(2)):
        assert (result.error.code, result.exit_code) == ("E912", 4)
        assert text in result.error.message
    lake.rest.failures = []
    assert lake.rows() == [(1, "x")]


def test_answers_that_are_no_answers_are_short(lake: Lake) -> None:
    """A proxy answers with a page of its own."""
    page = f"<html>{iceberg_rest.TOKEN}{'x' * 5000}</html>"
    lake.rest.failures = [Failure("GET", TABLE, 403, body=page)]
    message = lake.read().error.message
    assert "<html>***xxx" in message
    assert len(message) < 1000
    lake.rest.failures = [Failure("GET", TABLE, 200, body="{}")]
    assert lake.read().error.code == "E912"


def test_a_table_that_is_not_there_is_said(lake: Lake) -> None:
    assert "there is no such table in catalogue 'lake'" in lake.read().error.message
    done(lake.write(1))
    monkey = (lake.folder / "clinker.toml").read_text().replace(lake.rest.uri, "http://127.0.0.1:9")
    (lake.folder / "clinker.toml").write_text(monkey)
    assert "check the `uri` of the catalogue" in lake.read().error.message


def test_another_writer_is_seen(lake: Lake) -> None:
    """The catalogue says so with 409: appended files are named again, and replaced ones are not."""
    done(lake.write(1))
    lake.rest.failures = [Failure("POST", TABLE, 409, times=1)]
    done(lake.write(2))
    assert lake.rows() == [(1, "x"), (2, "x")]
    lake.rest.failures = [Failure("POST", TABLE, 409, times=1)]
    result = lake.write(3, options="mode: overwrite")
    assert (result.error.code, result.exit_code) == ("E912", 4)
    assert "somebody else was faster" in result.error.message
    assert lake.rows() == [(1, "x"), (2, "x")]
    assert lake.left() == []


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refused_commit_leaves_nothing(status: int, lake: Lake) -> None:
    done(lake.write(1))
    lake.rest.failures = [Failure("POST", TABLE, status)]
    result = lake.write(2)
    assert result.exit_code == 4
    assert "the commit fails" in result.error.message
    assert lake.rows() == [(1, "x")]
    assert lake.left() == []


@pytest.mark.parametrize("status", [500, 503, 504, 0])
def test_a_commit_of_which_nobody_can_tell_is_not_undone(status: int, lake: Lake) -> None:
    """It is looked for. Where it is not there yet, its files stay: it may come, and would name nothing."""
    done(lake.write(1))
    lake.rest.failures = [Failure("POST", TABLE, status, is_done=True)]
    done(lake.write(2))
    assert lake.rows() == [(1, "x"), (2, "x")]
    assert lake.left() == []
    lake.rest.failures = [Failure("POST", TABLE, status)]
    result = lake.write(3)
    assert result.exit_code == 4
    assert "it may still come: look at the table before you run again" in result.error.message
    assert lake.rows() == [(1, "x"), (2, "x")]
    assert len(lake.left()) == 1
