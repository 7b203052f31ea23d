"""The types that we wrote for packages without any name what those packages have."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

STUBS = Path(__file__).resolve().parent.parent / "stubs"
#: Kinds of columns that the stubs tell apart and Arrow does not.
OWN = {"StringType", "BoolType", "Int64Type", "Float64Type"}
#: What lists, structs and dictionaries have, and the stub of their common class too.
OF_SOME = {
    f"DataType.{name}"
    for name in (
        "value_type",
        "value_field",
        "index_type",
        "key_type",
        "item_type",
        "precision",
        "scale",
        "unit",
        "tz",
        "get_field_index",
    )
} | {
    "Array.flatten",
    "Scalar.values",
}


def members(body: list[ast.stmt]) -> set[str]:
    """The public functions, classes and methods of a stub; what it imports or names for itself has none."""
    return {
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and node.name not in OWN
    }


@pytest.mark.parametrize("path", sorted(STUBS.glob("**/*.pyi")), ids=lambda path: path.stem)
def test_what_has_types_exists(path: Path) -> None:
    name = ".".join(path.relative_to(STUBS).with_suffix("").parts).removesuffix(".__init__")
    module = importlib.import_module(name)
    tree = ast.parse(path.read_text())
    missing = {one for one in members(tree.body) if not hasattr(module, one)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and hasattr(module, node.name):
            there = getattr(module, node.name)
            missing |= {f"{node.name}.{one}" for one in members(node.body) if not hasattr(there, one)}
    assert missing <= OF_SOME
