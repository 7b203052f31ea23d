"""A server that speaks the protocol of S3, on loopback, and a bucket of each test's own."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY, SECRET_KEY, REGION = "AKIATESTTESTTEST", "a-secret-of-the-tests", "eu-central-1"


@dataclass(frozen=True)
class Bucket:
    """A bucket, with the server's endpoint and a client that goes straight to it."""

    name: str
    endpoint: str
    client: Any

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def put(self, key: str, body: bytes | str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.client.put_object(Bucket=self.name, Key=key, Body=data)

    def get(self, key: str) -> bytes:
        data: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return data

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def texts(self) -> dict[str, str]:
        return {key: self.get(key).decode() for key in self.keys()}

    def uploads(self) -> list[str]:
        return [each["Key"] for each in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ())]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The endpoint of a server that lives as long as the tests."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@cache
def _client(endpoint: str) -> Any:
    from botocore import session

    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return session.get_session().create_client("s3", region_name=REGION, endpoint_url=endpoint, **keys)


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket; the environment leads to it, and to no bucket of the person who runs the tests."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": s3_server,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    client = _client(s3_server)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Bucket(name, s3_server, client)
