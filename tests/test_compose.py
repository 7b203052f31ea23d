"""The compose file: everything that it names is there, and the Spark processes that it starts do start."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clinker_provider import launcher
from tests.cluster import MASTER_CLASS, WORKER_CLASS
from tests.compose_stack import COMPOSE, IMAGE_SPARK_HOME, REPOSITORY, SERVICES, instructions

if TYPE_CHECKING:
    from tests.cluster import Cluster

OWN = {name: service for name, service in SERVICES.items() if "build" in service}
HISTORY_CLASS = "org.apache.spark.deploy.history.HistoryServer"
AIRFLOW = {name: service for name, service in OWN.items() if name.startswith("airflow-")}


def test_every_part_of_the_stack_is_there() -> None:
    assert set(SERVICES) == {
        *("postgres", "airflow-init", "airflow-api-server", "airflow-scheduler", "airflow-dag-processor"),
        *("airflow-triggerer", "spark-master", "spark-worker-1", "spark-worker-2", "spark-history", "object-store"),
        "secrets",
    }


def test_airflow_and_spark_share_one_image_with_one_python_and_one_pyspark() -> None:
    assert set(OWN) == set(SERVICES) - {"postgres"}
    assert len({json.dumps([service["image"], service["build"]], sort_keys=True) for service in OWN.values()}) == 1
    (base,) = instructions("FROM")
    python = re.fullmatch(r"python:(\d+\.\d+)-slim-\w+", base)
    assert python
    assert f"/python{python[1]}/" in IMAGE_SPARK_HOME
    locked = dict(re.findall(r"^(pyspark(?:-client)?)==(\S+)", (REPOSITORY / "requirements.lock").read_text(), re.M))
    assert locked["pyspark"] == locked["pyspark-client"]


def test_build_context_dockerfile_and_copied_files_exist() -> None:
    for service in OWN.values():
        assert (REPOSITORY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    sources = [word for line in instructions("COPY") for word in line.split()[:-1] if not word.startswith("--")]
    assert {"requirements.lock", "spark_jobs", "clinker_provider"} <= set(sources)
    for source in sources:
        assert (REPOSITORY / source).exists(), source
    ignored = (REPOSITORY / ".dockerignore").read_text().split()
    assert not set(sources) & set(ignored)


def test_bound_folders_exist_and_named_volumes_are_declared() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (REPOSITORY / source).is_dir(), f"{name}: {source}"
            else:
                assert source in COMPOSE["volumes"], f"{name}: {source}"


def test_data_is_at_the_same_path_for_driver_and_workers() -> None:
    places = {
        name: [volume.split(":")[1] for volume in service["volumes"] if volume.startswith("data:")]
        for name, service in OWN.items()
        if name == "airflow-scheduler" or "worker" in name
    }
    assert len(places) == 3
    assert set(map(tuple, places.values())) == {("/data",)}
    assert AIRFLOW["airflow-scheduler"]["environment"]["CLINKER_EXAMPLES"].startswith("/data/")


def test_dependencies_name_services_and_conditions_they_can_meet() -> None:
    for name, service in SERVICES.items():
        for other, wanted in service.get("depends_on", {}).items():
            assert other in SERVICES, f"{name} waits for {other}"
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no health check"


def test_every_lasting_service_has_a_health_check() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"airflow-init", "secrets"}


def test_spark_commands_are_in_the_installed_pyspark() -> None:
    home = launcher.pyspark_home()
    assert home is not None
    commands = {name: service["command"] for name, service in OWN.items() if name.startswith("spark-")}
    assert {command[1] for command in commands.values()} == {MASTER_CLASS, WORKER_CLASS, HISTORY_CLASS}
    (core,) = home.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(core) as jar:
        for name, command in commands.items():
            assert command[0].startswith(f"{IMAGE_SPARK_HOME}/")
            assert (home / command[0].removeprefix(f"{IMAGE_SPARK_HOME}/")).is_file(), name
            assert f"{command[1].replace('.', '/')}.class" in jar.namelist()


def test_workers_and_airflow_name_the_master_as_it_listens() -> None:
    master = SERVICES["spark-master"]["command"]
    url = f"spark://{master[master.index('--host') + 1]}:{master[master.index('--port') + 1]}"
    for name in ("spark-worker-1", "spark-worker-2"):
        assert SERVICES[name]["command"][-1] == url
    for service in AIRFLOW.values():
        connection = json.loads(service["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
        assert f"{connection['host']}:{connection['port']}" == url


def test_scripts_are_installed_under_the_names_that_are_called() -> None:
    copied = [line.split()[-2:] for line in instructions("COPY") if "/usr/local/bin/" in line]
    assert all((REPOSITORY / source).read_text().startswith("#!/usr/bin/env bash\n") for source, _ in copied)
    names = {Path(target).name for _, target in copied}
    called = {service["command"][0] for service in OWN.values() if service["command"][0].startswith("clinker-")}
    assert names == {*called, "clinker-start"}
    assert instructions("ENTRYPOINT") == ['["tini", "--", "clinker-start"]']


def test_the_stack_names_no_secret_and_mounts_them_where_they_are_read_alone() -> None:
    assert not re.search(
        r"(PASSWORD|SECRET_KEY|JWT_SECRET|FERNET_KEY): ",
        (REPOSITORY / "docker-compose.yml").read_text().replace("AWS_SECRET_ACCESS_KEY: clinker", ""),
    )
    with_secrets = {
        name for name, service in SERVICES.items() for each in service.get("volumes", []) if each.startswith("secrets:")
    }
    assert with_secrets == {"secrets", "postgres", *AIRFLOW}
    writers = {name for name in with_secrets if "secrets:/secrets" in SERVICES[name]["volumes"]}
    assert writers == {"secrets"}


def test_folders_that_the_init_service_copies_are_mounted() -> None:
    mounted = [volume.split(":")[1] for volume in SERVICES["airflow-init"]["volumes"]]
    script = (REPOSITORY / "docker" / "prepare.sh").read_text()
    assert re.findall(r"cp -R (/mnt/\w+)/\. (/data/\w+)/", script) == [("/mnt/examples", "/data/examples")]
    assert "/mnt/examples" in mounted
    assert "/data" in mounted


@pytest.mark.airflow
def test_airflow_commands_and_settings_exist() -> None:
    from airflow.cli.cli_parser import get_parser
    from airflow.configuration import conf

    parser = get_parser()
    for service in AIRFLOW.values():
        if service["command"][0] == "airflow":
            parser.parse_args(service["command"][1:])
        check = service.get("healthcheck", {}).get("test", [])
        if check[1:2] == ["airflow"]:
            parser.parse_args(check[2:])
        for variable in service["environment"]:
            if found := re.fullmatch(r"AIRFLOW__([A-Z_]+?)__([A-Z_]+)", variable):
                section, option = found[1].lower(), found[2].lower().removesuffix("_cmd")
                if found[2].endswith("_CMD"):
                    assert (section, option) in conf.sensitive_config_values
                assert option in conf.configuration_description.get(section, {}).get("options", {}) or conf.has_option(
                    section, option
                ), variable


@pytest.mark.spark
@pytest.mark.slow
def test_master_and_two_workers_start_as_the_compose_file_starts_them(spark_cluster: Cluster) -> None:
    state = spark_cluster.state()
    assert state["aliveworkers"] == 2
    assert {worker["state"] for worker in state["workers"]} == {"ALIVE"}
