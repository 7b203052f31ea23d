"""What is a secret and what is none, in every spelling."""

from __future__ import annotations

import doctest

import pytest

from spark_jobs import credentials
from spark_jobs.credentials import Secrets


def test_examples() -> None:
    assert doctest.testmod(credentials).failed == 0


@pytest.mark.parametrize(
    "name",
    [
        # variables
        "PASSWORD", "DB_PASSWORD", "dbPassword", "db-password", "DBPASSWORD", "MYSQL_PWD", "PGPASS_PASS", "PASSWD_FILE",
        "SECRET", "MY_SECRET", "CLIENT_SECRET", "clientSecret", "SECRETS", "SECRET_KEY_BASE",
        "TOKEN", "TOKENS", "GITHUB_TOKEN", "authToken", "accesstoken", "X-Auth-Token", "jwt", "SHOP_JWT",
        "API_KEY", "ApiKey", "apikey", "x-api-key", "AWS_ACCESS_KEY_ID", "AWSAccessKeyId", "SIGNING_KEY", "signing.key",
        "ENCRYPTION_KEY", "MASTER_KEY", "ACCOUNT_KEY", "AccountKey", "SharedAccessKey", "STORAGE_KEY", "PRIVATE_KEY",
        "FERNET_KEY", "SSH_KEY", "Ocp-Apim-Subscription-Key", "PRIVATE_NOTE", "CREDENTIALS", "DB_CREDS", "passphrase",
        "Authorization", "Proxy-Authorization", "BASIC_AUTH", "AZURE_SAS_TOKEN", "BLOB_SAS", "SAS_URL",
        "CONNECTION_STRING", "AzureWebJobsConnectionString", "AIRFLOW__CORE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_SHOP",
        "AIRFLOW_VAR_X",
        # settings of Hadoop, Spark and their storage
        "spark.hadoop.fs.s3a.access.key", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.s3a.bucket.box.access.key", "fs.s3a.encryption.key", "fs.s3a.server-side-encryption.key",
        "spark.hadoop.fs.azure.account.key.store.blob.core.windows.net", "fs.azure.account.oauth2.client.secret.x",
        "spark.hadoop.fs.azure.sas.box.store.blob.core.windows.net", "fs.azure.sas.fixed.token.store.dfs.core",
        "fs.gs.auth.service.account.private.key", "fs.gs.auth.service.account.private.key.id",
        "spark.ssl.keyPassword", "spark.ssl.keyStorePassword", "spark.authenticate.secret",
        "spark.hadoop.javax.jdo.option.ConnectionPassword", "spark.yarn.appMasterEnv.SIGNING_KEY",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert credentials.is_secret(name)
    assert credentials.is_secret_setting(name)
    assert credentials.is_secret_parameter(name)


@pytest.mark.parametrize(
    "name",
    [
        "primary_key", "sort_key", "SORT_KEY", "sortKey", "keyboard", "correlation_key", "partition.key", "public_key",
        "token_count", "max_tokens", "token_type", "tokenizer", "password_length", "aws.credentials.provider",
        "fs.s3a.aws.credentials.provider", "secretary", "monkey", "turkey", "keys", "author", "authority", "passenger",
        "bypass", "first_pass", "compass", "country_code", "hashtag", "REGION", "PATH", "HOME", "PWD", "OLDPWD",
        "AIRFLOW_HOME", "spark.executor.memory", "spark.authenticate", "spark.yarn.keytab", "session_count", "",
    ],
)  # fmt: skip
def test_names_of_what_everybody_may_see(name: str) -> None:
    if name not in ("secretary", "keys", "PWD"):
        assert not credentials.is_secret_parameter(name)
    if name != "secretary":  # `secret` counts within longer words, too: rather once too often
        assert not credentials.is_secret(name)
        assert not credentials.is_secret_setting(name)


@pytest.mark.parametrize("name", ["customer_key", "product_key", "code", "hash", "key", "pass", "session", "st"])
def test_ordinary_columns_are_parameters_at_most(name: str) -> None:
    assert not credentials.is_secret(name)
    assert credentials.is_secret_parameter(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://u:S3CR3T@db:5432/x", "postgres://***@db:5432/x"),
        ("spark://u:S3CR3T@h:7077", "spark://***@h:7077"),
        ("abfss://u:S3CR3T@acme.dfs.core.windows.net/x", "abfss://***@acme.dfs.core.windows.net/x"),
        ("jdbc:postgresql://h/db?user=u&password=S3CR3T", "jdbc:postgresql://h/db?user=u&password=***"),
        ("jdbc:sqlserver://h:1433;user=u;password=S3CR3T;x=1", "jdbc:sqlserver://h:1433;user=u;password=***;x=1"),
        ("jdbc:oracle:thin:scott/S3CR3T@//h:1/x", "jdbc:oracle:thin:scott/***@//h:1/x"),
        ("https://b.blob.core.windows.net/c?sv=1&sig=S3CR3T%3D", "https://b.blob.core.windows.net/c?sv=1&sig=***"),
        ("https://h/?X-Amz-Credential=S3CR3T&page=2", "https://h/?X-Amz-Credential=***&page=2"),
        ("Endpoint=x;AccountKey=S3CR3T==;Suffix=y", "Endpoint=x;AccountKey=***;Suffix=y"),
        ("Authorization: Bearer S3CR3T.abc-_", "Authorization: Bearer ***"),
        ("Authorization: Basic S3CR3TS3CR3T=", "Authorization: Basic ***"),
        ("-Xss4m -Dmy.password=S3CR3T -Dx=1", "-Xss4m -Dmy.password=*** -Dx=1"),
        ("-Dmy.password='S3CR3T b' -Dx=1", "-Dmy.password='***' -Dx=1"),
        ("--conf spark.my.token=S3CR3T --conf spark.x=1", "--conf spark.my.token=*** --conf spark.x=1"),
        ("refused https://me:S3CR3T@h/a.", "refused https://***@h/a."),
        ("-----BEGIN RSA PRIVATE KEY-----\nS3CR3T\n-----END RSA PRIVATE KEY-----", "***"),
    ],
)
def test_forms_of_secrets_are_hidden_and_their_values_found(text: str, shown: str) -> None:
    assert credentials.redacted(text) == shown
    assert credentials.redacted(shown) == shown
    assert any("S3CR3T" in value for value in credentials.within(text))


@pytest.mark.parametrize(
    "text",
    [
        "unknown field 'token': did you mean 'tokens'?", "emit token=upper(x)", "filter password == \"\"",
        "abfss://a-container-of-many-letters@acme.dfs.core.windows.net/x",
        "https://h/a?page=2&sort_key=id&token_count=3", "mail ada@example.com", "spark://h:7077", "a bearer of news",
        "--conf spark.executor.memory=2g", "-Dspark.ui.enabled=false", "spark.sql.shuffle.partitions=8",
        "orders.csv:3:7 E304 no column `secret`", "-Dfile.encoding=UTF-8", "spark.authenticate.secret=false",
    ],
)  # fmt: skip
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert credentials.redacted(text) == text


def test_settings_and_arguments_give_their_values() -> None:
    settings = {
        "spark.my.token": "TOKEN-1", "DATABASE_URL": "postgres://u:PASS-2@h", "spark.driver.extraJavaOptions":
        "-Dmy.password=JAVA-3", "spark.x": "shown", "spark.hadoop.fs.azure.sas.c.a": "sv=1&sig=SAS-4",
        "PG": "host=h password=LIBPQ-5 user=u", "none": None, "JSON": '{"a": "https://x:IN-6@h"}',
    }  # fmt: skip
    found = set(credentials.of_settings(settings))
    assert {"TOKEN-1", "PASS-2", "JAVA-3", "sv=1&sig=SAS-4", "SAS-4", "LIBPQ-5", "IN-6"} == found
    arguments = ["--token", "ARG-1", "--conf", "spark.a.secret=ARG-2", "--remote", "sc://h/;token=ARG-3", "--force"]
    assert set(credentials.of_arguments(arguments)) == {"ARG-1", "ARG-2", "ARG-3"}


@pytest.mark.parametrize("spelling", ['p@ss/w ord"1', "p%40ss%2Fw%20ord%221", "p%40ss%2Fw+ord%221", 'p@ss/w ord\\"1'])
def test_a_value_is_hidden_in_every_spelling(spelling: str) -> None:
    assert Secrets.of(['p@ss/w ord"1']).masked(f"<{spelling}>") == "<***>"


def test_a_secret_within_another_one_does_not_cut_it() -> None:
    assert Secrets.of(["abcd", "xabcdx"]).masked("xabcdx abcd") == "*** ***"


def test_lines_of_a_key_are_hidden_each() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvgIBADANBgkqh\nkiG9w0BAQEFAASCBK\n-----END PRIVATE KEY-----\n"
    told = Secrets.of([key]).masked("first MIIEvgIBADANBgkqh second kiG9w0BAQEFAASCBK")
    assert told == "first *** second ***"


def test_switches_numbers_and_short_words_are_looked_for_nowhere() -> None:
    assert Secrets.of(["true", "3600s", "8", "abc", "", "none"]).values == ()
