"""The JSON schema for editors takes every pipeline that the loader takes."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from spark_jobs import plan
from spark_jobs.plan.options import PlanOptions
from spark_jobs.plan.reading import json_schema

_ROOT = Path(__file__).resolve().parents[2]
#: Cases of a contract, where somebody has laid them beside the project.
_BESIDE = _ROOT.parent / "shared/conformance/cases"
_HEAD = "pipeline: {name: p}\nnodes:\n"
_SOURCE = "  - {type: source, name: s, config: {type: csv, path: in.csv, schema: [{name: k, type: int}]}}\n"
_OUTPUT = "  - {type: output, name: o, input: s, config: {type: csv, path: out.csv}}\n"


class _Loader(yaml.CSafeLoader):
    """YAML 1.2: `yes` and days are texts."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith((":timestamp", ":bool"))]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


@functools.cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema.schema())


def _complaints(text: str) -> list[str]:
    return [found.message[:300] for found in _validator().iter_errors(yaml.load(text, _Loader))]


def _is_pipeline(text: str) -> bool:
    try:
        tree = yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError):
        return False
    return isinstance(tree, dict) and {"pipeline", "nodes"} <= set(tree)


def _accepted(folder: Path) -> list[Path]:
    """The pipelines below a folder that the loader takes."""
    found = []
    for path in sorted(folder.rglob("*.yaml")):
        if _is_pipeline(path.read_text(errors="replace")):
            options = PlanOptions(base_dir=path.parent, allow_absolute_paths=True)
            if not any(one.is_error for one in plan.validate(path, options=options)):
                found.append(path)
    return found


def test_every_example_is_taken() -> None:
    accepted = _accepted(_ROOT / "examples")
    assert len(accepted) > 10
    assert {str(path): told for path in accepted if (told := _complaints(path.read_text()))} == {}


def test_every_case_of_a_node_is_taken(tmp_path: Path) -> None:
    refused = {}
    for path in sorted((_ROOT / "tests/nodes/cases").glob("*.yaml")):
        for case in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            pipeline = {"pipeline": {"name": "case", "vars": case.get("vars", {})}, "nodes": case["nodes"]}
            pipeline |= {"error_handling": case["errors"]} if "errors" in case else {}
            text = yaml.safe_dump(pipeline, sort_keys=False)
            if case.get("exit", 0) != 1 and (told := _complaints(text)):
                refused[case["case"]] = told
    assert refused == {}


@pytest.mark.slow
@pytest.mark.skipif(not _BESIDE.is_dir(), reason="no cases beside the project")
def test_every_case_beside_the_project_is_taken() -> None:
    accepted = _accepted(_BESIDE)
    assert accepted
    assert {str(path): told for path in accepted if (told := _complaints(path.read_text()))} == {}


def test_the_first_pipeline_of_the_readme_is_taken() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", (_ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    pipelines = [text for text in blocks if _is_pipeline(text)]
    assert pipelines
    for text in pipelines:
        assert _complaints(text) == []


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("schema: [{name: k, type: int}]", "schema: {k: int, v: nullable(float), w: {type: date, format: '%d.%m.%Y'}}"),
        ("path: in.csv", "path: in.csv, correlation_key: k"),
        ("path: in.csv", "path: in.csv, on_unmapped: drop"),
        ("path: in.csv", "path: in.csv, sort_order: k"),
        ("path: in.csv", "path: in.csv, sort_order: [k]"),
        ("path: in.csv", "path: in.csv, sort_order: [{field: k, order: desc}]"),
        ("path: in.csv", "path: in.csv, transport: file"),
        ("path: out.csv", "path: out.csv, include_metadata: all"),
        ("path: out.csv", "path: out.csv, sort_order: [k]"),
        ("name: p}", "name: 2026, date_formats: '%d.%m.%Y'}"),
        ("name: s, config", "name: 5, config"),
    ],
)
def test_short_forms_are_taken(written: str, instead: str, tmp_path: Path) -> None:
    text = (_HEAD + _SOURCE + _OUTPUT).replace(written, instead)
    text = text.replace("input: s", "input: 5") if "name: 5" in text else text
    assert text != _HEAD + _SOURCE + _OUTPUT
    (tmp_path / "p.yaml").write_text(text)
    assert [str(one) for one in plan.validate(tmp_path / "p.yaml") if one.is_error] == []
    assert _complaints(text) == []


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("schema: [{name: k, type: int}]", "schema: {k: [int]}"),
        ("path: in.csv", "path: in.csv, on_unmapped: throw"),
        ("path: in.csv", "path: in.csv, correlation_key: {a: 1}"),
        ("path: in.csv", "path: in.csv, transport: ftp"),
        ("path: in.csv", "pth: in.csv"),
    ],
)
def test_mistakes_are_still_refused(written: str, instead: str) -> None:
    assert _complaints((_HEAD + _SOURCE + _OUTPUT).replace(written, instead))
