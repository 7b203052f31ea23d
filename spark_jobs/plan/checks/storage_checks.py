"""Checks after planning, and before any work, that the folders of `[storage]` can serve a run.

All problems are found at once. Estimates that may not fit are warnings, since they are coarse.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.diagnostics import codes
from spark_jobs.disk import volumes
from spark_jobs.plan import paths
from spark_jobs.plan.physical import spill_estimates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.diagnostics.diagnostic import Code, Diagnostics
    from spark_jobs.plan.physical.inputs import Discovered
    from spark_jobs.plan.plan import Plan
    from spark_jobs.plan.reading.workspace import Storage
    from spark_jobs.scan.staging.staged_copy import Settings

_NETWORK = "a network filesystem (NFS/SMB/CIFS/FUSE)"


def check(plan: Plan, discover: Callable[[], Mapping[str, Discovered]], found: Diagnostics) -> None:
    """E322, E330 to E334 and E340 of a plan's folders; W330 and W331 when they are fit.

    Args:
        plan: the plan.
        discover: gives the files of its sources; asked only where they matter.
        found: gets the diagnostics, with their places in `clinker.toml`.
    """
    storage: Storage = plan.storage
    checks = _Checks(storage, found)
    checks.spill_folder()
    if storage.staging is not None:
        checks.staging_folder(storage.staging, discover)
    checks.among_parts(plan)
    if not found.has_errors and spill_estimates.stages(plan):
        checks.room(spill_estimates.estimate(plan, discover()))


class _Checks:
    def __init__(self, storage: Storage, found: Diagnostics) -> None:
        self._storage = storage
        self._found = found

    def _add(self, code: Code, setting: str, message: str, remedy: str | None = None) -> None:
        help = f"{remedy}; see: clinker explain --code {code.id}" if remedy else None
        self._found.add(code.at(self._storage.places.get(setting), message, help=help))

    def spill_folder(self) -> None:
        """Check the configured spill folder. The system's own temporary folder is not checked."""
        folder = self._storage.spill_dir
        if folder is None or not self._is_usable("spill.dir", folder):
            return
        setting = f"storage.spill.dir {folder}"
        match volumes.kind(folder):
            case volumes.Kind.MEMORY:
                message = f"{setting} is on an in-memory filesystem (tmpfs/ramdisk); spilling there frees no memory"
                self._add(codes.E330, "spill.dir", message, "point it at a folder on a disk")
            case volumes.Kind.NETWORK:
                message = f"{setting} is on {_NETWORK}; spilled data could be truncated or lost there"
                self._add(codes.E331, "spill.dir", message, "point it at a folder on a local disk")

    def staging_folder(self, staging: Settings, discover: Callable[[], Mapping[str, Discovered]]) -> None:
        """Check the staging folder, its file system, and that sources and spilled data are elsewhere."""
        folder = staging.folder
        if not folder:
            message = (
                "storage.staging.enabled is true but storage.staging.dir is not set; name a folder on a local disk"
            )
            self._add(codes.E340, "staging.enabled", message)
            return
        if not self._is_usable("staging.dir", folder):
            return
        setting = f"storage.staging.dir {folder}"
        self._devices(staging, discover(), setting)
        if volumes.kind(folder) is volumes.Kind.NETWORK:
            message = f"{setting} is on {_NETWORK}; copies there depend on a share as the sources do"
            self._add(codes.E332, "staging.dir", message, "point it at a folder on a local disk")
        spill = self._storage.spill_dir
        if spill is not None and os.path.realpath(spill) == os.path.realpath(folder):
            message = (
                f"storage.spill.dir and storage.staging.dir both resolve to {os.path.realpath(folder)}; they are "
                "measured and tidied up in different ways"
            )
            self._add(codes.E334, "staging.dir", message, "give each of them another folder")

    def among_parts(self, plan: Plan) -> None:
        """Readers of a folder of parts would take everything in it for records."""
        staging = self._storage.staging.folder if self._storage.staging is not None else None
        named = {name: paths.placed(step.path, plan.base_dir) for name, step in plan.outputs.items() if step.parts}
        folders = [(name, each) for name, each in named.items() if isinstance(each, Path)]
        for setting, folder in (("spill.dir", self._storage.spill_dir), ("staging.dir", staging)):
            for name, parts in folders if folder else ():
                if Path(os.path.realpath(str(folder))).is_relative_to(os.path.realpath(parts)):
                    message = f"storage.{setting} {folder} is in the folder of parts of output '{name}'"
                    self._add(codes.E322, setting, message, "give each of them another folder")

    def _devices(self, staging: Settings, sources: Mapping[str, Discovered], setting: str) -> None:
        """A copy within one device moves nothing off it; told once, with the first such file."""
        for source in sources.values():
            for file in source.files:
                if staging.wants(file) and not file.is_object and volumes.share_device(staging.folder, file.path):
                    message = (
                        f"{setting} is on the same physical device as staged source {os.path.abspath(file.path)}; "
                        "copying would not reduce the load on it"
                    )
                    self._add(codes.E333, "staging.dir", message, "point it at another device, or narrow the patterns")
                    return

    def room(self, estimate: spill_estimates.Estimate) -> None:
        """Warn if the spill volume or the cap may not hold the estimated bytes."""
        total, root = estimate.total, self._storage.spill_root
        advice = "reduce the spill footprint (raise memory.limit, partition the input)"
        free = volumes.free_bytes(root)
        if free < total:
            message = (
                f"spill volume {root} has {free} bytes free but the run is estimated to spill up to {total} bytes; the "
                "run may abort with a full-volume error (E321) at the final spill"
            )
            self._add(codes.W330, "spill.dir", message, f"point storage.spill.dir at a larger volume or {advice}")
        headroom = estimate.headroom(self._storage.spill_cap_bytes)
        if headroom is not None and headroom.is_short:
            message = (
                f"this run is estimated to spill up to {total} bytes, which is {headroom.percent:.0f}% of the "
                f"configured spill cap storage.spill.disk_cap_bytes ({headroom.cap} bytes); the run may abort with a "
                "spill-cap error (E320) before it finishes. This headroom is per invocation: runs at the same time "
                "share the volume, which leaves each of them less"
            )
            self._add(codes.W331, "spill.disk_cap_bytes", message, f"raise disk_cap_bytes or {advice}")

    def _is_usable(self, name: str, folder: str) -> bool:
        """True if a folder is there and can be written, proven by a file that is made and removed."""
        setting = f"storage.{name} {folder}"
        if not os.path.exists(folder):
            self._add(codes.E340, name, f"{setting} does not exist; create it or point at an existing volume")
        elif not os.path.isdir(folder):
            self._add(codes.E340, name, f"{setting} is a file, not a directory")
        else:
            try:
                with tempfile.TemporaryFile(prefix=f".clinker-{name.partition('.')[0]}-probe-", dir=folder):
                    return True  # it never had a name, where the file system can do that: no kill leaves it behind
            except OSError as error:
                self._add(codes.E340, name, f"{setting} is not writable: {error.strerror or error}")
        return False
