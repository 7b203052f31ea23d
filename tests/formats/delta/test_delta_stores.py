"""With what Delta tables in stores are reached: the credentials and settings of files, as the library wants them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_jobs.formats.delta import log, storage
from spark_jobs.formats.reader import SourceContext
from spark_jobs.scan.files import FormatError
from spark_jobs.stores import gcs as gcs_store
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import AzureSettings, GcsSettings, StoreSettings
from tests import delta_tables
from tests.object_store import ACCOUNT, ACCOUNT_KEY, connection_string

if TYPE_CHECKING:
    from tests.object_store import AzureBucket, GcsBucket


def filled(folder: Path, bucket: Any) -> str:
    """A table with one row in a bucket."""
    write_deltalake(folder / "sales", pa.table({"id": [1]}))
    delta_tables.copy(folder / "sales", bucket, "sales")
    return str(bucket.uri("sales"))


def version(uri: str, settings: StoreSettings | None = None) -> int:
    return log.opened(uri, "sales", (settings or StoreSettings()).resolved()).version()


def signature(lasts: timedelta) -> str:
    from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

    kinds = ResourceTypes(service=True, container=True, object=True)
    allowed = AccountSasPermissions(read=True, list=True)
    return generate_account_sas(ACCOUNT, ACCOUNT_KEY, kinds, allowed, expiry=datetime.now(UTC) + lasts)


@pytest.mark.parametrize("name", ["ACCOUNT_KEY", "SAS_TOKEN"])
def test_a_key_or_a_signature_of_the_environment_is_used(
    name: str, azure: AzureBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = filled(tmp_path, azure)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    secret = ACCOUNT_KEY if name == "ACCOUNT_KEY" else signature(timedelta(hours=1))
    monkeypatch.setenv(f"AZURE_STORAGE_{name}", secret)
    settings = StoreSettings(azure=AzureSettings(f"{azure.endpoint}/{ACCOUNT}/"))
    assert version(uri, settings) == 0
    # Where the library would look by itself, somebody may have said something else.
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "of somebody else")
    assert version(uri, settings) == 0


def test_a_signature_that_is_refused_is_not_shown(
    azure: AzureBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = filled(tmp_path, azure)
    sas = signature(timedelta(hours=-1))
    whole = connection_string(f"{azure.endpoint}/{ACCOUNT}").replace(f"AccountKey={ACCOUNT_KEY}", "")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{whole}SharedAccessSignature={sas}")
    with pytest.raises(FormatError) as raised:
        version(uri)
    assert raised.value.code == "E910"
    chain: BaseException | None = raised.value
    while chain is not None:
        assert sas.partition("sig=")[2] not in str(chain)
        chain = chain.__cause__ or chain.__context__


def test_a_machine_hands_over_a_token_of_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def token(scope: str) -> Any:
        asked.append(scope)
        return SimpleNamespace(token="of the machine")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", lambda: SimpleNamespace(get_token=token))
    for name, value in (("ACCOUNT_NAME", ACCOUNT), ("ACCOUNT_KEY", ACCOUNT_KEY)):
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    for host in ("core.windows.net", "core.chinacloudapi.cn"):
        root = f"abfss://box@other.dfs.{host}/lake/sales"
        found = storage.options(root, StoreSettings())
        assert found == {
            "azure_storage_account_name": "other",
            "azure_storage_endpoint": f"https://other.blob.{host}",
            "azure_storage_use_emulator": "false",
            "azure_allow_http": "false",
            "azure_storage_token": "of the machine",
        }
        assert storage.address(root) == "az://box/lake/sales"
    assert asked == ["https://storage.azure.com/.default"] * 2


def test_where_the_library_sees_no_table_none_is_looked_for() -> None:
    with pytest.raises(FormatError, match="finds no version of a table on OneLake") as raised:
        log.root_of(
            SourceContext(Path("/"), "abfss://work@onelake.dfs.fabric.microsoft.com/lake.Lakehouse/Tables/sales")
        )
    assert raised.value.code == "E912"


def test_a_machine_that_gets_no_token_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    def token(scope: str) -> Any:
        raise ClientAuthenticationError("nobody has\nlogged in")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", lambda: SimpleNamespace(get_token=token))
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with pytest.raises(FormatError, match="give no token: nobody has logged in") as raised:
        version("abfss://box@other.dfs.core.windows.net/sales")
    assert raised.value.code == "E910"


def account(folder: Path, kind: str) -> Path:
    """The file of a service account."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
    about = {
        "type": kind,
        "client_email": "tests@example.com",
        "private_key": text,
        "private_key_id": "1",
        "token_uri": "https://127.0.0.1:1/token",
        "client_id": "1",
        "project_id": "p",
        # of federated identities
        "audience": "//iam.googleapis.com/x",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": "/dev/null"},
    }
    file = folder / "account.json"
    file.write_text(json.dumps(about))
    return file


def test_the_account_of_the_environment_is_used_on_google_cloud_storage(
    gcs: GcsBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = filled(tmp_path, gcs)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account(tmp_path, "service_account")))
    settings = StoreSettings(gcs=GcsSettings(gcs.endpoint))
    found = storage.options(uri, settings) or {}
    assert found["google_application_credentials"] == str(tmp_path / "account.json")
    assert found["google_base_url"] == gcs.endpoint
    assert version(uri, settings) == 0
    # An own address of the library's does not lead elsewhere.
    monkeypatch.setenv("GOOGLE_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    assert version(uri, settings) == 0


def test_credentials_that_the_library_does_not_know_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(account(tmp_path, "external_account")))
    with pytest.raises(StoreError, match="are of the type `external_account`") as raised:
        storage.options("gs://box/sales", StoreSettings())
    assert raised.value.kind is Kind.FORBIDDEN


def test_without_credentials_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs_store._credentials.cache_clear()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(FormatError, match="set GOOGLE_APPLICATION_CREDENTIALS") as raised:
        version("gs://box/sales")
    assert raised.value.code == "E910"


def test_public_buckets_need_no_credentials(gcs: GcsBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = filled(tmp_path, gcs)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    assert version(uri, StoreSettings(gcs=GcsSettings(gcs.endpoint, anonymous=True))) == 0
    options = storage.options(
        "abfss://box@other.dfs.core.windows.net/a", StoreSettings(azure=AzureSettings(anonymous=True))
    )
    assert (options or {})["azure_skip_signature"] == "true"
