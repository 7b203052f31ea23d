"""The envelope of interchanges: what service segments say, and which counts and references are checked in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from spark_jobs.formats.edi.settings import Trailers

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from spark_jobs.formats.edi.segments import Signs

#: Enough bytes to know the delimiters of an interchange; fewer only at the end of a file.
HEAD_BYTES = 1024


class Broken(Exception):
    """A service segment, or another one in its place, that does not fit; the message says why."""


@dataclass(frozen=True)
class Message:
    """The message around records; empty for records outside of messages.

    Args:
        reference: its reference.
        kind: its type.
        levels: the opening segments of the levels around it, from the header of the interchange on.
    """

    reference: str | None = None
    kind: str | None = None
    levels: tuple[Sequence[str], ...] = ()


class Envelope(ABC):
    """Follows the envelope of a file's interchanges, service segment by service segment.

    Args:
        trailers: the policy for counts and references in trailers that do not fit.

    Attributes:
        is_open: whether an interchange is open.
        message: the open message; None outside of messages.
    """

    #: The unit that wraps records, the segment that opens it, and all tags of service segments.
    wrapper: ClassVar[str]
    opening: ClassVar[str]
    services: ClassVar[tuple[str, ...]]
    #: The tags around an interchange.
    header: ClassVar[str]
    trailer: ClassVar[str]
    #: The sections of `$doc` that the levels below the interchange are.
    levels: ClassVar[tuple[str, ...]] = ()

    #: Segments whose last element may hold any sign, and the number of the one that says how long it is.
    sized: ClassVar[Mapping[bytes, int]] = MappingProxyType({})
    #: The pattern of tags, and its description in messages.
    tag: ClassVar[re.Pattern[bytes]]
    tags: ClassVar[str]

    def __init__(self, trailers: Trailers = Trailers.ERROR) -> None:
        self.is_open = False
        self.message: Message | None = None
        self._trailers = trailers
        self._warnings: list[str] = []

    def taken(self) -> list[str]:
        """The problems of the last service segment that did not end the reading."""
        found, self._warnings = self._warnings, []
        return found

    def _check(self, check: Callable[..., None], *about: Any) -> None:
        """Check a count or a reference of a trailer.

        Raises:
            Broken: it is wrong, which ends the reading.
        """
        try:
            check(*about)
        except Broken as problem:
            if self._trailers is Trailers.ERROR:
                raise
            self._warnings.append(str(problem))

    @abstractmethod
    def signs(self, head: bytes) -> tuple[Signs, int]:
        """The delimiters of the interchange that begins here, and how many bytes only define them.

        Raises:
            Broken: none begins here.
        """

    @abstractmethod
    def goes_on(self, signs: Signs, segment: Sequence[str]) -> bool:
        """Whether a segment after an interchange begins another one with the same delimiters."""

    @abstractmethod
    def take(self, segment: Sequence[str], number: int) -> None:
        """Follow a service segment, which has a number in the file.

        Raises:
            Broken: it does not fit.
        """


def element(segment: Sequence[str], number: int) -> str:
    """An element of a segment; empty where it is absent."""
    return segment[number] if number < len(segment) else ""


def check_count(segment: Sequence[str], actual: int, what: str, allowed: int | None = None) -> None:
    """Check that the first element of a trailer counts something correctly, or is another allowed number.

    Raises:
        Broken: it is not.
    """
    written = element(segment, 1).strip()
    if not (written.isascii() and written.isdigit()):
        raise Broken(f"the count of {what} is '{written}', which is not a number; there are {actual}")
    if int(written[-18:]) not in (actual, allowed) or written[:-18].strip("0"):
        raise Broken(f"the count of {what} is {written}, but there are {actual}")


def check_reference(segment: Sequence[str], opened: str, what: str) -> None:
    """The second element of a trailer is the reference of its header.

    Raises:
        Broken: it is not.
    """
    written = element(segment, 2)
    if written != opened:
        raise Broken(f"the {what} is '{written}', but '{opened}' was opened")


def check_signs(signs: Signs) -> Signs:
    """Delimiters have to differ, and to be none of the characters that data is made of.

    Raises:
        Broken: they are not.
    """
    found = [signs.element, signs.terminator, *([] if signs.release is None else [signs.release])]
    for sign in found:
        character = chr(sign)
        if sign >= 0x80 or character.isalnum() or character == "\0" or found.count(sign) > 1:
            raise Broken(f"{character!r} cannot be a delimiter")
    return signs
