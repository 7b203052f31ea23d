"""What Airflow is told about the provider is true."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from pathlib import Path
from typing import Any

import pytest

import clinker_provider
from clinker_provider.get_provider_info import get_provider_info

INFO = get_provider_info()
REPOSITORY = Path(__file__).resolve().parent.parent.parent


def test_entry_point_gives_it_under_the_name_of_the_distribution() -> None:
    (found,) = [item for item in entry_points(group="apache_airflow_provider") if "clinker" in item.value]
    assert found.load() is get_provider_info
    assert found.dist is not None
    assert INFO["package-name"] == found.dist.name == distribution("airflow-provider-clinker").name
    assert INFO["versions"][0] == found.dist.version == clinker_provider.__version__


@pytest.mark.airflow
def test_it_follows_the_schema_of_airflow() -> None:
    import jsonschema

    schema = json.loads(
        (importlib.resources.files("airflow") / "provider_info.schema.json").read_text(encoding="utf-8")
    )
    jsonschema.validate(INFO, schema)


@pytest.mark.airflow
def test_it_follows_the_stricter_schema_of_a_provider_in_airflows_own_repository() -> None:
    import jsonschema

    pytest.importorskip("airflow.sdk", reason="the schema of Airflow 2 asks for other keys")
    schema = json.loads((importlib.resources.files("airflow") / "provider.yaml.schema.json").read_text("utf-8"))
    # Clinker's documentation is in its repository, and has no address of its own.
    schema["properties"]["integrations"]["items"]["required"].remove("external-doc-url")
    jsonschema.validate({**INFO, "state": "ready", "source-date-epoch": 0}, schema)


def test_guides_are_in_the_repository() -> None:
    guides = [guide for each in INFO["integrations"] for guide in each["how-to-guide"]]
    assert guides
    for guide in guides:
        assert (REPOSITORY / guide.removeprefix("/")).is_file()


def test_every_part_of_the_provider_has_its_key() -> None:
    assert set(INFO) == {
        "package-name", "name", "description", "versions", "integrations", "operators", "sensors", "hooks", "triggers",
        "task-decorators", "notifications", "connection-types", "extra-links", "config",
    }  # fmt: skip
    names = {each["integration-name"] for each in INFO["integrations"]}
    for key in ("operators", "sensors", "hooks", "triggers"):
        assert {each["integration-name"] for each in INFO[key]} <= names


@pytest.mark.airflow
def test_decorators_notifiers_and_hooks_are_where_it_says() -> None:
    for path in [
        *(each["class-name"] for each in INFO["task-decorators"]),
        *INFO["notifications"],
        *(each["hook-class-name"] for each in INFO["connection-types"]),
    ]:
        module, _, name = path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), name)), path


@pytest.mark.airflow
def test_every_public_class_is_in_a_listed_module() -> None:
    from airflow.providers.common.compat.sdk import BaseHook, BaseOperator, BaseOperatorLink
    from airflow.triggers.base import BaseTrigger

    listed = {module for key in ("operators", "sensors", "hooks", "triggers") for module in modules(key)}
    shared = {"clinker_provider.operators.pipeline", "clinker_provider.operators.submit"}
    for part in ("operators", "sensors", "hooks", "triggers"):
        package = importlib.import_module(f"clinker_provider.{part}")
        for item in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(item.name)
            own = [
                cls
                for _, cls in inspect.getmembers(module, inspect.isclass)
                if cls.__module__ == item.name and issubclass(cls, BaseOperator | BaseHook | BaseTrigger)
            ]
            assert own, f"{item.name} has nothing for Airflow"
            assert item.name in listed | shared
    for path in INFO["extra-links"]:
        module_name, _, name = path.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module_name), name), BaseOperatorLink)


@pytest.mark.airflow
def test_operators_show_exactly_the_listed_links() -> None:
    from clinker_provider.operators.spark import ClinkerSparkOperator

    links = {f"{type(link).__module__}.{type(link).__name__}" for link in ClinkerSparkOperator.operator_extra_links}
    assert links == set(INFO["extra-links"])


@pytest.mark.airflow
def test_every_template_field_is_an_attribute() -> None:
    from clinker_provider.operators.spark import ClinkerSparkOperator
    from clinker_provider.operators.validate import ClinkerValidateOperator

    for cls in (ClinkerSparkOperator, ClinkerValidateOperator):
        operator = cls(task_id="t", pipeline="p.yaml", validate="execute")
        for field in operator.template_fields:
            assert hasattr(operator, field), field
        assert len(set(operator.template_fields)) == len(operator.template_fields)


@pytest.mark.airflow
def test_settings_are_readable_through_airflow() -> None:
    from airflow.providers.common.compat.sdk import conf
    from airflow.providers_manager import ProvidersManager

    ProvidersManager().initialize_providers_configuration()

    assert conf.get("clinker", "validate") == "parse"
    assert conf.getfloat("clinker", "kill_grace_s") == 3.0
    assert conf.get("clinker", "history_url") == ""


def test_version_module_and_info_import_nothing_heavy() -> None:
    code = (
        "import sys; import clinker_provider.get_provider_info; "
        "print(json.dumps([name for name in sys.modules if name.split('.')[0] in ('airflow', 'pyspark')]))"
    )
    done = subprocess.run([sys.executable, "-c", f"import json; {code}"], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


def modules(key: str) -> list[str]:
    parts: list[dict[str, Any]] = INFO[key]
    return [module for part in parts for module in part["python-modules"]]
