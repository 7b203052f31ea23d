"""The files of the staging folder: the names of staged copies, and the manifests that make them valid.

Each source file has an id, the BLAKE3 of its canonical path, and up to three files directly in the folder: the copy
`<id>.staged`, its manifest `<id>.manifest.json`, and the lock `<id>.lock`. A copy is valid if it has a
manifest; a copy without one remains from a run that died.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.scan.staging import selection
from spark_jobs.stores import location

if TYPE_CHECKING:
    from spark_jobs.scan.files import InputFile

STAGED, MANIFEST, LOCK, PARTIAL = ".staged", ".manifest.json", ".lock", ".partial"
_NANOS = 1_000_000_000


class Verify(StrEnum):
    """The verification of staged copies."""

    BLAKE3 = "blake3"
    NONE = "none"


class OnExisting(StrEnum):
    """The policy for a staged copy that exists already."""

    OVERWRITE = "overwrite"
    REUSE = "reuse"
    ERROR = "error"


class Cleanup(StrEnum):
    """When staged copies are removed."""

    ON_SUCCESS = "on_success"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True)
class Settings:
    """`[storage.staging]`, where it is enabled.

    Args:
        folder: where copies are written, absolute.
        patterns: which files are staged, as `staging_patterns` reads them.
        cap_bytes: how much a run may copy; None for any amount.
        verify: how copies are checked.
        on_existing: what happens to a copy of an earlier run.
        cleanup: when copies are removed.
    """

    folder: str
    patterns: tuple[str, ...] = ()
    cap_bytes: int | None = None
    verify: Verify = Verify.BLAKE3
    on_existing: OnExisting = OnExisting.OVERWRITE
    cleanup: Cleanup = Cleanup.ON_SUCCESS

    def wants(self, file: InputFile) -> bool:
        """True if a file is staged."""
        return selection.matches(self.patterns, file.path)


@dataclass(frozen=True)
class Manifest:
    """The origin of a staged copy. Sizes are in bytes, `staged_at` is in ISO form, UTC."""

    source_path: str
    source_mtime_secs: int
    source_mtime_nanos: int
    source_size: int
    content_hash: str
    staged_at: str
    source_version: str = ""

    @classmethod
    def of(cls, file: InputFile, content_hash: str) -> Manifest:
        """The manifest of a file as it was when its source was looked at."""
        seconds, nanos = divmod(file.mtime_ns, _NANOS)
        now = datetime.now(UTC).isoformat()
        return cls(real_path(file.path), seconds, nanos, file.size, content_hash, now, file.version)

    @classmethod
    def parse(cls, text: bytes) -> Manifest | None:
        """A manifest from its file's text; None if that is none."""
        try:
            found = cls(**json.loads(text))
            moment = datetime.fromisoformat(found.staged_at)
        except (ValueError, TypeError):
            return None
        numbers = (found.source_mtime_secs, found.source_mtime_nanos, found.source_size)
        return found if moment.tzinfo and all(type(number) is int for number in numbers) else None

    def is_fresh(self, file: InputFile) -> bool:
        """True if a file is still what was copied, by its size, its time of change, and its version in a store."""
        mtime_ns = self.source_mtime_secs * _NANOS + self.source_mtime_nanos
        return (self.source_size, mtime_ns, self.source_version) == (file.size, file.mtime_ns, file.version)

    def is_younger(self, moment: datetime) -> bool:
        """True if the copy was made since a moment."""
        return datetime.fromisoformat(self.staged_at) >= moment


@dataclass(frozen=True)
class StagedCopy:
    """The files that belong to a source file in a staging folder."""

    folder: Path
    id: str

    @classmethod
    def of(cls, folder: str, path: str) -> StagedCopy:
        """The staged copies of a source file, by its path."""
        # Only staging needs the package; planning and executors do without.
        from blake3 import blake3

        return cls(Path(folder), blake3(os.fsencode(real_path(path))).hexdigest())

    @property
    def data(self) -> Path:
        """The copy."""
        return self.folder / f"{self.id}{STAGED}"

    @property
    def manifest(self) -> Path:
        """Its manifest."""
        return self.folder / f"{self.id}{MANIFEST}"

    @property
    def lock(self) -> Path:
        """Its lock: shared while the copy is read, exclusive while it is made or removed."""
        return self.folder / f"{self.id}{LOCK}"

    def partial(self, run: str) -> Path:
        """The copy while it is made."""
        return self.folder / f"{self.id}.{run}{PARTIAL}"

    def committed(self) -> Manifest | None:
        """The manifest of a copy that is whole; None if there is no such copy.

        Raises:
            OSError: the files cannot be read.
        """
        try:
            found = Manifest.parse(self.manifest.read_bytes())
            size = self.data.stat().st_size
        except FileNotFoundError:
            return None
        return found if found is not None and found.source_size == size else None

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest: from then on the copy counts.

        Raises:
            OSError: it cannot be written; nothing of it is left.
        """
        partial = self.manifest.with_name(self.manifest.name + PARTIAL)
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(asdict(manifest), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.manifest)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self.sync()

    def discard(self) -> None:
        """Remove the copy; its manifest goes first, so that a death in between leaves nothing that counts.

        Raises:
            OSError: it cannot be removed.
        """
        self.manifest.unlink(missing_ok=True)
        self.data.unlink(missing_ok=True)

    def sync(self) -> None:
        """Make renames in the folder last."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def real_path(path: str) -> str:
    """A file's one name: behind all links, or its URI."""
    return path if location.is_uri(path) else os.path.realpath(path)


def forecast(settings: Settings, file: InputFile) -> str:
    """The state of the copy for `explain`: `hit` if a run would find a fresh one, `miss`, or `n/a` without reuse."""
    if settings.on_existing is not OnExisting.REUSE:
        return "n/a"
    try:
        manifest = StagedCopy.of(settings.folder, file.path).committed()
    except OSError:  # a copy of another user
        return "miss"
    return "hit" if manifest is not None and manifest.is_fresh(file) else "miss"
