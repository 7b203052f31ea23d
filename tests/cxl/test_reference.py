"""The generator reports stale pages, and a builtin needs one declaration to be known everywhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from docs import generate
from spark_jobs.cxl import types
from spark_jobs.cxl.builtins import declare
from tests.cxl.both_engines import check_agreement, program_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOUT = '''
"""Methods that a test adds."""

from __future__ import annotations

from spark_jobs.cxl.builtins.declare import Int, String, method


@method(arrow=lambda pc, text, times: pc.binary_join_element_wise(pc.ascii_upper(text), "!" * times.as_py(), ""))
def shout(text: String, times: Int = 1) -> String:
    """The text in capitals with exclamation marks.

    >>> "hey".shout(2)
    "HEY!!"
    """
    return text.upper() + "!" * times
'''


def test_check_reports_a_stale_page(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "HERE", tmp_path)
    assert generate.main(["--check"]) == 1
    assert "reference/cxl.md" in capsys.readouterr().out
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.fixture
def shout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module with one builtin, which is forgotten after the test."""
    (tmp_path / "shouting.py").write_text(SHOUT, encoding="utf-8")
    before = dict(declare.registry())
    monkeypatch.syspath_prepend(tmp_path)
    __import__("shouting")
    yield "String.shout"
    declare.registry().clear()
    declare.registry().update(before)
    del sys.modules["shouting"]


def test_one_declaration_serves_checker_engines_and_docs(shout: str) -> None:
    outcomes = check_agreement(
        "emit a = s.shout()\nemit b = s.shout(3)", {"s": types.STRING}, [{"s": "hey"}, {"s": None}, {"s": "ho"}]
    )
    assert [fields for fields, _ in outcomes[0].outputs] == [{"a": "HEY!", "b": "HEY!!!"}]
    with pytest.raises(AssertionError, match="takes Int for `times`"):
        program_of('emit a = s.shout("x")', {"s": types.STRING})
    page = generate.cxl()
    assert "### shout" in page
    assert '"hey".shout(2)\n# "HEY!!"' in page
    assert shout in declare.registry()
