"""Collects the metrics files that runs left in a spool folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from clinker_provider import validation
from clinker_provider.exceptions import ClinkerConfigError, ClinkerIOError
from clinker_provider.hooks import clinker_connection
from clinker_provider.records import seen
from spark_jobs import contract, spool
from spark_jobs.stores import location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.providers.common.compat.sdk import Context


class ClinkerMetricsCollectOperator(BaseOperator):
    """Append the metrics files of a spool folder to an NDJSON archive, as `clinker metrics collect` does.

    :param spool_dir: the folder that runs write their metrics to, or a URI (templated)
    :param output_file: the archive, a local file; made when missing, else added to (templated)
    :param delete_after_collect: whether collected files are removed
    :param dry_run: only count
    :param store_conn_id: connection (`aws`, `google_cloud_platform`, `wasb`) with the credentials of the store;
        without it they come from the environment (templated)

    XCom `return_value`: `collected` and `skipped` (counts), `output_file`.
    A file that is no metrics document stays where it is and is named in the log.
    """

    template_fields: Sequence[str] = ("spool_dir", "output_file", "store_conn_id")
    ui_color = "#dfe6ee"
    custom_operator_name = "Clinker metrics"

    def __init__(
        self,
        *,
        spool_dir: str | Path,
        output_file: str | Path,
        delete_after_collect: bool = False,
        dry_run: bool = False,
        store_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.spool_dir = validation.as_text(spool_dir)
        self.output_file = validation.as_text(output_file)
        self.delete_after_collect = delete_after_collect
        self.only_look = dry_run
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> dict[str, Any]:
        """Collect; returns the counts.

        Raises:
            ClinkerConfigError: a URI leads nowhere, or the archive is one.
            ClinkerIOError: when the spool cannot be read or the archive cannot be written.
        """
        try:
            archive = location.located(self.output_file)
            if not isinstance(archive, Path):
                message = f"output_file {location.without_credentials(self.output_file)}: an archive is a local file, "
                raise ClinkerConfigError(
                    f"{message}because lines are added to it: name one, and copy it into the store afterwards",
                    exit_code=contract.ExitCode.CONFIG,
                )
            collected = self._collected(location.located(self.spool_dir), archive)
        except location.BadLocation as error:
            raise ClinkerConfigError(f"{error.message}: {error.remedy}", exit_code=contract.ExitCode.CONFIG) from error
        except OSError as error:
            raise ClinkerIOError(f"metrics cannot be collected: {error}", exit_code=contract.ExitCode.IO) from error
        for path, reason in collected.skipped:
            self.log.warning("%s is left alone: %s", path, reason)
        for path, reason in collected.kept:
            self.log.warning("%s is collected and could not be removed: %s", path, reason)
        self.log.info("%d metrics files collected into %s", len(collected.documents), self.output_file)
        return {
            "collected": len(collected.documents),
            "skipped": len(collected.skipped),
            "output_file": self.output_file,
        }

    def _collected(self, spool_dir: location.FilePath, archive: Path) -> spool.Collected:
        how = {"delete": self.delete_after_collect, "dry_run": self.only_look}
        if isinstance(spool_dir, Path):
            return spool.collect(spool_dir, archive, **how)
        from spark_jobs.stores import spooled

        files = clinker_connection.files_of(self.store_conn_id)
        with seen(files.environ):
            return spooled.collect(spool_dir, archive, files.resolved(), **how)
