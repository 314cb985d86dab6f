"""The JSON Schema of case files, for editors: `meshwright new WORLD --schema` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..world import OpenWorld
from .json_schema import Generate, proper

__all__ = ["json_schema"]


def json_schema(world: OpenWorld) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of case files of a world."""
    said = proper(world.case.model_json_schema(schema_generator=Generate))
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:meshwright:schema:case:{world.name}:1",
        **said,
        "required": ["world", *(name for name in said.get("required", []) if name != "planner")],
        "properties": {
            "world": {"const": world.name},
            "name": {"type": "string", "description": "what tables call it; by default the file's name"},
            **said["properties"],
        },
    }
    one = next((form for form in _forms(said["properties"].get("planner", {})) if "$ref" in form), None)
    if one is not None:
        planner = said["$defs"][one["$ref"].rpartition("/")[2]]
        name = {key: value for key, value in planner["properties"]["name"].items() if key not in ("default", "title")}
        whole["properties"]["planners"] = {
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": [name, {"$ref": one["$ref"]}]},
            "description": "planners to compare, instead of one: names, or mappings as planner has them",
        }
        both = {"not": {"required": ["planner", "planners"]}}
        whole["allOf"] = [*whole.get("allOf", []), both]
    return whole


def _forms(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part, *part.get("anyOf", []), *part.get("allOf", [])]
