"""Publishes into several places at once, and completes or removes the remains of dead runs.

`participant.py` describes the protocol. The visible changes of a run follow one another in the order of `Rank`:
databases, tables, objects, files. Within one rank they follow the order in which the run opened them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spark_jobs.contract import ExitCode
from spark_jobs.disk import durable
from spark_jobs.execute import logs
from spark_jobs.execute.delivery.participant import Answer, NotCompleted
from spark_jobs.execute.verdict import RunFailed
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_jobs.execute.delivery.participant import Address, DeadParticipant, Home, Participant, StorageAccess

#: The module for each kind of address, in the order of `Rank`. Each module defines a function
#: `dead_participant(address: Address, home: Address, access: StorageAccess) -> DeadParticipant`. If the journal can be
#: at such an address, it also defines `resolve(home: Address, access: StorageAccess) -> Answer`.
KINDS = {
    "staged": "spark_jobs.execute.delivery.databases",
    "delta-table": "spark_jobs.execute.delivery.delta.commit",
    "iceberg-table": "spark_jobs.execute.delivery.iceberg.commit",
    "objects": "spark_jobs.execute.delivery.objects.taking_part",
    "files": "spark_jobs.execute.delivery.local.taking_part",
}


def publish(participants: Sequence[Participant], home: Home) -> None:
    """Make the work of all participants visible, or none of it. Must not be interrupted.

    A single participant decides for itself, and needs no journal.

    Args:
        participants: the participants with something to publish.
        home: the place of the journal; one of the participants if possible.

    Raises:
        OSError: nothing is visible, because something could not be prepared, or the first participant could not
            complete.
        RunFailed: the same; or some participants have completed and others have not. The message names them, and
            says whether the next run completes the others.
    """
    if len(participants) == 1:
        _publish_alone(participants[0])
        return
    ordered = sorted(participants, key=lambda each: each.rank)
    others = [each for each in ordered if each.address != home.address]
    addresses = [each.address for each in others]
    begun: list[Participant] = []
    try:
        home.announce(addresses)
        for each in others:
            begun.append(each)
            each.prepare(home.address)
        home.decide(addresses)
    except BaseException:
        _take_back(home, begun)
        raise
    _complete(ordered, home)


def _publish_alone(only: Participant) -> None:
    try:
        only.prepare(None)
    except RunFailed:
        _give_up([only], None)
        raise
    except OSError:
        if not _has_completed(only):
            raise
        return
    try:
        only.complete()
    except NotCompleted as problem:
        if not problem.is_visible:
            _give_up([only], None)
        raise problem.cause from None
    except OSError:
        if not _has_completed(only):
            raise


def _complete(ordered: Sequence[Participant], home: Home) -> None:
    done: list[Participant] = []
    refused: list[tuple[Participant, Exception]] = []
    for position, each in enumerate(ordered):
        try:
            each.complete()
        except NotCompleted as problem:
            is_first = not done and not refused
            if is_first and not problem.is_visible and _take_back(home, ordered):
                raise problem.cause from problem
            if problem.can_be_later or (not done and not refused and not problem.is_visible):
                raise _half_done(problem.cause, done, ordered[position:], is_later=True) from problem
            refused.append((each, problem.cause))
            continue
        except OSError as error:
            if not _has_completed(each):
                raise _half_done(error, done, ordered[position:], is_later=True) from error
        done.append(each)
    if refused:
        _give_up((each for each, _ in refused), home)
    home.forget()
    if refused:
        raise _half_done(refused[0][1], done, [each for each, _ in refused], is_later=False)


def _has_completed(each: Participant) -> bool:
    try:
        return each.is_completed()
    except OSError as error:
        logs.LOG.debug("%s: nobody can tell whether it has completed: %s", each.label, error)
        return False


def _take_back(home: Home, participants: Iterable[Participant]) -> bool:
    """Take back the decision and the prepared work. Returns True if the next run will find no decision."""
    if not home.take_back():
        logs.LOG.warning(
            "the next run that writes there publishes what this run has written, from %s", home.address.place
        )
        return False
    _give_up(participants, home)
    return True


def _give_up(participants: Iterable[Participant], home: Home | None) -> None:
    """Remove the prepared work. If something remains, its home remains too, so that the next run finds both."""
    for each in participants:
        try:
            each.give_up()
        except OSError as error:
            logs.LOG.warning("%s: what is left is removed by the next run that writes there: %s", each.label, error)
            if home is not None:
                home.stay()


def _half_done(
    cause: Exception, done: Sequence[Participant], pending: Sequence[Participant], *, is_later: bool
) -> RunFailed:
    """The error of a run that is visible in some places and not in others."""
    code = cause.code if isinstance(cause, StoreError | RunFailed) else "E900"
    said = str(cause) if isinstance(cause, StoreError) or not isinstance(cause, OSError) else durable.describe(cause)
    text = f"{said}; the run is published already in: {_labels(done)}; not yet in: {_labels(pending)}"
    text += "; the next run that writes there, or `clinker recover`, publishes the rest" if is_later else ", for good"
    return RunFailed(ExitCode.IO, code, text)


def _labels(participants: Iterable[Participant]) -> str:
    return ", ".join(each.label for each in participants) or "no place"


def complete_dead(others: Iterable[Address], home: Address, access: StorageAccess) -> None:
    """Complete the prepared work of a dead run whose home has decided. The home completes its own part afterwards.

    Raises:
        OSError: something cannot be completed, so the journal must stay.
    """
    known = [*KINDS]
    for address in sorted(others, key=lambda each: known.index(each.kind) if each.kind in known else len(known)):
        _dead_participant(address, home, access).complete()


def remove_dead(others: Iterable[Address], home: Address, access: StorageAccess) -> None:
    """Remove the prepared or announced work of a dead run whose home has not decided.

    Raises:
        OSError: something cannot be removed, so its announcement must stay.
    """
    for address in others:
        _dead_participant(address, home, access).remove()


def resolve(home: Address, access: StorageAccess) -> Answer:
    """Ask a home for the state of its run, and complete or remove all remains of a dead run.

    A process that finds prepared work calls this first. After `Answer.RESOLVED` it looks again: work that is still
    prepared was never decided, and is removed.

    Raises:
        OSError: the home cannot be reached from here, or something cannot be completed.
    """
    answer: Answer = _module(home).resolve(home, access)
    return answer


def _dead_participant(address: Address, home: Address, access: StorageAccess) -> DeadParticipant:
    found: DeadParticipant = _module(address).dead_participant(address, home, access)
    return found


def _module(address: Address) -> Any:
    if address.kind not in KINDS:
        text = f"a run that died has written into {address.place}, and this version does not know such places"
        raise OSError(None, f"{text} ({address.kind}): run the version that the run had", address.place)
    return importlib.import_module(KINDS[address.kind])
