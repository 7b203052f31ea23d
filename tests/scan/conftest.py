"""What tests of scanning share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.scan import staged, web

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file to stage, and the folder for its copy."""
    path = tmp_path / "in" / "a.csv"
    path.parent.mkdir()
    (tmp_path / "staging").mkdir()
    path.write_bytes(staged.DATA)
    return path


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between the tests and their servers."""
    web.without_proxies(monkeypatch)
