"""The local paths of those who read no stores: a URI of one would never be found, and nobody would know why."""

from __future__ import annotations

import errno

from spark_jobs.stores import location


def pattern(text: str) -> str:
    """A path or pattern, of a `file:` URI the path in it.

    Raises:
        OSError: it is a URI of something else.
    """
    if location.scheme_of(text) in ("", "file") and not location.problem(text):
        return location.local(text)
    raise OSError(
        errno.EOPNOTSUPP,
        "only local files are looked for; the run's XComs `dlq_count` and `metrics` have the counts",
        location.without_credentials(text),
    )
