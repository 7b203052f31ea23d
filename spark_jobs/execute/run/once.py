"""Retries by a scheduler: a later attempt does not repeat a run that an earlier one has published.

An attempt may die, or lose its machine, between publishing its files and reporting to its scheduler. The next attempt
would find the right files and complain that they exist. So a run with `--once` publishes one more file: a record of
itself, beside its first output and in the same journal, so it exists exactly when the outputs do. A later attempt
(`--retry`) that finds the record, and every file as it was published, ends as that run did. A first attempt never looks
for it: a new request wants the run done.

Whoever can write this file can write the outputs, so it needs no more trust than they do.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_jobs import result
from spark_jobs.execute.delivery.destination import Content
from spark_jobs.execute.delivery.targets import fixed_folder
from spark_jobs.execute.run.metrics import Outcome
from spark_jobs.stores.location import located

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_jobs.execute.delivery.destination import Destination, Publication
    from spark_jobs.execute.delivery.targets import Targets
    from spark_jobs.plan import plan as plans
    from spark_jobs.stores.location import FilePath

_MOST_BYTES = 1 << 30
_NAME = ".clinker-once-{}.json"


@dataclass(frozen=True)
class Once:
    """Identifies a requested run.

    Args:
        task: the name of the scheduled task, which has one record over all its runs.
        run: the name of this scheduled run, which all its attempts share.
        source_hash: the hash of the pipeline's text; a changed text makes another run.
        path: the record.
    """

    task: str
    run: str
    source_hash: str
    path: FilePath

    @classmethod
    def asked(cls, names: tuple[str, str], plan: plans.Plan, wanted: Targets) -> Once:
        """The `Once` of a run; its record is beside the first output whose folder is known before the inputs."""
        task, run = names
        digest = hashlib.sha256(task.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return cls(task, run, plan.source_hash, _folder(plan, wanted) / _NAME.format(digest))

    def found(self, there: Destination[FilePath], execution_id: str) -> Outcome | None:
        """The outcome of an earlier attempt, under the id of this one; None if this attempt has to run.

        It has to run if no attempt has published, or if a published file has been changed or removed since.
        """
        there.recover(self.path.parent)  # it may have died while it published
        record = self._read(there)
        if record is None or not all(there.stamp(located(path)) == stamp for path, stamp in record["files"].items()):
            return None
        before = result.of_dict(record["result"])
        renamed = replace(before, execution_id=execution_id, taken_from=before.taken_from or before.execution_id)
        return Outcome(renamed, record["nodes"])

    def note(self, draft: Publication[FilePath], outcome: Outcome) -> None:
        """Have the draft publish the record with its files.

        Raises:
            OSError: it cannot be written.
        """
        record = {
            **self._names,
            "result": outcome.result.to_dict(),
            "nodes": outcome.nodes,
            "files": draft.stamps(),
        }
        draft.assemble(self.path, Content(start=json.dumps(record).encode() + b"\n"))

    @property
    def _names(self) -> dict[str, str]:
        return {"who": self.task, "what": self.run, "of": self.source_hash}

    def _read(self, there: Destination[FilePath]) -> Mapping[str, Any] | None:
        """The record, when it is about this."""
        try:
            record = json.loads(there.own(self.path, _MOST_BYTES))
            if {name: record[name] for name in self._names} != self._names:
                return None
            result.of_dict(record["result"])
            return {
                "files": dict(record["files"]),
                "nodes": dict(record["nodes"]),
                "result": record["result"],
            }
        except (OSError, ValueError, KeyError, TypeError):  # no record: whatever it is, the run goes its usual way
            return None


def _folder(plan: plans.Plan, wanted: Targets) -> FilePath:
    """The folder of the first output that has no file for each input file; else what all files of the first share."""
    for target in wanted.outputs:
        if target.step.by_file is None and target.deliveries:
            return target.first(target.deliveries[0]).parent
    return fixed_folder(plan)
