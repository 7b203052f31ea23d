"""Finds `clinker.toml`, in the base folder or above it. Loads nothing but the standard library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.disk import small_files
from spark_jobs.stores.refusals import Kind, StoreError

if TYPE_CHECKING:
    from spark_jobs.stores.location import FilePath

NAME = "clinker.toml"


def find(base_dir: FilePath) -> FilePath | None:
    """The file of the workspace that an absolute base folder belongs to, in that folder or nearest above it.

    In a store it is looked for up to the top of the bucket, as far as the credentials allow: a forbidden object above
    the base folder counts as absent.

    Raises:
        StoreError: a store does not say.
    """
    if small_files.is_there(base_dir / NAME):
        return base_dir / NAME
    return next((folder / NAME for folder in base_dir.parents if _is_there(folder / NAME)), None)


def _is_there(path: FilePath) -> bool:
    try:
        return small_files.is_there(path)
    except StoreError as error:
        if error.kind is Kind.FORBIDDEN:
            return False
        raise
