"""The connection type `clinker`: the address of Spark, and settings shared by all tasks that name the connection."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException, BaseHook

from clinker_provider import launcher, validation
from clinker_provider.files import Files
from clinker_provider.records import Records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.providers.common.compat.sdk import Connection

CONNECTION_TYPE = "clinker"
_ANSWER_S = 3.0
_EMBEDDED = re.compile(r"local(?:-cluster)?(?:\[|$)")
#: Parameters that an operator takes from the connection if it does not have them itself.
_DEFAULTS = ("work_dir", "metrics_spool_dir", "memory_limit", "threads", "rules_path")
_LINKS = ("history_url", "dlq_url", "metrics_url")
#: The environment that stores read credentials from, by the fields of a connection of their own.
_STORES: dict[str, dict[str, str]] = {
    "aws": {
        "login": "AWS_ACCESS_KEY_ID",
        "password": "AWS_SECRET_ACCESS_KEY",
        "aws_access_key_id": "AWS_ACCESS_KEY_ID",
        "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "aws_session_token": "AWS_SESSION_TOKEN",
        "region_name": "AWS_REGION",
        "endpoint_url": "AWS_ENDPOINT_URL",
    },
    "google_cloud_platform": {"key_path": "GOOGLE_APPLICATION_CREDENTIALS", "project": "GOOGLE_CLOUD_PROJECT"},
    "wasb": {
        "login": "AZURE_STORAGE_ACCOUNT_NAME",
        "password": "AZURE_STORAGE_ACCOUNT_KEY",
        "sas_token": "AZURE_STORAGE_SAS_TOKEN",
        "connection_string": "AZURE_STORAGE_CONNECTION_STRING",
    },
}


class BadConnection(ValueError):
    """A connection with a field that says nothing usable; the message names it."""


@dataclass(frozen=True)
class Settings:
    """The settings of a connection of the type `clinker`.

    Args:
        master: the Spark master.
        defaults: parameters of operators.
        links: URL templates.
        conf: settings of Spark.
        store_conn_id: the connection with the credentials of a store.
    """

    master: str
    defaults: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, Any] = field(default_factory=dict)
    store_conn_id: str | None = None


def master_of(connection: Connection) -> str:
    """The Spark master: the host as it is written, with the port; without a host it is embedded Spark."""
    host = connection.host or "local[*]"
    return f"{host}:{connection.port}" if connection.port else host


def settings_of(connection: Connection) -> Settings:
    """Read the settings of a connection.

    Raises:
        BadConnection: a field says nothing usable.
    """
    extra = connection.extra_dejson
    conf = extra.get("conf") or {}
    if isinstance(conf, str):
        try:
            conf = json.loads(conf)
        except ValueError as error:
            raise BadConnection(f"`conf` is no JSON: {error}") from error
    if not isinstance(conf, dict):
        raise BadConnection(f"`conf` is an object of Spark settings, not {type(conf).__name__}")
    return Settings(
        master=master_of(connection),
        defaults={name: str(extra[name]) for name in _DEFAULTS if extra.get(name)},
        links={name: str(extra[name]) for name in _LINKS if extra.get(name)},
        conf=conf,
        store_conn_id=extra.get("store_conn_id") or None,
    )


def credentials_of(connection: Connection) -> dict[str, str]:
    """The environment that a store reads its credentials from, as another connection has them.

    Raises:
        BadConnection: a connection of that type has none that stores know.
    """
    names = _STORES.get(str(connection.conn_type))
    if names is None:
        raise BadConnection(
            f"`{connection.conn_id}` is a connection of type {connection.conn_type!r}; stores take {', '.join(_STORES)}"
        )
    given = {**connection.extra_dejson, "login": connection.login, "password": connection.password}
    return {variable: str(given[name]) for name, variable in names.items() if given.get(name)}


def files_of(store_conn_id: str | None) -> Files:
    """A reader of files with the credentials of a connection; without one, they come from the environment.

    Raises:
        AirflowNotFoundException: there is no such connection.
        BadConnection: it is of a type that has no credentials of stores.
    """
    return Files(credentials_of(BaseHook.get_connection(store_conn_id)) if store_conn_id else {})


class ClinkerHook(BaseHook):
    """A connection of the type `clinker`, read and tested.

    :param clinker_conn_id: the connection
    """

    conn_name_attr = "clinker_conn_id"
    default_conn_name = "clinker_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Clinker"

    def __init__(self, clinker_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.clinker_conn_id = clinker_conn_id

    def get_conn(self) -> Settings:
        """The settings of the connection.

        Raises:
            BadConnection: a field says nothing usable.
        """
        return settings_of(self.get_connection(self.clinker_conn_id))

    def test_connection(self) -> tuple[bool, str]:
        """Whether runs can use it from this machine, and everything that keeps them from it."""
        try:
            connection = self.get_connection(self.clinker_conn_id)
            settings = settings_of(connection)
        except (AirflowException, BadConnection) as error:
            return False, str(error)
        found = [
            *_of_binary(connection),
            *_of_master(settings.master),
            *_of_folders(settings),
            *self._of_store(settings),
        ]
        return (False, "; ".join(found)) if found else (True, f"Spark is at {settings.master}, and folders can be used")

    def _of_store(self, settings: Settings) -> Iterator[str]:
        environ: dict[str, str] = {}
        try:
            if settings.store_conn_id is not None:
                environ = credentials_of(self.get_connection(settings.store_conn_id))
                if not environ:
                    yield f"the connection `{settings.store_conn_id}` has no credentials"
            if validation.is_remote(folder := settings.defaults.get("work_dir", "")):
                yield from _of_records(Records(folder, environ))
        except AirflowNotFoundException:
            yield f"there is no connection `{settings.store_conn_id}`, which `store_conn_id` names"
        except BadConnection as error:
            yield str(error)


def _of_binary(connection: Connection) -> Iterator[str]:
    named = connection.extra_dejson.get("spark-binary")
    binary = named or launcher.spark_submit(os.environ, sys.executable, installed=launcher.pyspark_home())
    if shutil.which(binary) is None:
        yield f"`{binary}` is not there: install pyspark beside Airflow, set SPARK_HOME, or give `spark-binary`"


def not_a_master(master: str) -> str | None:
    """Why Spark would refuse an address at once; None for the address of a master."""
    scheme, _, rest = master.partition("://")
    if _EMBEDDED.match(master) or master == "yarn" or (scheme in ("spark", "k8s") and rest):
        return None
    return f"{master!r} is no Spark master such as local[*], spark://host:7077, yarn, k8s://https://host:443"


def _of_master(master: str) -> Iterator[str]:
    if problem := not_a_master(master):
        yield problem
        return
    scheme, _, rest = master.partition("://")
    if scheme not in ("spark", "k8s"):
        return
    if scheme == "k8s":
        place = urlsplit(rest if "://" in rest else f"https://{rest}")
        addresses = [(place.hostname or "", place.port or (80 if place.scheme == "http" else 443))]
    else:
        addresses = [(host, int(port or 7077)) for host, port in re.findall(r"([^:,]+)(?::(\d+))?", rest)]
    problems = [problem for address in addresses if (problem := _unreachable(*address))]
    if len(problems) == len(addresses):  # of several masters one answers at a time
        yield from problems


def _unreachable(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError as error:
        return f"nobody answers at {host}:{port}: {error.strerror or error}"
    return None


def _of_folders(settings: Settings) -> Iterator[str]:
    for name in ("work_dir", "metrics_spool_dir"):
        folder = settings.defaults.get(name)
        if folder is None:
            continue
        if validation.is_remote(folder):
            continue
        place = Path(folder)
        if not place.is_dir():
            yield f"`{name}`: {folder} is no folder on this machine"
            continue
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            yield f"`{name}`: {folder} cannot be written: {error.strerror}"


def _of_records(records: Records) -> Iterator[str]:
    try:
        records.try_writing()
    except (OSError, ValueError) as error:
        yield f"`work_dir`: {error}"
