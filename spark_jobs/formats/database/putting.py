"""What puts rows into the tables of each kind of database."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.formats.staging import Putting
    from spark_jobs.scan.connections import Connection


def of(connection: Connection) -> Putting:
    """What puts rows into the tables of a connection."""
    found: Putting = importlib.import_module(f"spark_jobs.formats.database.{connection.engine.name}.putting")
    return found
