"""The provider's metadata for Airflow: a plain dictionary, found by the entry point `apache_airflow_provider`."""

from __future__ import annotations

from typing import Any

_INTEGRATION = "Clinker"


def get_provider_info() -> dict[str, Any]:
    """The provider's parts by Airflow's provider schema; `package-name` is the distribution's name."""
    return {
        "package-name": "airflow-provider-clinker",
        "name": "Clinker",
        "description": "Declarative ETL pipelines in YAML and CXL, run on Apache Spark.",
        "versions": ["0.2.0", "0.1.0"],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "how-to-guide": ["/docs/airflow.md"],
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "clinker_provider.operators.spark",
                    "clinker_provider.operators.validate",
                    "clinker_provider.operators.metrics",
                    "clinker_provider.operators.cases",
                    "clinker_provider.operators.replay",
                ],
            }
        ],
        "sensors": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": ["clinker_provider.sensors.dead_letters", "clinker_provider.sensors.looking"],
            },
        ],
        "hooks": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "clinker_provider.hooks.clinker_spark",
                    "clinker_provider.hooks.clinker_command",
                    "clinker_provider.hooks.clinker_connection",
                ],
            },
        ],
        "triggers": [
            {
                "integration-name": _INTEGRATION,
                "python-modules": [
                    "clinker_provider.triggers.dead_letters",
                    "clinker_provider.triggers.looking",
                    "clinker_provider.triggers.job",
                ],
            },
        ],
        "task-decorators": [{"name": "clinker", "class-name": "clinker_provider.decorators.clinker.clinker_task"}],
        "notifications": ["clinker_provider.notifications.dead_letters.ClinkerDeadLettersNotifier"],
        "connection-types": [
            {
                "connection-type": "clinker",
                "hook-class-name": "clinker_provider.hooks.clinker_connection.ClinkerHook",
                "hook-name": "Clinker",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "password", "extra"],
                    "relabeling": {"host": "Spark master"},
                    "placeholders": {"host": "local[*], spark://host:7077, yarn or k8s://https://host:443"},
                },
                "conn-fields": {
                    "deploy-mode": _field("Deploy mode", "Where the driver runs.", enum=["client", "cluster", None]),
                    "spark-binary": _field(
                        "Spark binary", "Default: that of SPARK_HOME, or the one beside Airflow's Python."
                    ),
                    "queue": _field("YARN queue", "The queue that applications go to."),
                    "namespace": _field("Kubernetes namespace", "The namespace of driver and executors."),
                    "rest-scheme": _field("REST scheme", "Of a standalone master's REST server.", default="http"),
                    "rest-port": _field("REST port", "Of a standalone master's REST server.", default="6066"),
                    "yarn_resourcemanager_webapp_address": _field(
                        "YARN ResourceManager", "Its web address, which a deferred task asks for the application."
                    ),
                    "work_dir": _field(
                        "Work folder",
                        "Where runs leave their result records: a folder, shared in cluster mode, or a URI.",
                    ),
                    "metrics_spool_dir": _field("Metrics folder", "Where runs write their metrics files."),
                    "rules_path": _field("CXL modules", "Folder of modules that pipelines use."),
                    "memory_limit": _field("Memory limit", "Memory for the data of a run, such as 2G."),
                    "threads": _field("Threads", "Threads of an embedded run."),
                    "conf": _field("Spark settings", "A JSON object of settings."),
                    "store_conn_id": _field(
                        "Store connection", "A connection of type aws, google_cloud_platform or wasb with credentials."
                    ),
                    "history_url": _field("History link", "Such as http://history:18080/history/{application_id}/"),
                    "dlq_url": _field("Dead-letter link", "Such as https://files.example.com{dlq_path}"),
                    "metrics_url": _field("Metrics link", "Such as https://files.example.com{metrics_path}"),
                },
            }
        ],
        "extra-links": [
            "clinker_provider.links.clinker.SparkHistoryLink",
            "clinker_provider.links.clinker.DeadLettersLink",
            "clinker_provider.links.clinker.MetricsLink",
        ],
        "config": {
            "clinker": {
                "description": "Defaults of the Clinker operators.",
                "options": {
                    "validate": {
                        "description": "When pipelines are checked: `parse`, `execute` or `off`.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "execute",
                        "default": "parse",
                    },
                    "remember_valid": {
                        "description": (
                            "Whether a pipeline that was found valid is not planned again each time that its DAG file "
                            "is parsed, until a file or a variable changes that it depends on."
                        ),
                        "version_added": "0.3.0",
                        "type": "boolean",
                        "example": "False",
                        "default": "True",
                    },
                    "kill_grace_s": {
                        "description": "Seconds that a killed run's processes get to end by themselves.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": None,
                        "default": "3.0",
                    },
                    "emit_assets": {
                        "description": "Whether tasks have assets: outputs as outlets, sources as inlets.",
                        "version_added": "0.3.0",
                        "type": "boolean",
                        "example": "True",
                        "default": "False",
                    },
                    "history_url": {
                        "description": "URL template of an application in the Spark history server.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "http://history:18080/history/{application_id}/",
                        "default": "",
                    },
                    "dlq_url": {
                        "description": "URL template of a dead-letter file.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://files.example.com{dlq_path}",
                        "default": "",
                    },
                    "metrics_url": {
                        "description": "URL template of a metrics file.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://files.example.com{metrics_path}",
                        "default": "",
                    },
                },
            }
        },
    }


def _field(label: str, description: str, **schema: Any) -> dict[str, Any]:
    """A field of the connection's form."""
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}
