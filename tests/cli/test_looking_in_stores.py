"""Commands that look at data and at cases, where these are in stores: they say what they say of local files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker

if TYPE_CHECKING:
    from pathlib import Path

    from tests.object_store import AnyBucket, Bucket

ORDERS = "order_id,amount,day\n" + "".join(f"{n},{n}.5,2026-01-{n % 28 + 1:02}\n" for n in range(1, 40))
PIPELINE = """
pipeline: { name: p }
nodes:
  - type: source
    name: orders
    config: { type: csv, path: data/orders.csv, schema: { order_id: int, amount: float, day: date } }
  - { type: transform, name: large, input: orders, config: { cxl: "filter amount > 30\\nemit twice = order_id * 2" } }
  - { type: output, name: out, input: large, config: { type: csv, path: out/large.csv } }
"""
CASES = """
pipeline: ../p.yaml
cases:
  - name: large orders are kept
    given:
      orders:
        - { order_id: 1, amount: 31.5 }
        - { order_id: 2, amount: 3.5 }
    expect:
      out:
        - { order_id: 1, amount: 31.5, twice: 2 }
  - name: a file beside the case
    given:
      orders: { file: two.csv }
    expect:
      out:
        - { order_id: 8, amount: 99.5, day: "2026-01-01", twice: 16 }
"""
FILES = {
    "data/orders.csv": ORDERS,
    "data/orders.ndjson": '{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n',
    "data/orders.xml": "<orders><order><id>1</id></order><order><id>2</id></order></orders>",
    "p.yaml": PIPELINE,
    "tests/p.test.yaml": CASES,
    "tests/two.csv": "order_id,amount,day\n7,1.5,2026-01-01\n8,99.5,2026-01-01\n",
    "old/a.csv": "id,v\n1,a\n2,b\n",
    "old/gone.csv": "id\n1\n",
    "new/a.csv": "id,v\n1,a\n2,c\n",
    "new/.hidden/b.csv": "id\n1\n",
}
COMMANDS = [
    ["guess", "BASE/data/orders.csv"],
    ["guess", "BASE/data/orders.ndjson", "BASE/data/orders.xml", "BASE/old/a.csv", "BASE/new/a.csv"],
    ["profile", "BASE/data/orders.csv", "--format", "json"],
    ["profile", "BASE/p.yaml"],
    ["profile", "BASE/p.yaml", "large", "--format", "json"],
    ["preview", "BASE/p.yaml", "large"],
    ["diff-data", "BASE/old/a.csv", "BASE/new/a.csv"],
    ["diff-data", "BASE/old", "BASE/new", "--format", "json"],
    ["diff-data", "BASE/p.yaml", "BASE/p.yaml", "--exit-code"],
    ["test", "BASE/tests/p.test.yaml", "--coverage"],
    ["test", "BASE/"],
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "files"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return folder


def said(arguments: list[str], base: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code, and what is said without the base and the time that it took."""
    code = clinker.main([each.replace("BASE", base) for each in arguments])
    told = capsys.readouterr()
    return code, (told.out + told.err).replace(f"{base}/", "").replace(base, ".").rpartition(" in ")[0]


def test_they_say_the_same(bucket: AnyBucket, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        bucket.put(f"base/{name}", text)
    for arguments in COMMANDS:
        local = said(arguments, str(here), capsys)
        assert local[0] == 0, local
        assert said(arguments, bucket.uri("base"), capsys) == local, arguments
    assert sorted(bucket.keys()) == sorted(f"base/{name}" for name in FILES)


def test_a_case_that_fails_says_where(s3: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        s3.put(f"base/{name}", text.replace("twice: 16", "twice: 17"))
    assert clinker.main(["test", s3.uri("base/tests")]) == 1
    told = capsys.readouterr().out
    assert f"FAIL {s3.uri('base/tests/p.test.yaml')}:12:" in told
    assert "2 cases: 1 passed, 1 failed" in told


def test_the_address_of_the_store_is_the_one_of_the_folder(
    s3: Bucket, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for commands with a pipeline: `clinker.toml` of the working directory says it."""
    for name, text in FILES.items():
        s3.put(f"base/{name}", text)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    (tmp_path / "elsewhere/clinker.toml").write_text(f'[storage.s3]\nendpoint = "{s3.endpoint}"\n')
    for arguments in COMMANDS:
        assert said(arguments, s3.uri("base"), capsys)[0] == 0, arguments


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["guess", "BASE/none.csv"], 4, "none.csv: no such object; check its key, character by character"),
        (["guess", "BASE/data/"], 4, "data/: is a folder, and not a file"),
        (["guess", "MISSING/a.csv"], 4, "no bucket is named"),
        (["profile", "BASE/none.csv"], 4, "none.csv: no such object"),
        (["profile", "BASE/none.yaml"], 1, "none.yaml"),
        (["diff-data", "BASE/old/a.csv", "BASE/none.csv"], 4, "none.csv: no such object"),
        (["diff-data", "BASE/old/a.csv", "BASE/new"], 1, "compare two of one kind"),
        (["test", "BASE/none"], 1, "no such object or folder"),
        (["test", "MISSING/cases"], 4, "no bucket is named"),
        (["test", "BASE/data"], 1, "has no cases"),
        (["test", "BASE/tests", "--update"], 1, "--update changes local files alone"),
        (["test", "--record", "a case", "BASE/p.yaml"], 1, "copy the pipeline first"),
    ],
)
def test_a_refusal_says_what_and_where(
    arguments: list[str], code: int, wanted: str, s3: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        s3.put(f"base/{name}", text)
    moved = [each.replace("BASE", s3.uri("base")).replace("MISSING", s3.missing().rstrip("/")) for each in arguments]
    found = clinker.main(moved)
    told = capsys.readouterr().err
    assert (found, wanted in told) == (code, True), told
    assert moved[1] in told or moved[-1] in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "p.yaml", "-n", "1", "--dry-run-output", "URI"],
        ["run", "p.yaml", "--report", "URI"],
        ["metrics", "collect", "--spool-dir", "spool", "--output-file", "URI"],
        ["schema", "--output", "URI"],
        ["init", "URI"],
        ["init", "new", "--from", "URI"],
        ["test", "--junit", "URI"],
        ["dlq", "replay", "p.yaml", "dead.csv", "--into", "URI"],
        ["doctor", "--base-dir", "URI"],
        ["recover", "out", "--base-dir", "URI"],
    ],
)
def test_a_local_file_is_no_uri(arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It would be a folder `s3:`, of which nobody would know."""
    assert clinker.main([each.replace("URI", "s3://bucket/a") for each in arguments]) == 1
    assert "expected a local path, found s3://bucket/a" in capsys.readouterr().err
    assert [*(tmp_path / "elsewhere").iterdir()] == []
