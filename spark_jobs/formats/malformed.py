"""Records whose structure is broken: what dead letters say of them, and the beginning of their text (decision 28)."""

from __future__ import annotations

from spark_jobs.cxl import failures
from spark_jobs.cxl.failure import Category, Failure
from spark_jobs.formats import format


def failure(detail: str, raw: str | bytes) -> Failure:
    """The failure of one record."""
    head = raw[: format.RAW_TEXT_LIMIT * 4]
    text = head if isinstance(head, str) else head.decode("utf-8", "replace")
    return Failure(_detail(detail), Category.MALFORMED, text[: format.RAW_TEXT_LIMIT].rstrip("\r\n"))


def reason(detail: str) -> failures.Reason:
    """What is wrong with many records alike."""
    return failures.Reason(Category.MALFORMED, None, _detail(detail))


def _detail(detail: str) -> str:
    return f"malformed record: {detail}"
