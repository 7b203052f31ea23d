"""The searches of sensors for result records of runs and for metrics files. Pure, free of Airflow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from clinker_provider.records import Records

if TYPE_CHECKING:
    from clinker_provider.files import Files


def for_result(files: Files, work_dir: str, execution_id: str) -> dict[str, Any] | None:
    """The result record of an execution, as JSON has it; None while there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: what stands there is no record of this execution.
    """
    found = Records(work_dir, files.environ, files.settings).read(execution_id)
    return found.to_dict() if found else None


def for_metrics(files: Files, spool_dir: str, pipeline: str | None, min_count: int) -> dict[str, Any] | None:
    """The metrics files of a folder, of one pipeline or of all; None while there are too few. Others are passed over.

    Raises:
        OSError: the folder or a file cannot be read, or its store refuses.
        ValueError: the folder is a URI that leads nowhere.
    """
    paths, records, dead = [], 0, 0
    for path in files.listed(spool_dir, ".json"):
        try:
            with files.local(path) as copy:
                document = json.loads(copy.read_bytes())
        except FileNotFoundError:
            continue  # a collection has just taken it
        except ValueError:
            continue  # no metrics file, and a collection names it
        if (
            isinstance(document, dict)
            and "execution_id" in document
            and pipeline in (None, document.get("pipeline_name"))
        ):
            paths.append(path)
            records += int(document.get("records_total") or 0)
            dead += int(document.get("records_dlq") or 0)
    if len(paths) < min_count:
        return None
    return {"paths": paths, "count": len(paths), "records": records, "dlq_count": dead}
