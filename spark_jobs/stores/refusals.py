"""Errors of stores in words: what, where, why, and a remedy."""

from __future__ import annotations

import enum
import errno


class Kind(enum.Enum):
    """Kinds of refusals, by their remedies."""

    #: The object or bucket is not there.
    MISSING = errno.ENOENT
    #: It is there, and not for us.
    FORBIDDEN = errno.EACCES
    #: The object is not the one that was looked at.
    CHANGED = errno.ESTALE
    #: Somebody else has written the name meanwhile.
    TAKEN = errno.EEXIST
    #: The store does not support the request.
    UNSUPPORTED = errno.ENOTSUP
    #: The store cannot be reached, or does not answer as it should.
    FAILED = errno.EIO


class StoreError(OSError):
    """A request that a store has refused or not answered.

    Args:
        kind: the kind of refusal.
        message: the problem and its remedy, without the URI.
        uri: the object or bucket.
    """

    def __init__(self, kind: Kind, message: str, uri: str) -> None:
        super().__init__(kind.value, message, uri)
        self.kind = kind
        self.message = message
        self.uri = uri

    @property
    def code(self) -> str:
        """The code of its diagnostic."""
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
