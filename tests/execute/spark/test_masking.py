"""What of Spark's addresses and settings nobody may see."""

from __future__ import annotations

import doctest
import logging
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cli import clinker
from spark_jobs.execute.run import executor
from spark_jobs.execute.spark import masking, session
from spark_jobs.execute.spark.masking import Secrets
from spark_jobs.plan.options import RunOptions
from tests.execute import without_spark
from tests.execute.bad_runs import prepare

if TYPE_CHECKING:
    from pathlib import Path


def secrets(environ: dict[str, str] | None = None, **options: Any) -> Secrets:
    return Secrets.of_run(RunOptions(**options), None, environ or {})


def test_examples() -> None:
    assert doctest.testmod(masking).failed == 0


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sc://host:15002", "sc://host:15002"),
        ("sc://host:15002/;token=abc", "sc://host:15002/;token=***"),
        ("sc://host/;user_id=ada;x-proxy-key=k;use_ssl=true", "sc://host/;user_id=ada;x-proxy-key=***;use_ssl=***"),
        ("sc://host/;token=a;b", "sc://host/;token=***;***"),
        ("sc://host/;token=", "sc://host/;token=***"),
        ("sc://ada:pw@host:1/;token=x", "sc://***@host:1/;token=***"),
        ("sc://ada:pw@host:1", "sc://***@host:1"),
        ("at sc://h/;token=a.b.c: no answer", "at sc://h/;token=***: no answer"),
        ("'sc://h/;token=a' and \"sc://h/;token=b\"", "'sc://h/;token=***' and \"sc://h/;token=***\""),
        ("spark://host:7077;more", "spark://host:7077;more"),
    ],
)
def test_an_address_shows_where_and_who(address: str, shown: str) -> None:
    assert masking.masked_address(address) == shown


def test_the_token_of_an_address_is_hidden_wherever_it_is_repeated() -> None:
    told = secrets(remote="sc://h/;token=to%2Fken%3D")
    for text in ("to%2Fken%3D", "to/ken=", "got 'to/ken=' from http://h/;token=to%2Fken%3D"):
        assert "ken" not in told.masked(text).replace("token=", "")


def test_variables_of_spark_are_addresses_and_tokens_too() -> None:
    told = secrets({"SPARK_REMOTE": "sc://h/;token=from-address", masking.TOKEN_VARIABLE: "from-variable"})
    assert told.masked("from-address, from-variable") == "***, ***"


@pytest.mark.parametrize(
    "name",
    [
        "spark.my.token", "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword",
        "spark.hadoop.fs.azure.account.key.store.blob.core.windows.net", "spark.authenticate.secret",
        "spark.hadoop.fs.azure.sas.operator.store", "spark.executorEnv.API_KEY",
    ],
)  # fmt: skip
def test_settings_that_are_called_like_secrets_are_hidden_by_value(name: str) -> None:
    assert secrets(spark_conf={name: "AKIA1234"}).masked("no such key: AKIA1234!") == "no such key: ***!"


def test_switches_times_and_short_words_are_no_secrets() -> None:
    conf = {
        "spark.security.credentials.hive.enabled": "false", "spark.token.renewal": "3600s", "spark.x.secret": "on",
        "spark.executor.memory": "word",
    }  # fmt: skip
    assert secrets(spark_conf=conf).values == ()


def test_a_secret_within_another_one_does_not_cut_it() -> None:
    told = secrets(spark_conf={"a.token": "abcd", "b.token": "xabcdx"})
    assert told.masked("xabcdx abcd") == "*** ***"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_channel_of_a_run_shows_a_secret(
    log_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Message, log, traceback, metrics, result record and its line: PySpark may repeat anything anywhere."""
    secret, setting = "SECRET123", "SETTING456"
    without_spark.install(monkeypatch)
    prepare(tmp_path)

    def opened(*_: object) -> object:
        logging.getLogger("clinker.run").warning("%s and %s", secret, setting)
        raise RuntimeError(f"{secret} and {setting}")

    monkeypatch.setattr(executor.session, "open_session", opened)
    code = clinker.main(
        [
            "run", str(tmp_path / "pipeline.yaml"), "--force", "--remote", f"sc://h:1/;token={secret}",
            "--conf", f"spark.hadoop.fs.s3a.secret.key={setting}", "--log-level", "debug", "--log-format", log_format,
            "--metrics-spool-dir", str(tmp_path / "spool"), "--work-dir", str(tmp_path / "work"),
        ]
    )  # fmt: skip
    told = capsys.readouterr()
    files = [path.read_text() for folder in ("spool", "work") for path in (tmp_path / folder).rglob("*.json")]
    assert code == 4
    assert len(files) == 2
    assert "Traceback" in told.err
    for text in (told.out, told.err, *files):
        assert "*** and ***" in text
        assert secret not in text
        assert setting not in text


def test_an_application_is_told_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_spark.install(monkeypatch)
    prepare(tmp_path)
    monkeypatch.setattr(session, "describe", lambda spark: {"application_id": "app of SECRET123", "master": None})
    monkeypatch.setattr(session, "is_local", lambda spark: True)
    arguments = ["--force", "--remote", "sc://h:1/;token=SECRET123", "--work-dir", str(tmp_path / "work")]
    assert clinker.main(["run", str(tmp_path / "pipeline.yaml"), *arguments]) == 0
    assert '"application_id":"app of ***"' in capsys.readouterr().out
