"""What sensors look for beside dead letters: a run's result record, and metrics files. Pure, free of Airflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clinker_provider import local_files
from clinker_provider.records import Records


def for_result(work_dir: str, execution_id: str) -> dict[str, Any] | None:
    """The result record of an execution, as JSON has it; None while there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: what stands there is no record of this execution.
    """
    found = Records(work_dir).read(execution_id)
    return found.to_dict() if found else None


def for_metrics(spool_dir: str, pipeline: str | None, min_count: int) -> dict[str, Any] | None:
    """The metrics files of a folder, of one pipeline or of all; None while there are too few. Others are passed over.

    Raises:
        OSError: the folder or a file cannot be read, or it is in a store.
    """
    folder, paths, records, dead = Path(local_files.pattern(spool_dir)), [], 0, 0
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            document = json.loads(path.read_bytes())
        except FileNotFoundError:
            continue  # a collection has just taken it
        except ValueError:
            continue  # no metrics file, and a collection names it
        if (
            isinstance(document, dict)
            and "execution_id" in document
            and pipeline in (None, document.get("pipeline_name"))
        ):
            paths.append(str(path))
            records += int(document.get("records_total") or 0)
            dead += int(document.get("records_dlq") or 0)
    if len(paths) < min_count:
        return None
    return {"paths": paths, "count": len(paths), "records": records, "dlq_count": dead}
