"""One behaviour per case: a pipeline, its input, and the files, exit code and texts that it must give.

The cases are in `cases/<node>.yaml`. Each runs twice, on one split and on many, without Spark.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execute import pipelines, without_spark

CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted(Path(__file__).parent.glob("cases/*.yaml"))
    for case in yaml.load_all(path.read_text(), yaml.CSafeLoader)
]
#: Dead letters without id and timestamp; the rest is compared to the letter.
VOLATILE = 2


@pytest.mark.parametrize("split_bytes", [10**9, 24], ids=["one split", "many splits"])
@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any], split_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark.install(monkeypatch)
    pipelines.cut_by(monkeypatch, split_bytes)
    nodes = case["nodes"]
    head = {"name": "case", "vars": case.get("vars", {})}
    pipeline = {"pipeline": head, "nodes": nodes, "error_handling": case.get("errors", {})}
    pipelines.write(tmp_path, {**case["files"], "pipeline.yaml": yaml.safe_dump(pipeline, sort_keys=False)})
    outcome = pipelines.run(tmp_path, **case.get("options", {})).result
    told = outcome.error.message if outcome.error else ""
    assert outcome.exit_code == case.get("exit", 0), told
    for text in case.get("says", ()):
        assert text in told
    published = pipelines.outputs(tmp_path) if (tmp_path / "out").exists() else {}
    expected = {name: text.encode() for name, text in case.get("expect", {}).items()}
    if "dead" in case:
        # What dead letters say, where the rest of them is no matter.
        dead = published.pop("dead.csv").decode().replace('""', '"')
        assert [text for text in case["dead"] if text not in dead] == []
    for name in expected:
        if name.startswith("dead"):
            published[name] = without_volatile(published[name])
    assert published == expected


def without_volatile(content: bytes) -> bytes:
    rows = [row[VOLATILE:] for row in csv.reader(io.StringIO(content.decode()))]
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerows(rows)
    return sink.getvalue().encode()
