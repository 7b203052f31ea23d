"""Paths that are refused, and tokens of path templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.plan import paths

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "path", ["../a", "a/../../b", "a/..", "..\\a", "%2e%2e/a", "a/%2E%2E/b", "/etc/passwd", "C:\\a", "a\0b"]
)
def test_paths_that_leave_the_folder_are_refused(path: str, tmp_path: Path) -> None:
    assert paths.security_problem(path, tmp_path, allow_absolute=False) is not None


@pytest.mark.parametrize("path", ["a.csv", "./a/b.csv", "a..b/c", "in/*.csv", "out/{batch_id}.csv"])
def test_paths_below_the_folder_are_fine(path: str, tmp_path: Path) -> None:
    assert paths.security_problem(path, tmp_path, allow_absolute=False) is None


def test_a_link_must_not_lead_out(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "out").symlink_to(tmp_path)
    problem = paths.security_problem("out/a.csv", base, allow_absolute=False)
    assert problem is not None
    assert "symlink" in problem[0]


@pytest.mark.parametrize("path", ["/data/a.csv", "s3://bucket/in/a b%20c//*.csv", "file:///data/a%20b.csv"])
def test_absolute_paths_and_uris_are_fine_when_allowed(path: str, tmp_path: Path) -> None:
    assert paths.security_problem(path, tmp_path, allow_absolute=True) is None
    problem = paths.security_problem(path, tmp_path, allow_absolute=False)
    assert problem is not None
    assert "--allow-absolute-paths" in problem[0]


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("s3://KEY:hidden@bucket/a.csv", "no place for credentials"),
        ("s3:///a.csv", "names no bucket"),
        ("file://server/a.csv", "names no machine"),
        ("s3://bucket/../a.csv", "directory traversal"),
    ],
)
def test_uris_that_lead_nowhere_are_refused_whatever_is_allowed(uri: str, says: str, tmp_path: Path) -> None:
    problem = paths.security_problem(uri, tmp_path, allow_absolute=True)
    assert problem is not None
    assert says in problem[0]
    assert "hidden" not in problem[0]


VALUES = {"channel": "acme", "pipeline_hash": "0123456789abcdef" * 4, "batch_id": "b1", "source_name:orders": "jan"}


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("a/{channel}.csv", "a/acme.csv"),
        ("a{channel:_:-}b", "a_acme-b"),
        ("a{n:_:-}b", "ab"),
        ("{pipeline_hash}", "01234567"),
        ("{pipeline_hash:4}", "0123"),
        ("{pipeline_hash:full}", "0123456789abcdef" * 4),
        ("{source_name:orders:<:>}", "<jan>"),
        ("{{{batch_id}}}", "{b1}"),
    ],
)
def test_rendering(template: str, rendered: str) -> None:
    assert paths.render(template, VALUES) == rendered


def test_filling_leaves_a_template() -> None:
    half = paths.fill("{{x}}/{channel}/{execution_id}.csv", {"channel": "a{b}"})
    assert paths.tokens(half) == {"execution_id"}
    assert paths.render(half, {"execution_id": "e"}) == "{x}/a{b}/e.csv"


@pytest.mark.parametrize(
    "template", ["{", "a}", "{}", "{nope}", "{channel:a:b:c:d}", "{channel:x}", "{pipeline_hash:65}"]
)
def test_templates_that_make_no_sense(template: str) -> None:
    with pytest.raises(paths.TemplateError):
        paths.parse(template)
