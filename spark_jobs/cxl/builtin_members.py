"""The built-in members of `$pipeline` and `$source`; no variable can have their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.cxl import types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.cxl.types import Type

#: The types of the members of each namespace.
MEMBERS: Mapping[str, Mapping[str, Type]] = {
    "pipeline": {
        "name": types.STRING,
        "execution_id": types.STRING,
        "batch_id": types.STRING,
        "start_time": types.DATETIME,
        "total_count": types.INT.or_null(),
        "ok_count": types.INT.or_null(),
        "dlq_count": types.INT.or_null(),
        "filtered_count": types.INT.or_null(),
        "distinct_count": types.INT.or_null(),
        "source_file": types.STRING.or_null(),
        "source_row": types.INT.or_null(),
    },
    "source": {
        "file": types.STRING.or_null(),
        "path": types.STRING.or_null(),
        "name": types.STRING.or_null(),
        "batch": types.STRING.or_null(),
        "row": types.INT.or_null(),
        "count": types.INT.or_null(),
        "ingestion_timestamp": types.DATETIME.or_null(),
        "event_time": types.DATETIME.or_null(),
    },
}
#: Two spellings of one value.
SAME = {"pipeline.source_file": "source.file", "pipeline.source_row": "source.row"}
