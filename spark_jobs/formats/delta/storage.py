"""Translates addresses, settings and credentials of stores for `deltalake`.

The credentials are the same with which files are read and written. They are looked up when a log is opened, handed
over, and kept nowhere.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from spark_jobs.stores import location as locations
from spark_jobs.stores.refusals import Kind, StoreError, missing_package

if TYPE_CHECKING:
    from spark_jobs.stores.location import Location
    from spark_jobs.stores.settings import AzureSettings, GcsSettings, S3Settings, StoreSettings

#: The stores that have tables.
_STORES = frozenset({"abfss", "gs", "s3"})
#: A letter as URIs have it, which the library decodes once too often.
_DECODED = re.compile("%[0-9A-Fa-f]{2}")
#: Where lists that begin with a name are empty for the client of the library.
_LISTS_NOTHING = ".fabric.microsoft.com/"
#: The credentials of Google in a file that the library knows; of machines it knows their service accounts.
_GOOGLE_KINDS = frozenset({"authorized_user", "service_account"})


def problem(root: str) -> str | None:
    """Why no table can be where an absolute path or a URI leads; None where one can."""
    if _DECODED.search(root):
        return "the package deltalake takes `%` and two digits for a letter: give the folder of the table another name"
    if not locations.is_uri(root):
        return None
    if locations.scheme_of(root) not in _STORES:
        return "Delta tables are in local folders, on S3, on Google Cloud Storage and on Azure here; name a place there"
    if _LISTS_NOTHING in root:
        return "the package deltalake finds no version of a table on OneLake, whose lists it misreads; read files there"
    return None


def address(root: str) -> str:
    """Give the address of a table as the library expects it: the library decodes percent-encoding.

    Args:
        root: an absolute path, or a URI whose key stands there letter by letter.
    """
    if not locations.is_uri(root):
        return root
    where = locations.parse(root)
    if where.scheme != "abfss":
        return f"{where.scheme}://{where.bucket}/{quote(where.key)}"
    # With its account, the library would know the host of the public cloud alone.
    return f"az://{locations.container(where.bucket)[0]}/{quote(where.key)}"


def options(root: str, settings: StoreSettings) -> dict[str, str] | None:
    """The settings with which the library reaches a store, credentials included: to hand over, never to keep or show.

    Args:
        root: an absolute path, which needs nothing, or a URI.
        settings: resolved ones.

    Raises:
        StoreError: this machine has no credentials for it, or none that the library takes.
    """
    if not locations.is_uri(root):
        return None
    where = locations.parse(root)
    if where.scheme == "gs":
        return _of_google(where, settings.gcs)
    return _of_azure(where, settings.azure) if where.scheme == "abfss" else _of_s3(where, settings.s3)


def _of_s3(where: Location, settings: S3Settings) -> dict[str, str]:
    try:
        from botocore import session
    except ModuleNotFoundError as error:
        raise missing_package("botocore", "s3", str(where)) from error

    found = {"AWS_S3_ALLOW_UNSAFE_RENAME": "false"}
    if settings.endpoint:
        found["AWS_ENDPOINT_URL"] = settings.endpoint
        found["AWS_ALLOW_HTTP"] = _said(settings.endpoint.startswith("http:"))
    if settings.region:
        found["AWS_REGION"] = settings.region
    is_in_path = settings.path_style if settings.path_style is not None else bool(settings.endpoint)
    found["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = _said(not is_in_path)
    if settings.anonymous:
        return {**found, "AWS_SKIP_SIGNATURE": "true"}
    credentials = session.get_session().get_credentials()
    if credentials is not None:
        frozen = credentials.get_frozen_credentials()
        found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"] = frozen.access_key, frozen.secret_key
        if frozen.token:
            found["AWS_SESSION_TOKEN"] = frozen.token
    return found


def _of_google(where: Location, settings: GcsSettings) -> dict[str, str]:
    from spark_jobs.stores import gcs

    found = {"google_base_url": settings.endpoint or gcs.GOOGLE, "google_skip_signature": _said(settings.anonymous)}
    if settings.anonymous:
        # An account that signs nothing keeps the library from looking for another one.
        nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        account = json.dumps({**nobody, "disable_oauth": True})
        return {**found, "google_service_account_key": account}
    gcs.credentials(where)
    file = _google_file()
    if file is None:
        return found
    kind = json.loads(file.read_bytes()).get("type")
    if kind not in _GOOGLE_KINDS:
        text = (
            f"the credentials of this machine are of the type `{kind}`, and the package deltalake knows none of these: "
            "use the key of a service account, the login of gcloud, or a machine with a service account"
        )
        raise StoreError(Kind.FORBIDDEN, text, str(where))
    return {**found, "google_application_credentials": str(file)}


def _google_file() -> Path | None:
    """The file that has the credentials of this machine; None where it asks for them."""
    if named := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(named)
    folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud"
    login = Path(folder, "application_default_credentials.json")
    return login if login.is_file() else None


def _of_azure(where: Location, settings: AzureSettings) -> dict[str, str]:
    from spark_jobs.stores import azure

    access = azure.access(settings, where.bucket)
    found = {
        "azure_storage_account_name": access.account,
        "azure_storage_endpoint": access.endpoint.rstrip("/"),
        "azure_storage_use_emulator": "false",
        "azure_allow_http": _said(access.endpoint.startswith("http:")),
    }
    if settings.anonymous:
        return {**found, "azure_skip_signature": "true"}
    if access.key:
        return {**found, "azure_storage_account_key": access.key}
    if access.sas:
        return {**found, "azure_storage_sas_token": access.sas}
    return {**found, "azure_storage_token": access.token()}


def _said(is_so: bool) -> str:
    return str(is_so).lower()
