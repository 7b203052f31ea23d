"""Every code has a page, and the examples on the pages do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import plan
from spark_jobs.diagnostics import codes, pages
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.plan import pending
from spark_jobs.plan.checks import storage_checks
from spark_jobs.plan.options import PlanOptions
from spark_jobs.plan.physical import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Codes that need a run, files, disks or servers to be raised, or that another code comes before.
#: This set may only shrink.
EXEMPT = frozenset(
    [
        "E216",
        "E217",
        "E221",
        "E222",
        "E310",
        "E316",
        "E319",
        "E320",
        "E321",
        "E330",
        "E331",
        "E332",
        "E333",
        "E335",
        "E336",
        "E337",
        "E350",
        "E900",
        "E901",
        "E902",
        "E903",
        "E904",
        "E905",
        "E906",
        "E907",
        "E908",
        "E909",
        "E910",
        "E911",
        "E912",
        "E913",
        "E914",
        "E915",
        "W210",
        "W211",
        "W330",
        "W331",
    ]
)
FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RAISED = {code for code in codes.by_id() if code not in EXEMPT}


def _examples(page: str) -> Iterator[dict[str, str]]:
    """The failing and the fixed example: files by name; the pipeline is `pipeline.yaml`."""
    files: dict[str, str] = {}
    for language, name, text in FENCE.findall(page):
        if name:
            files[name] = text
        elif language == "yaml":
            yield {**files, "pipeline.yaml": text}


def _codes_of(files: dict[str, str], folder: Path) -> list[str]:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    channel = next((str(folder / name) for name in files if name.endswith(".channel.yaml")), None)
    path = folder / "pipeline.yaml"
    options = PlanOptions(channel=channel, variables={})
    found = plan.validate(path, options=options)
    if not any(item.is_error for item in found):
        read = plan.load(path, options)
        stored = Diagnostics()
        storage_checks.check(read, lambda: inputs.discover(read), stored)
        found += [*pending.pending(read), *stored]
    return [item.code.id for item in found]


@pytest.mark.parametrize("code", sorted(codes.by_id()))
def test_every_code_has_a_page_with_the_sections(code: str) -> None:
    page = pages.page(code)
    assert page is not None, f"explain/{code}.md is missing"
    assert re.match(rf"# (Error |Warning )?{code}: ", page)
    for section in ("## What it means", "## Example", "## How to fix it"):
        assert section in page


def test_pages_belong_to_codes() -> None:
    folder = Path(pages.__file__).parent / "explain"
    assert {path.stem for path in folder.glob("*.md")} == set(codes.by_id())


@pytest.mark.parametrize("code", sorted(RAISED))
def test_the_failing_example_raises_the_code_and_the_fixed_one_is_clean(code: str, tmp_path: Path) -> None:
    page = pages.page(code)
    assert page is not None
    failing, fixed, *_ = _examples(page)
    assert code in _codes_of(failing, tmp_path / "failing")
    assert not [found for found in _codes_of(fixed, tmp_path / "fixed") if found != "E400" or code == "E400"]


def test_codes_without_an_executed_example_are_named_by_other_tests() -> None:
    assert set(codes.by_id()) >= EXEMPT
    tests = Path(__file__).parents[1].rglob("test_*.py")
    text = "\n".join(path.read_text(encoding="utf-8") for path in tests if path != Path(__file__))
    assert [code for code in sorted(EXEMPT) if code not in text] == []
