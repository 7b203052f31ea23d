"""The loader of each kind of database: the module that puts rows into its tables."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from spark_jobs.formats.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_jobs.formats.database.options import KnownDatabaseWrite
    from spark_jobs.formats.staging import Loader
    from spark_jobs.scan.connections import Connection


def of(connection: Connection) -> Loader:
    """Give the loader for a connection: the module that puts rows into tables of its kind of database."""
    found: Loader = importlib.import_module(f"spark_jobs.formats.database.{connection.engine.name}.loading")
    return found


def staging(
    connection: Connection,
    options: KnownDatabaseWrite,
    run_name: str,
    name: str,
    columns: Iterable[tuple[str, str]],
    *,
    quote: str = '"',
) -> Staging:
    """Describe the staging table of an output, which has no rows yet.

    Args:
        connection: the connection of the output.
        options: the options of the output, completed by its table.
        run_name: the execution id.
        name: the name of the staging table.
        columns: see `Staging.columns`.
        quote: the quotation mark of names in SQL.
    """
    return Staging(
        schema=options.known.schema,
        name=name,
        run=run_name,
        connection=connection.name,
        target=options.known.relation,
        mode=str(options.mode),
        keys=options.key,
        columns=tuple(columns),
        quote=quote,
    )
