"""The pages of CXL's own codes: the first example produces the code, the second is clean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from spark_jobs.cli import clinker
from spark_jobs.diagnostics import pages

if TYPE_CHECKING:
    from pathlib import Path

CODES = ["E200", "E150b", "E303", "E304", "E308", "W200", "W201", "W202", "W203", "W204", "W205"]
HEADINGS = ["What it means", "Example", "How to fix it", "See also"]


def printed(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    (folder / "orders.csv").write_text("id,region,amount,customer\n1,north,2.5,1\n")
    (folder / "customers.csv").write_text("id,name\n1,Ada\n")
    file = folder / "pipeline.yaml"
    file.write_text(text)
    status = clinker.main(["validate", str(file)])
    streams = capsys.readouterr()
    return status, streams.out + streams.err


@pytest.mark.parametrize("code", CODES)
def test_a_pages_first_example_produces_the_code_and_the_second_is_clean(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = pages.page(code)
    assert page is not None
    assert page.startswith(f"# {code}: ")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    wrong, right = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    status, text = printed(wrong, tmp_path, capsys)
    assert f"[{code}]" in text
    assert status == (0 if code.startswith("W") else 1)
    status, text = printed(right, tmp_path, capsys)
    assert (status, re.findall(r"\[[EW]\w+\]", text)) == (0, [])
