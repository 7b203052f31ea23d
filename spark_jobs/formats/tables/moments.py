"""Moments that choose a version of a table, as options have them. No Arrow here: plans read options."""

from __future__ import annotations

from datetime import UTC, datetime


def of(text: str) -> datetime:
    """The moment of a text; without an offset it is UTC.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def problem(text: str) -> str | None:
    """Say why a text is no moment in ISO 8601; None when it is one."""
    try:
        of(text)
    except ValueError:
        return f"'{text}' is no moment: write it as `2026-03-01T00:00:00Z`"
    return None
