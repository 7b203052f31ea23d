"""How stores are reached: what `clinker.toml` and the environment say, credentials apart.

Credentials are looked up where they are used, on each machine, in the places that the store's own tools look in. They
are in no setting, so that nothing that travels or is shown can have them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class S3Settings:
    """How buckets of S3, and of what speaks its protocol, are reached.

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
        """The settings with what this process's environment says of those that are left out.

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
    """How buckets of Google Cloud Storage are reached.

    Args:
        endpoint: the server's URL; None is Google's.
        anonymous: whether requests carry no credentials, as public buckets allow.
    """

    endpoint: str | None = None
    anonymous: bool = False

    def resolved(self) -> GcsSettings:
        """See `S3Settings.resolved`; what the environment names is an emulator, which wants no credentials."""
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        if self.endpoint or not emulator:
            return self
        return GcsSettings(emulator if "://" in emulator else f"http://{emulator}", anonymous=True)


@dataclass(frozen=True)
class AzureSettings:
    """How containers of Azure Storage are reached.

    Args:
        endpoint: the URL of the service for blobs; None is Azure's, of the account that a URI names.
        anonymous: whether requests carry no credentials, as public containers allow.
    """

    endpoint: str | None = None
    anonymous: bool = False


@dataclass(frozen=True)
class StoreSettings:
    """How all stores are reached."""

    s3: S3Settings = S3Settings()
    gcs: GcsSettings = GcsSettings()
    azure: AzureSettings = AzureSettings()

    def resolved(self) -> StoreSettings:
        """See `S3Settings.resolved`."""
        return replace(self, s3=self.s3.resolved(), gcs=self.gcs.resolved())
