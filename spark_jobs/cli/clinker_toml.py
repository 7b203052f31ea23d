"""Settings from the `clinker.toml` of the current folder, for commands without a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.stores.settings import StoreSettings


def stores() -> StoreSettings:
    """The settings of object stores, from the file and the environment."""
    from spark_jobs.diagnostics.diagnostic import Diagnostics
    from spark_jobs.plan.reading import workspace

    return workspace.load(Path.cwd(), Diagnostics()).storage.stores.resolved()
