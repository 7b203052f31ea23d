"""Incremental reading of tables: the files added since the version that was read last. No Arrow here.

An incremental source reads on only where all versions in between have added rows. A version that removed or changed
rows ends the run, because records that earlier runs made of these rows cannot be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.scan.bookmarks import UNFIT, VERSION
from spark_jobs.scan.files import FormatError

if TYPE_CHECKING:
    from spark_jobs.scan.bookmarks import IncrementalRead, Mark


@dataclass(frozen=True)
class Span:
    """The versions that a run reads, by their places in the history of the table.

    Args:
        first: the first one; None: the table as a whole, as it is in the last one.
        end: the one that follows the last one.
        is_noted: whether the mark moves to the last one.
    """

    first: int | None
    end: int
    is_noted: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.end <= (self.first or 0)


def span(wanted: IncrementalRead, through: int | None, since: int | None, until: int | None, count: int) -> Span:
    """The versions that a run reads.

    Args:
        wanted: the versions that are asked for.
        through: the place of the version that was read last; None where there is none.
        since: the place of the first version that the command line asks for.
        until: the place of the first version that it does not ask for.
        count: how many versions there are.
    """
    end = count if until is None else min(until, count)
    first = since if since is not None or through is None else through + 1
    is_new = (first or 0) < end
    is_further = through is None or (end - 1 > through and (first is None or first <= through + 1))
    return Span(first, end, is_new and is_further and not wanted.is_interval)


def known(wanted: IncrementalRead, table: str) -> Any:
    """The version that was read last, as the mark has it; None where nothing was.

    Args:
        wanted: the versions that are asked for.
        table: the id of the table.

    Raises:
        FormatError: the mark is of another table, or of something else than versions (E913).
    """
    before = wanted.known(VERSION)
    if before is None:
        return None
    if before.get("of") != table:
        raise wanted.unfit(f"is of the table with the id {before.get('of')}, and this one has {table}")
    return before.get("through")


def mark(table: str, through: int) -> Mark:
    """The mark of a run that has read a table up to a version.

    Args:
        table: the id of the table.
        through: the version, or the snapshot.
    """
    return {"by": VERSION, "of": table, "through": through}


def refuse_chosen(wanted: IncrementalRead, keys: tuple[str, ...]) -> None:
    """Refuse a source that both chooses a version and reads incrementally.

    Raises:
        FormatError: it is one (E913).
    """
    if keys:
        text = f"`{keys[0]}` chooses one version of the table, and `incremental` reads the new ones: remove one of them"
        raise FormatError(text, f"source '{wanted.source}'", UNFIT)


def taken(wanted: IncrementalRead, version: str, operation: str, following: str) -> FormatError:
    """Make the error for a version that removed or changed rows.

    Args:
        wanted: the versions that are asked for.
        version: its name in the message.
        operation: the operation of its writer; empty where it is unknown.
        following: a bound of the command line that leaves it out.
    """
    what = f" ({operation})" if operation else ""
    text = (
        f"{version} of the table{what} has taken rows away or changed some, and an incremental source reads what is "
        f"added: read everything again after `clinker bookmark reset PIPELINE --source {wanted.source}`, or go on "
        f"after it by the reset and `clinker run --since {wanted.source}={following}`"
    )
    return FormatError(text, f"source '{wanted.source}'", UNFIT)
