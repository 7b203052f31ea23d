"""Authentication of Spark's own ports: the RPC and block manager of a driver carry pickled tasks and records.

A session whose executors are in its own process has Spark draw a secret, which is in no setting, file or command line.
A cluster has a secret of its own, which the driver has to know; a run cannot make one up, for the cluster's workers
hand it to executors. There the run says so once where nothing is authenticated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.execute import logs

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Spark's own setting: connections must authenticate with a secret.
SWITCH = "spark.authenticate"


def warn(master: str, known: Mapping[str, str]) -> None:
    """Warn of a cluster whose ports accept everybody, unless the user has allowed it.

    Args:
        master: Spark's master.
        known: the settings that there are.
    """
    if SWITCH not in known:
        logs.LOG.warning(
            "%s: Spark does not authenticate connections to its ports, so anybody who reaches them can read records of "
            f"this run; set {SWITCH}=true and the cluster's secret in spark-defaults.conf, or {SWITCH}=false if the "
            "network is safe",
            master,
        )
