"""`clinker recover`: completes or removes the remains of dead runs, in local folders and in stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.diagnostic import Diagnostics
from spark_jobs.diagnostics.printable import printable
from spark_jobs.disk import durable
from spark_jobs.stores import location
from spark_jobs.stores.refusals import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.execute.delivery.participant import StorageAccess


def main(folders: Sequence[str], base_dir: Path) -> int:
    """Recover each folder; exit 4 when one cannot be recovered, and 1 when a name leads nowhere.

    Args:
        folders: paths and URIs.
        base_dir: where `clinker.toml` is looked for, which says how stores are reached.
    """
    from spark_jobs.execute.delivery.participant import StorageAccess
    from spark_jobs.plan.reading import workspace

    found = Diagnostics()
    storage = workspace.load(base_dir, found).storage
    access = StorageAccess(storage.stores, storage.connections, storage.catalogs)
    problems = [f"{each.code.id}: {each.message}" for each in found if each.is_error]
    problems += [f"{folder}: {problem}" for folder in folders if (problem := _problem(folder))]
    if problems:
        for text in problems:
            _say(f"clinker recover error: {text}")
        return ExitCode.CONFIG
    code = ExitCode.SUCCESS
    for folder in folders:
        try:
            cleared = _recovered(folder, access)
        except StoreError as error:
            _say(f"clinker recover error: {error.code}: {error}")
            code = ExitCode.IO
        except OSError as error:
            _say(f"clinker recover error: E900: {durable.describe(error, folder)}")
            code = ExitCode.IO
        else:
            for each in cleared:
                sys.stdout.write(printable(f"{each}: completed or removed") + "\n")
            if not cleared:
                sys.stdout.write(printable(f"{folder}: nothing is left of dead runs") + "\n")
    return code


def _problem(folder: str) -> str | None:
    if location.scheme_of(folder) in ("", "file"):
        path = Path(location.local(folder)) if location.problem(folder) is None else None
        return None if path is not None and path.is_dir() else "there is no such folder"
    if location.scheme_of(folder) not in location.WRITABLE:
        known = ", ".join(f"{each}://" for each in sorted(location.WRITABLE))
        return f"runs write to local folders and to {known} only"
    problem = location.problem(folder)
    return None if problem is None else f"{problem[0]}: {problem[1]}"


def _recovered(folder: str, access: StorageAccess) -> list[str]:
    place = location.located(folder)
    if isinstance(place, Path):
        from spark_jobs.execute.delivery.local import recovery

        return [str(each) for each in recovery.recover(place, access)]
    from spark_jobs.execute.delivery.objects import recovery as of_objects
    from spark_jobs.stores import opening

    store = opening.writable(access.stores.resolved())
    return [str(each) for each in of_objects.recover(store, place / "", access=access)]


def _say(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
