"""Files that a pipeline names: regular ones alone, and no message shows what else lies outside of the base folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_jobs import plan
from spark_jobs.diagnostics import render
from tests.plan.pipelines import ORDERS, options, problems, write

SECRET = "hunter2"
SHAPES = {
    "format_schema": ORDERS.replace("path: orders.csv", "path: orders.csv\n      format_schema: 'FILE'"),
    "log_rules": ORDERS.replace("name: shop", "name: shop, log_rules: 'FILE'")
    + "  - { type: transform, name: t, input: orders, config: { cxl: 'emit a = 1', log: [{ log_rule: r }] } }\n",
    "composition": ORDERS + "  - { type: composition, name: c, input: orders, use: 'FILE' }\n",
    "pipeline": "FILE",
}


def told(folder: Path, shape: str, file: Path) -> str:
    """All that is said where a pipeline names a file."""
    if shape == "pipeline":
        found = plan.validate(file, options=options())
    else:
        found = problems(folder, SHAPES[shape].replace("FILE", str(file)), allow_absolute_paths=True)
    return "".join(render.render(found, style) for style in render.Style)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    return tmp_path / "base"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["pipe", "device", "process"])
def test_what_is_no_regular_file_is_refused_and_nobody_waits_for_it(kind: str, shape: str, base: Path) -> None:
    if kind == "pipe":
        os.mkfifo(base / "pipe")
    file = {"pipe": base / "pipe", "device": Path("/dev/zero"), "process": Path("/proc/self/status")}[kind]
    text = told(base, shape, file)
    assert "is not a regular file" in text or "does not match any .comp.yaml" in text
    assert "VmPeak" not in text


@pytest.mark.parametrize("shape", [*SHAPES][:3])
@pytest.mark.parametrize(
    "content",
    [
        f"PASSWORD={SECRET}\nOTHER: [{SECRET}\n",
        f"[default]\nsecret = {SECRET}\n",
        f"user: me\npassword: {SECRET}\n",
        f"user: me\npassword: {{ {SECRET}\n",
        f'{{"password": "{SECRET}", "user": "me"}}',
        f"- {SECRET}\n",
        f"{SECRET}\n",
        f"first line\n{SECRET} caf\udce9\n",
    ],
)
def test_no_message_shows_lines_of_a_file_elsewhere(content: str, shape: str, base: Path) -> None:
    file = base.parent / "secrets"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    text = told(base, shape, file)
    assert "secrets" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("shape", "content"),
    [
        ("format_schema", "fields:\n  - { name: id, widht: 3 }\n"),
        ("log_rules", "rules:\n  r: { widht: 3 }\n"),
        ("composition", "_compose: { name: c, widht: 3 }\nnodes: []\n"),
    ],
)
def test_a_file_elsewhere_that_is_what_it_should_be_is_shown(shape: str, content: str, base: Path) -> None:
    file = base.parent / "shared.yaml"
    file.write_text(content)
    assert "widht: 3" in told(base, shape, file)


def test_a_file_below_the_base_folder_is_shown(base: Path) -> None:
    (base / "layout.yaml").write_text("fieldz: [{ name: id, type: marvellous }]\n")
    assert "marvellous" in told(base, "format_schema", base / "layout.yaml")


def test_a_module_that_is_no_regular_file_is_refused(base: Path) -> None:
    (base / "rules").mkdir()
    os.mkfifo(base / "rules/vat.cxl")
    text = ORDERS.replace("name: shop", "name: shop, rules_path: rules") + (
        "  - { type: transform, name: t, input: orders, config: { cxl: 'use vat' } }\n"
    )
    (problem,) = [item for item in plan.validate(write(base, text), options=options()) if item.is_error]
    assert "module 'vat' cannot be read" in problem.message
    assert "it is not a regular file" in problem.message
