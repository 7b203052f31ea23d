"""The driver's benchmark runs as runs do: everything but its made-up tasks is the product."""

from __future__ import annotations

import sys

import pytest

from benchmarks import scale

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("output", ["rows", "groups", "parts", "split"])
def test_what_made_up_tasks_tell_is_published(output, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scale.py", "--splits", "40", "--files", "4", "--output", output])
    scale.main()
    told = capsys.readouterr().out
    assert "phase publish" in told
    assert "E9" not in told
