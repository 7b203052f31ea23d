"""The pages of diagnostics: `explain/<CODE>.md`, shown by `clinker explain --code`."""

from __future__ import annotations

from importlib import resources

from spark_jobs.diagnostics import codes

_FOLDER = resources.files("spark_jobs.diagnostics") / "explain"


def page(code: str) -> str | None:
    """The page of a code, exactly as it is spelled; None if there is no such code."""
    if code not in codes.by_id():
        return None
    found = _FOLDER / f"{code}.md"
    return found.read_text(encoding="utf-8") if found.is_file() else None


def known() -> list[str]:
    """The codes that have a page, in the order of their declaration."""
    return [code for code in codes.by_id() if (_FOLDER / f"{code}.md").is_file()]
