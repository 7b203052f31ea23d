"""What is said of mistakes in pipeline files: whole texts, side by side in `shown/pipelines.txt`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.messages import pipelines

if TYPE_CHECKING:
    import pytest

#: What is no mistake to the planner, and stands there for what comes of it.
_VALID = {
    "column type timestamp", "format on a text", "decimal comma without quotes", "count(*)", "group_by missing",
    "null compared", "template of Jinja", "curly quotes in YAML",
}  # fmt: skip


def test_what_is_said_is_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORDERS", raising=False)
    assert pipelines.shown() == pipelines.SHOWN.read_text(encoding="utf-8")


def test_mistakes_are_told() -> None:
    said = pipelines.said()
    assert len(said) > 70
    assert {title for title, text in said.items() if text.startswith("p.yaml: valid")} == _VALID
    assert not [title for title, text in said.items() if "E905" in text]
