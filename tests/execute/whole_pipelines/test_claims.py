"""The example of claims: an X12 file with its envelope is answered by an EDIFACT interchange."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from tests.execute import pipelines, without_spark

CLAIMS = Path(__file__).parents[3] / "examples" / "claims"


def test_the_example_writes_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    shutil.copytree(CLAIMS, tmp_path / "claims", ignore=shutil.ignore_patterns("output"))
    result = pipelines.run(tmp_path / "claims").result
    assert (result.exit_code, result.error) == (0, None)
    written = {path.name: path.read_text() for path in (tmp_path / "claims" / "output").iterdir()}
    assert written == {path.name: path.read_text() for path in (CLAIMS / "expected").iterdir()}


def test_a_claim_that_is_missing_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    shutil.copytree(CLAIMS, tmp_path / "claims", ignore=shutil.ignore_patterns("output"))
    file = tmp_path / "claims" / "input" / "claims.x12"
    file.write_text(file.read_text().replace("CLM*A-100*450.5***11:B:1~\n", ""))
    result = pipelines.run(tmp_path / "claims").result
    assert result.exit_code == 4
    assert result.error is not None
    assert "(SE)" in result.error.message
    assert "the count of segments from ST to SE is 6, but there are 5" in result.error.message


@pytest.mark.parametrize("order", ["", "\n      sort_order: [msg_ref]"], ids=["as they come", "sorted"])
def test_the_answer_can_be_compressed(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    shutil.copytree(CLAIMS, tmp_path / "claims", ignore=shutil.ignore_patterns("output"))
    file = tmp_path / "claims" / "pipeline.yaml"
    file.write_text(file.read_text().replace("path: output/answer.edi", "path: output/answer.edi.gz" + order))
    assert pipelines.run(tmp_path / "claims").result.error is None
    packed = (tmp_path / "claims" / "output" / "answer.edi.gz").read_bytes()
    assert gzip.decompress(packed) == (CLAIMS / "expected" / "answer.edi").read_bytes()
