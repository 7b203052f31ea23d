"""Result records in a store, and the variables of a task that lead to it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from clinker_provider.records import Records
from spark_jobs import result
from spark_jobs.stores import location, results
from spark_jobs.stores.settings import S3Settings, StoreSettings

if TYPE_CHECKING:
    from tests.object_store import Bucket, HdfsBucket

RECORD = result.RunResult("run-1", 2, "orders", records_total=3, dlq_count=1)


def test_a_record_is_one_object_that_is_read_and_removed(s3: Bucket) -> None:
    folder = location.parse(s3.uri("work"))
    assert results.read(folder, "run-1", StoreSettings()) is None
    assert str(results.write(folder, RECORD, StoreSettings())) == s3.uri("work/run-1/result.json")
    assert results.read(folder, "run-1", StoreSettings()) == RECORD
    results.remove(folder, "run-1", StoreSettings())
    assert s3.keys() == []


def test_a_record_of_another_execution_is_refused(s3: Bucket) -> None:
    s3.put("work/run-2/result.json", result.encoded(RECORD))
    with pytest.raises(result.MalformedResult, match=r"run-2/result\.json belongs to execution 'run-1', not 'run-2'"):
        results.read(location.parse(s3.uri("work")), "run-2", StoreSettings())


def test_a_task_reads_its_record_with_its_own_variables(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = StoreSettings(S3Settings(endpoint=s3.endpoint, region="eu-central-1"))
    results.write(location.parse(s3.uri("work")), RECORD, settings)
    variables = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    for name in variables:
        monkeypatch.delenv(name)
    with pytest.raises(OSError, match="no credentials are found on this machine"):
        Records(s3.uri("work"), {}, settings).read("run-1")
    assert Records(s3.uri("work"), variables, settings).read("run-1") == RECORD
    assert not set(variables) & set(os.environ)


def test_a_store_that_takes_no_record_says_so(s3: Bucket) -> None:
    results.try_writing(location.parse(s3.uri("work")), "run-1", StoreSettings())
    assert s3.keys() == []
    with pytest.raises(OSError, match="no bucket is named `no-such-bucket-1`"):
        results.try_writing(location.parse("s3://no-such-bucket-1/work"), "run-1", StoreSettings())


@pytest.mark.spark
def test_what_was_tried_leaves_no_folder(hdfs: HdfsBucket) -> None:
    results.write(location.parse(hdfs.uri("work")), RECORD, StoreSettings())
    results.try_writing(location.parse(hdfs.uri("work")), "run", StoreSettings())
    assert hdfs._names("work/") == ["run-1/"]
