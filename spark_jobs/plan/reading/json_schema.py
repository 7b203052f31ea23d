"""The JSON Schema of pipeline files, for editors, made from the models that read them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from spark_jobs.nodes import registry
from spark_jobs.nodes.binding import NodeType, Wiring
from spark_jobs.plan.reading import model, reader

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{model}"
#: A text, which YAML may read as something else.
_NAME: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_INPUTS: dict[Wiring, dict[str, Any]] = {
    Wiring.NONE: {},
    Wiring.ONE: {"input": _NAME},
    Wiring.LIST: {"inputs": {"type": "array", "items": _NAME, "minItems": 1}},
    Wiring.NAMED: {"input": {"type": "object", "additionalProperties": _NAME}},
    Wiring.CALL: {
        "input": _NAME,
        "inputs": {"type": "object", "additionalProperties": _NAME},
        "use": {"type": "string"},
        "alias": {"type": "string"},
        "outputs": {"type": "object", "additionalProperties": _NAME},
        "resources": {"type": "object"},
    },
}


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a pipeline file."""
    kinds = registry.node_types()
    models = [(kind.config, "validation") for kind in kinds.values()]
    blocks = [(model.PipelineConfig, "validation"), (model.ErrorHandlingConfig, "validation")]
    refs, definitions = models_json_schema([*models, *blocks], ref_template=_REF)  # type: ignore[list-item]
    found = definitions["$defs"]
    for definition in found.values():
        if definition.get("additionalProperties") is False:
            definition["patternProperties"] = {"^_notes$": {}}
            definition.setdefault("properties", {}).setdefault("description", {})
    for name, kind in kinds.items():
        found[f"{name}_node"] = _node(kind, refs[kind.config, "validation"]["$ref"], found)
    return {
        "$schema": DIALECT,
        "title": "Clinker pipeline",
        "type": "object",
        "required": ["pipeline", "nodes"],
        "properties": {
            "pipeline": refs[model.PipelineConfig, "validation"],
            "nodes": {"type": "array", "items": {"oneOf": [{"$ref": f"#/$defs/{name}_node"} for name in kinds]}},
            "error_handling": {"anyOf": [refs[model.ErrorHandlingConfig, "validation"], {"type": "null"}]},
        },
        "patternProperties": {"^_notes$": {}},
        "additionalProperties": False,
        "$defs": found,
    }


def _node(kind: NodeType, ref: str, found: dict[str, Any]) -> dict[str, Any]:
    """A node: its header, and `config:`, whose keys may stand at node level as well."""
    config = found[ref.rpartition("/")[2]]
    header: dict[str, Any] = {
        "type": {"const": kind.kind},
        "name": _NAME,
        "description": {},
        **_INPUTS[kind.wiring],
    }
    required = [
        "type",
        "name",
        *(key for key in ("input", "inputs") if key in header and kind.wiring is not Wiring.CALL),
    ]
    hoisted = (
        {}
        if kind.wiring is Wiring.CALL
        else {key: config["properties"][key] for key in reader.allowed_keys(kind.config) if key not in header}
    )
    # Keys may stand on either level, so none can be required of `config:` alone.
    config.pop("required", None)
    if "type" in config.get("properties", {}):
        hoisted["format"] = config["properties"]["type"]
    return {
        "type": "object",
        "required": required,
        "properties": {**hoisted, **header, "config": {"anyOf": [{"$ref": ref}, {"type": "null"}]}},
        "patternProperties": {"^_notes$": {}},
        "additionalProperties": False,
    }
