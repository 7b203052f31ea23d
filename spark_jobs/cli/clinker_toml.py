"""Settings from the `clinker.toml` of the current folder, for commands without a pipeline."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.stores.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from spark_jobs.stores.location import FilePath
    from spark_jobs.stores.settings import StoreSettings


def stores() -> StoreSettings:
    """The settings of object stores, from the file and the environment."""
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.reading import workspace

    return workspace.load(Path.cwd(), Diagnostics()).storage.stores.resolved()


def reaching(named: Iterable[FilePath]) -> AbstractContextManager[None]:
    """Within, stores are reached with these settings, if anything that the command line names is in one."""
    if not any(isinstance(each, Location) for each in named):
        return nullcontext()
    from spark_jobs.stores import small_objects

    return small_objects.reached(stores)
