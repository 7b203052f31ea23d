"""Settings of stores from `clinker.toml` and the environment, except credentials.

Credentials are looked up where they are used, on each machine, in the places that the store's own tools look in. They
are in no setting, so that nothing that travels or is shown can have them.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class S3Settings:
    """The settings of S3 and of stores with its protocol.

    Args:
        endpoint: the server's URL; None is AWS.
        region: the buckets' region; None leaves it to the profile, or to the machine.
        path_style: whether the bucket stands in the path of requests and not in their host name; None lets the client
            decide.
        anonymous: whether requests are not signed, as public buckets allow.
    """

    endpoint: str | None = None
    region: str | None = None
    path_style: bool | None = None
    anonymous: bool = False

    def resolved(self) -> S3Settings:
        """Complete the settings from the environment of this process.

        A run resolves them once, so that executors reach the same server as the driver.
        """
        find = os.environ.get
        return replace(
            self,
            endpoint=self.endpoint or find("AWS_ENDPOINT_URL_S3") or find("AWS_ENDPOINT_URL") or None,
            region=self.region or find("AWS_REGION") or find("AWS_DEFAULT_REGION") or None,
        )


@dataclass(frozen=True)
class GcsSettings:
    """The settings of Google Cloud Storage.

    Args:
        endpoint: the server's URL; None is Google's.
        anonymous: whether requests carry no credentials, as public buckets allow.
    """

    endpoint: str | None = None
    anonymous: bool = False

    def resolved(self) -> GcsSettings:
        """See `S3Settings.resolved`; an address in the environment is an emulator, which needs no credentials."""
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        if self.endpoint or not emulator:
            return self
        return GcsSettings(emulator if "://" in emulator else f"http://{emulator}", anonymous=True)


@dataclass(frozen=True)
class AzureSettings:
    """The settings of Azure Storage.

    Args:
        endpoint: the URL of the service for blobs; None is Azure's, of the account that a URI names.
        anonymous: whether requests carry no credentials, as public containers allow.
    """

    endpoint: str | None = None
    anonymous: bool = False


@dataclass(frozen=True)
class HdfsSettings:
    """The addresses and the user with which HDFS clusters are reached.

    Args:
        endpoints: for names that stand in URIs, the web addresses of namenodes, as `clinker.toml` says them.
        user: the user name in requests, where the cluster trusts names; None for the environment's.
        namenodes: the same as `endpoints`, as the configuration of Hadoop says it.
        default: the cluster that `hdfs:///path` means, as the configuration of Hadoop says it.
        problem: why the configuration of Hadoop could not be read; empty where it was.
    """

    endpoints: tuple[tuple[str, tuple[str, ...]], ...] = ()
    user: str | None = None
    namenodes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    default: str = ""
    problem: str = ""

    def resolved(self) -> HdfsSettings:
        """See `S3Settings.resolved`: from `HADOOP_CONF_DIR` and `HADOOP_USER_NAME`, or the name of this user."""
        folder = os.environ.get("HADOOP_CONF_DIR")
        user = self.user or os.environ.get("HADOOP_USER_NAME") or _own_name()
        if not folder or self.namenodes or self.default:
            return replace(self, user=user)
        from spark_jobs.stores import hadoop_conf  # most machines have no Hadoop

        found = hadoop_conf.read(folder)
        return replace(self, user=user, namenodes=found.namenodes, default=found.default, problem=found.problem)


def _own_name() -> str | None:
    """The name of this process's user; None where the system knows none, as in some containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return None


@dataclass(frozen=True)
class StoreSettings:
    """The settings of all stores."""

    s3: S3Settings = S3Settings()
    gcs: GcsSettings = GcsSettings()
    azure: AzureSettings = AzureSettings()
    hdfs: HdfsSettings = HdfsSettings()

    def resolved(self) -> StoreSettings:
        """See `S3Settings.resolved`."""
        return replace(self, s3=self.s3.resolved(), gcs=self.gcs.resolved(), hdfs=self.hdfs.resolved())

    def completed(self, other: StoreSettings) -> StoreSettings:
        """These settings, completed by the other ones for each kind of store without settings here."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return StoreSettings(
            **{name: getattr(other, name) if said == type(said)() else said for name, said in own.items()}
        )
