"""The parameters for `spark-submit`, with the names of `SparkSubmitOperator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.openlineage.utils import spark
from airflow.providers.common.compat.sdk import conf as airflow_conf

from clinker_provider.hooks.clinker_spark import DEFAULT_GRACE_S, ClinkerSparkSubmitHook
from clinker_provider.links.clinker import CONFIG_SECTION
from clinker_provider.operators.pipeline import PipelineOperator
from spark_jobs import contract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from airflow.providers.common.compat.sdk import Context

    from spark_jobs.stores.location import FilePath

#: Parameters that go to the Spark provider's hook under the same names.
PASSED_ON = (
    "files",
    "archives",
    "driver_class_path",
    "jars",
    "packages",
    "exclude_packages",
    "repositories",
    "total_executor_cores",
    "executor_cores",
    "executor_memory",
    "driver_memory",
    "num_executors",
    "keytab",
    "principal",
    "proxy_user",
    "use_krb5ccache",
    "properties_file",
    "yarn_queue",
    "deploy_mode",
    "post_submit_commands",
    "status_poll_interval",
    "verbose",
)


class SubmittingOperator(PipelineOperator):
    """An operator that submits to Spark. Not used by itself.

    Parameters have the names and meanings of `SparkSubmitOperator`, and all that are texts or numbers are templated.
    Those that follow a run by other means than its result record are not there: `durable`, `yarn_track_via_rm_api`,
    `yarn_rm_auth`, `track_driver_via_k8s_api`. These are different or new:

    :param conn_id: Spark connection; its absence is an error (templated)
    :param master: Spark master instead of a connection, such as `local[*]` or `spark://host:7077` (templated)
    :param spark_binary: the `spark-submit` to call; default: the one in `SPARK_HOME`, or the one beside this Python
    :param name: name of the application; default `clinker.<pipeline file>` (templated)
    :param openlineage_inject_parent_job_info: whether Spark's own lineage events name this task as their parent.
        Default: Airflow's configuration `[openlineage] spark_inject_parent_job_info`
    :param openlineage_inject_transport_info: whether they go where Airflow's do.
        Default: `[openlineage] spark_inject_transport_info`
    :param kill_grace_s: seconds that processes get to end by themselves when the task is killed
    """

    template_fields: Sequence[str] = (
        *PipelineOperator.template_fields,
        "conn_id",
        "master",
        "name",
        "conf",
        "files",
        "py_files",
        "archives",
        "driver_class_path",
        "jars",
        "packages",
        "exclude_packages",
        "keytab",
        "principal",
        "proxy_user",
        "repositories",
        "total_executor_cores",
        "executor_cores",
        "executor_memory",
        "driver_memory",
        "num_executors",
        "properties_file",
        "yarn_queue",
        "deploy_mode",
        "post_submit_commands",
        "spark_binary",
    )

    def __init__(
        self,
        *,
        conn_id: str = "spark_default",
        master: str | None = None,
        name: str | None = None,
        conf: dict[str, Any] | None = None,
        files: str | None = None,
        py_files: str | None = None,
        archives: str | None = None,
        driver_class_path: str | None = None,
        jars: str | None = None,
        packages: str | None = None,
        exclude_packages: str | None = None,
        repositories: str | None = None,
        total_executor_cores: int | None = None,
        executor_cores: int | None = None,
        executor_memory: str | None = None,
        driver_memory: str | None = None,
        num_executors: int | None = None,
        keytab: str | None = None,
        principal: str | None = None,
        proxy_user: str | None = None,
        use_krb5ccache: bool = False,
        properties_file: str | None = None,
        yarn_queue: str | None = None,
        deploy_mode: str | None = None,
        post_submit_commands: list[str] | None = None,
        status_poll_interval: int = 1,
        openlineage_inject_parent_job_info: bool | None = None,
        openlineage_inject_transport_info: bool | None = None,
        verbose: bool = False,
        spark_binary: str | None = None,
        kill_grace_s: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.master = master
        self.name = name
        self.conf = conf
        self.files = files
        self.py_files = py_files
        self.archives = archives
        self.driver_class_path = driver_class_path
        self.jars = jars
        self.packages = packages
        self.exclude_packages = exclude_packages
        self.repositories = repositories
        self.total_executor_cores = total_executor_cores
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.driver_memory = driver_memory
        self.num_executors = num_executors
        self.keytab = keytab
        self.principal = principal
        self.proxy_user = proxy_user
        self.use_krb5ccache = use_krb5ccache
        self.properties_file = properties_file
        self.yarn_queue = yarn_queue
        self.deploy_mode = deploy_mode
        self.post_submit_commands = post_submit_commands
        self.status_poll_interval = status_poll_interval
        self.openlineage_inject_parent_job_info = _chosen(
            openlineage_inject_parent_job_info, "spark_inject_parent_job_info"
        )
        self.openlineage_inject_transport_info = _chosen(
            openlineage_inject_transport_info, "spark_inject_transport_info"
        )
        self.verbose = verbose
        self.spark_binary = spark_binary
        if kill_grace_s is None:
            kill_grace_s = airflow_conf.getfloat(CONFIG_SECTION, "kill_grace_s", fallback=DEFAULT_GRACE_S)
        self.kill_grace_s = kill_grace_s

    def make_hook(
        self,
        context: Context,
        *,
        execution_id: str,
        pipeline: FilePath,
        package: Path,
        arguments: list[str],
        on_application: Callable[[str], object] | None = None,
    ) -> ClinkerSparkSubmitHook:
        """The hook for one attempt, from rendered values.

        Args:
            context: the task's, for lineage.
            execution_id: the attempt's name.
            pipeline: the pipeline file, for the application's name.
            package: the packed engine to ship.
            arguments: the job's command line.
            on_application: called with the application id, as soon as it is known.
        """
        return ClinkerSparkSubmitHook(
            execution_id=execution_id,
            secrets=self.secrets(),
            master=self.master,
            on_application=on_application,
            kill_grace_s=self.kill_grace_s,
            conn_id=self.conn_id,
            name=self.name or f"clinker.{pipeline.stem}",
            conf={contract.EXECUTION_ID_CONF: execution_id, **self._conf_with_lineage(context)},
            env_vars={name: str(value) for name, value in (self.env_vars or {}).items()},
            spark_binary=self.spark_binary,
            py_files=",".join(filter(None, [str(package), self.py_files])),
            application_args=arguments,
            **{parameter: getattr(self, parameter) for parameter in PASSED_ON},
        )

    def given(self) -> dict[str, Any]:
        """With the settings of Spark, and every text that may have an address in it."""
        texts = {field: getattr(self, field, None) for field in self.template_fields if field != "plan_text"}
        arguments = getattr(self, "run_args", None)
        return {**texts, **super().given(), "conf": self.conf, "application_args": arguments}

    def _conf_with_lineage(self, context: Context) -> dict[str, Any]:
        settings = dict(self.conf or {})
        if self.openlineage_inject_parent_job_info:
            settings = spark.inject_parent_job_information_into_spark_properties(settings, context)
        if self.openlineage_inject_transport_info:
            settings = spark.inject_transport_information_into_spark_properties(settings, context)
        return settings


def _chosen(given: bool | None, option: str) -> bool:
    return bool(airflow_conf.getboolean("openlineage", option, fallback=False)) if given is None else given
