"""Errors of stores in words: what, where, why, and a remedy."""

from __future__ import annotations

import enum
import errno


class Kind(enum.Enum):
    """Kinds of refusals, by what can be done about them."""

    #: The object or bucket is not there.
    MISSING = errno.ENOENT
    #: It is there, and not for us.
    FORBIDDEN = errno.EACCES
    #: The object is not the one that was looked at.
    CHANGED = errno.ESTALE
    #: Somebody else has written the name meanwhile.
    TAKEN = errno.EEXIST
    #: The store does not know what it is asked for.
    UNSUPPORTED = errno.ENOTSUP
    #: The store cannot be reached, or does not answer as it should.
    FAILED = errno.EIO


class StoreError(OSError):
    """A store that does not do what it is asked for.

    Args:
        kind: what it is about.
        message: what is wrong and what to do, without the URI.
        uri: the object or bucket.
    """

    def __init__(self, kind: Kind, message: str, uri: str) -> None:
        super().__init__(kind.value, message, uri)
        self.kind = kind
        self.message = message
        self.uri = uri

    @property
    def code(self) -> str:
        """The diagnostic that says what it means."""
        return "E902" if self.kind is Kind.TAKEN else "E910"

    def __reduce__(self) -> tuple[type[StoreError], tuple[Kind, str, str]]:
        return StoreError, (self.kind, self.message, self.uri)

    def __str__(self) -> str:
        return f"{self.uri}: {self.message}"


def missing_package(package: str, extra: str, uri: str) -> StoreError:
    """The error if a store's client is not installed."""
    text = (
        f"the package {package} is needed to reach it and is not installed: "
        f"pip install 'clinker-spark[{extra}]' on the driver and on the executors"
    )
    return StoreError(Kind.FAILED, text, uri)
