"""Blobs of Azure: whose credentials are used, what is refused and what is said of it, folders, on Azurite."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.nodes.source.step import FileMatch
from spark_jobs.scan import matching
from spark_jobs.stores import azure as azure_store
from spark_jobs.stores import location
from spark_jobs.stores.azure import Azure
from spark_jobs.stores.refusals import Kind, StoreError
from spark_jobs.stores.settings import AzureSettings, StoreSettings
from tests.object_store import ACCOUNT, ACCOUNT_KEY
from tests.stores.faults import Fault, between
from tests.stores.test_globs import PATTERNS, TREE, names

if TYPE_CHECKING:
    from tests.object_store import AzureBucket

STORE = Azure(AzureSettings())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_blobs_as_they_match_files(pattern: str, tmp_path: Path, azure: AzureBucket) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        azure.put(name, name.encode())
    match = FileMatch(on_no_match="skip", glob=azure.uri(pattern))
    found = matching.match("s", match, Path("/"), stores=StoreSettings())
    assert [file.name.removeprefix(azure.uri("")) for file in found.files] == names(None, tmp_path, glob=pattern)


@pytest.mark.parametrize("key", ["a b.csv", "in/%2F e%20.csv", "in/é.csv", "in/g+h&i?.csv"])
def test_odd_keys_are_found_and_read(key: str, azure: AzureBucket) -> None:
    azure.put(key, f"the text of {key}".encode())
    place = location.parse(azure.uri(key))
    found = STORE.describe(place)
    assert found is not None
    assert STORE.fetch(place, 4, found.size, found.version).decode() == f"text of {key}"


def test_the_folders_of_accounts_with_a_hierarchy_are_no_files(azure: AzureBucket) -> None:
    azure.client.upload_blob("in/folder", b"", metadata={"hdi_isfolder": "true"})
    azure.put("in/folder/a.csv", b"x")
    place = location.parse(azure.uri("in/"))
    assert [each.location.name for page in STORE.pages(place, deep=True) for each in page.objects] == ["a.csv"]
    assert STORE.look(place / "folder") is None


@pytest.mark.parametrize(
    ("status", "code", "kind", "says"),
    [
        (403, "AuthorizationPermissionMismatch", Kind.FORBIDDEN, "the role Storage Blob Data Contributor"),
        (403, "AuthenticationFailed", Kind.FORBIDDEN, "does not accept the credentials of this machine"),
        (404, "ContainerNotFound", Kind.MISSING, "no container is named"),
        (409, "BlobArchived", Kind.FAILED, "it is in the archive"),
        (412, "LeaseIdMissing", Kind.FORBIDDEN, "another program holds a lease"),
        (409, "BlobImmutableDueToPolicy", Kind.FORBIDDEN, "a policy of its container"),
        (503, "ServerBusy", Kind.FAILED, "asked for patience"),
        (400, "InvalidHeaderValue", Kind.FAILED, "the store fails: InvalidHeaderValue"),
    ],
)
def test_refusals_say_what_to_do(
    status: int, code: str, kind: Kind, says: str, azure: AzureBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_store, "RETRIES", 0)
    azure.put("a.csv", b"text")
    with between(azure.endpoint) as proxy:
        azure.through(proxy.endpoint, monkeypatch)
        proxy.rule = lambda request: Fault(status, code)
        with pytest.raises(StoreError, match=says) as error:
            STORE.fetch(location.parse(azure.uri("a.csv")), 0, 4, "")
    assert error.value.kind is kind
    assert ACCOUNT_KEY not in str(error.value)


def test_a_server_that_is_not_there_is_told(azure: AzureBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_store, "RETRIES", 0)
    azure.through("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(StoreError, match=f"the account `{ACCOUNT}` cannot be reached"):
        STORE.describe(location.parse(azure.uri("a.csv")))


def test_a_key_or_a_signature_of_the_environment_is_used(azure: AzureBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    azure.put("a.csv", b"text")
    place, store = location.parse(azure.uri("a.csv")), Azure(AzureSettings(f"{azure.endpoint}/{ACCOUNT}"))
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    assert store.get(place) == b"text"
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    until = datetime.now(UTC) + timedelta(hours=1)
    may = ContainerSasPermissions(read=True)
    signature = generate_container_sas(ACCOUNT, azure.name, account_key=ACCOUNT_KEY, permission=may, expiry=until)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{signature}")
    assert store.get(place) == b"text"
    with pytest.raises(StoreError) as error:
        store.put(place, b"more")
    assert error.value.kind is Kind.FORBIDDEN


def test_a_key_goes_to_no_other_account(azure: AzureBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes a pipeline must not have the machine's signature sent to an account of theirs."""
    used = []
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", lambda: used.append("identity"))
    for name, value in (("ACCOUNT_NAME", ACCOUNT), ("ACCOUNT_KEY", ACCOUNT_KEY), ("SAS_TOKEN", "sig=secret")):
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
    other = "container@other.dfs.core.windows.net"
    found = azure_store.access(AzureSettings(), other)
    assert (found.key, found.sas, azure_store._credential(found)) == (None, None, None)
    assert used == ["identity"]
