"""Chooses the scratch location of a run: `storage.scratch`, else a folder or prefix beside its outputs."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.disk import volumes
from spark_jobs.execute.delivery.local.files import LocalFiles
from spark_jobs.execute.scratch import Scratch
from spark_jobs.stores import location
from spark_jobs.stores.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.execute.delivery.destination import Draft
    from spark_jobs.execute.delivery.targets import Targets
    from spark_jobs.plan import plan as plans
    from spark_jobs.stores.location import FilePath

#: The suffix of a draft that is never published, after the execution id.
_SUFFIX = "-scratch"


@contextmanager
def location_of(
    plan: plans.Plan, run: str, wanted: Targets, draft: Draft[FilePath], is_local: Callable[[], bool]
) -> Iterator[Scratch]:
    """The scratch location of a run, while it runs.

    Where nothing is set it is in the local draft, whose folder all machines have to share. On a cluster whose outputs
    go to a store it is there, so that nothing has to be shared.

    Args:
        plan: says where it is.
        run: the run's execution id.
        wanted: where the outputs go.
        draft: the draft of the files that the run publishes.
        is_local: tells whether the driver's own machine runs all tasks.

    Raises:
        OSError: it cannot be made, or written.
    """
    chosen = None if plan.storage is None else plan.storage.scratch
    if chosen is None:
        made = _next_to_outputs(plan, wanted, draft, is_local)
        try:
            yield made
        finally:
            made.close()
        return
    with _in_folder(Path(chosen), run) if not location.is_uri(chosen) else _in_store(plan, chosen, run, draft) as made:
        yield made


def _next_to_outputs(
    plan: plans.Plan, wanted: Targets, draft: Draft[FilePath], is_local: Callable[[], bool]
) -> Scratch:
    firsts = (each.first(each.deliveries[0]) for each in wanted.outputs if each.deliveries)
    target = next((each for each in firsts if isinstance(each, Location)), None)
    if target is None or is_local():
        return Scratch(str(draft.home))
    return _scratch(plan, draft.parts(target), draft)


@contextmanager
def _in_folder(folder: Path, run: str) -> Iterator[Scratch]:
    """A locked folder of the run, below the one that is set."""
    own = LocalFiles().open(f"{run}{_SUFFIX}", folder, ())
    try:
        yield Scratch(str(own.home))
    finally:
        own.close(failed=False)


@contextmanager
def _in_store(plan: plans.Plan, uri: str, run: str, draft: Draft[FilePath]) -> Iterator[Scratch]:
    """A prefix of the run with a lease, below the one that is set; what dead runs left there goes first."""
    from spark_jobs.execute.delivery.objects.files import ObjectFiles  # runs without a store need no client
    from spark_jobs.stores import opening

    there, folder = ObjectFiles(opening.writable(plan.stores.resolved())), location.parse(uri) / ""
    there.recover(folder)
    own = there.open(f"{run}{_SUFFIX}", draft.home, [folder])
    made = _scratch(plan, own.parts(folder / "any"), draft)
    try:
        yield made
    finally:
        made.close()
        own.close(failed=False)


def _scratch(plan: plans.Plan, folder: str, draft: Draft[FilePath]) -> Scratch:
    from spark_jobs.stores import opening

    store = opening.writable(plan.stores.resolved())
    return Scratch(folder.rstrip("/"), store, str(draft.home), volumes.reach())
