"""The image and the manifests for Kubernetes, and the commands of docs/deploying.md: names, files, what is started."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.cli import clinker
from spark_jobs.stores import location, s3

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docker" / "kubernetes"
PAGE = (REPOSITORY / "docs" / "deploying.md").read_text()
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
ENTRYPOINT = FOLDER / "entrypoint.sh"


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def commands(first: str) -> list[list[str]]:
    """The commands of the page's shell blocks that begin with a word."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    return [words for words in map(shlex.split, lines) if words and words[0].endswith(first)]


def settings(command: list[str]) -> dict[str, str]:
    pairs = (command[at + 1] for at, word in enumerate(command) if word == "--conf")
    return dict(pair.split("=", 1) for pair in pairs)


(APPLICATION,) = documents("spark-application.yaml")


def test_what_the_image_copies_is_there() -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY")]
    sources = [word for words in copied for word in words if not word.startswith("--")]
    assert "docker/kubernetes/entrypoint.sh" in sources
    for source in sources:
        assert (REPOSITORY / source).exists(), source


def test_the_image_has_the_interpreter_and_the_script_that_commands_name() -> None:
    python = re.search(r"FROM python:(3\.\d+)-", DOCKERFILE)
    assert python is not None
    packages = f"/usr/local/lib/python{python[1]}/site-packages"
    assert f"SPARK_HOME={packages}/pyspark" in DOCKERFILE
    script = f"local://{packages}/spark_jobs/run_pipeline.py"
    assert APPLICATION["spec"]["mainApplicationFile"] == script
    (submit,) = [each for each in commands("spark-submit") if "k8s://https://kubernetes.acme.example:6443" in each]
    assert script in submit
    assert (REPOSITORY / "spark_jobs" / "run_pipeline.py").is_file()


def test_versions_are_those_that_are_installed() -> None:
    pyspark = re.search(r"^pyspark==([\d.]+)", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)
    assert pyspark is not None
    assert APPLICATION["spec"]["sparkVersion"] == pyspark[1]
    assert f"PySpark {pyspark[1]}" in PAGE


def test_manifest_rights_and_command_say_the_same() -> None:
    account, role, binding = documents("rbac.yaml")
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert {each["metadata"]["namespace"] for each in (role, binding, APPLICATION)} == {namespace}
    spec = APPLICATION["spec"]
    assert {spec["driver"]["serviceAccount"], spec["executor"]["serviceAccount"]} == {name}
    (submit,) = [each for each in commands("spark-submit") if "local://" in " ".join(each)]
    said = settings(submit)
    assert said["spark.kubernetes.namespace"] == namespace
    assert said["spark.kubernetes.container.image"] == spec["image"]
    assert said["spark.kubernetes.authenticate.driver.serviceAccountName"] == name
    assert said["spark.kubernetes.authenticate.executor.serviceAccountName"] == name
    assert said["spark.executor.instances"] == str(spec["executor"]["instances"])
    assert said["spark.executor.memory"] == spec["executor"]["memory"]
    assert said["spark.executorEnv.AWS_REGION"] == spec["executor"]["env"][0]["value"]
    assert any(spec["image"] in word for each in commands("docker") for word in each)


@pytest.mark.parametrize("of", ["k8s://https://kubernetes.acme.example:6443", "yarn"])
def test_the_pipelines_arguments_are_taken(of: str) -> None:
    (submit,) = [each for each in commands("spark-submit") if of in each]
    at = next(number for number, word in enumerate(submit) if word.endswith("run_pipeline.py"))
    assert submit[at + 1 :] == APPLICATION["spec"]["arguments"]
    options = clinker.run_options(submit[at + 1 :])
    assert options.work_dir == location.located("s3://acme-data/clinker/work")


def test_the_policy_has_the_rights_that_runs_need() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    granted = {action for statement in json.loads(block)["Statement"] for action in statement["Action"]}
    needed = {right for text in s3._RIGHTS.values() for right in re.findall(r"s3:\w+", text)}
    assert granted == needed


def started(tmp_path: Path, *arguments: str, **environ: str) -> list[str]:
    """What the entry point starts, word by word."""
    program = '#!/bin/bash\nprintf "%s\\n" "$(basename "$0")" "$@"\n'
    for name in ("bin/tini", "bin/java", "spark/bin/spark-submit"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bin/tini").write_text('#!/bin/bash\nshift 2\nexec "$@"\n')
    known = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SPARK_HOME": str(tmp_path / "spark"), **environ}
    run = subprocess.run(
        ["bash", str(ENTRYPOINT), *arguments], env=known, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_the_driver_is_spark_submit_in_its_pod(tmp_path: Path) -> None:
    words = started(tmp_path, "driver", "--class", "x y", "local:///a.py", SPARK_DRIVER_BIND_ADDRESS="10.0.0.7")
    assert words[0] == "spark-submit"
    assert "spark.driver.bindAddress=10.0.0.7" in words
    assert words[-5:] == ["--deploy-mode", "client", "--class", "x y", "local:///a.py"]


def test_an_executor_gets_all_that_its_backend_asks_for(tmp_path: Path) -> None:
    environ = {
        "SPARK_DRIVER_URL": "spark://driver:7078",
        "SPARK_EXECUTOR_ID": "3",
        "SPARK_EXECUTOR_CORES": "4",
        "SPARK_EXECUTOR_MEMORY": "4g",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.8",
        "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.a=b c",
        "SPARK_JAVA_OPT_10": "-XX:last",
        "SPARK_JAVA_OPT_2": "-XX:middle",
    }
    words = started(tmp_path, "executor", **environ)
    assert words[:4] == ["java", "-Dspark.a=b c", "-XX:middle", "-XX:last"]
    assert {"-Xms4g", "-Xmx4g", f"{tmp_path}/spark/jars/*:{tmp_path}"} <= set(words)
    backend = next(word for word in words if word.endswith("KubernetesExecutorBackend"))
    given = words[words.index(backend) + 1 :]
    assert dict(zip(given[::2], given[1::2], strict=True)) == {
        "--driver-url": "spark://driver:7078",
        "--executor-id": "3",
        "--cores": "4",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.8",
        "--resourceProfileId": "0",
        "--podName": "orders-exec-3",
    }
    # Spark's own jar has this class, which knows these arguments, and sets these variables.
    import pyspark

    (jar,) = Path(pyspark.__file__).parent.glob("jars/spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        program = classes.read(f"{backend.replace('.', '/')}$.class")
        constants = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
    assert not [name for name in given[::2] if name.encode() not in program]
    assert not [name for name in environ if name.rstrip("0123456789").encode() not in constants]


def test_other_commands_run_as_they_are(tmp_path: Path) -> None:
    assert started(tmp_path, "java", "-version") == ["java", "-version"]
