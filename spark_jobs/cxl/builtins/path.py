"""Methods for file paths: POSIX rules, by the text alone."""

from __future__ import annotations

from spark_jobs.cxl import types
from spark_jobs.cxl.builtins.declare import BY_VALUE, String, method


def _nullable(arguments: object) -> types.Type:
    return types.STRING.or_null()


def _parts(path: str) -> list[str]:
    """The components: `.` stands only at the start, a root is its own component."""
    parts = ["/"] if path.startswith("/") else []
    for position, part in enumerate(path.split("/")):
        if part and (part != "." or position == 0):
            parts.append(part)
    return parts


def _last(path: str | None) -> str | None:
    parts = _parts(path) if path is not None else []
    return parts[-1] if parts and parts[-1] not in ("/", "..", ".") else None


def _split(path: str) -> tuple[str | None, str | None]:
    """Stem and extension of the last component; a leading dot begins no extension."""
    name = _last(path)
    if name is None:
        return None, None
    dot = name.rfind(".")
    return (name, None) if dot <= 0 else (name[:dot], name[dot + 1 :])


@method(arrow=BY_VALUE, result=_nullable)
def file_name(path: String) -> String:
    """The last component; null where the path has none (`/`, `..`, an empty text).

    >>> "/data/reports/sales.csv".file_name()
    "sales.csv"
    """
    return _last(path)  # type: ignore[return-value]


@method(arrow=BY_VALUE, result=_nullable)
def file_stem(path: String) -> String:
    """The last component without its extension.

    >>> "/data/reports/sales.csv".file_stem()
    "sales"
    """
    return _split(path)[0]  # type: ignore[return-value]


@method(arrow=BY_VALUE, result=_nullable)
def extension(path: String) -> String:
    """The part after the last dot of the last component; null without a dot.

    >>> "/data/reports/sales.csv".extension()
    "csv"
    >>> "/data/reports/README".extension()
    null
    """
    return _split(path)[1]  # type: ignore[return-value]


def _parent(path: str) -> str | None:
    parts = _parts(path)
    if not parts or parts == ["/"]:
        return None
    # The text before the last component, as it was written, without the slashes that end it.
    trimmed = path
    while True:
        trimmed = trimmed.rstrip("/")
        if not trimmed.endswith("/."):
            break
        trimmed = trimmed[:-2]
    head = trimmed[: len(trimmed) - len(parts[-1])]
    bare = head.rstrip("/")
    while bare.endswith("/."):
        bare = bare[:-2].rstrip("/")
    return bare or ("/" if head else "")


@method(arrow=BY_VALUE, result=_nullable)
def parent(path: String) -> String:
    """The path without its last component; empty for a bare name, null for `/` and an empty text.

    >>> "/data/reports/sales.csv".parent()
    "/data/reports"
    """
    return _parent(path)  # type: ignore[return-value]


@method(arrow=BY_VALUE, result=_nullable)
def parent_name(path: String) -> String:
    """The last component of the parent, or null if there is no parent.

    >>> "/data/reports/sales.csv".parent_name()
    "reports"
    """
    return _last(_parent(path))  # type: ignore[return-value]
