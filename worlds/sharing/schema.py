"""The published JSON Schema of world files, and of files of bids, for editors: `meshwright share --schema` prints it.

It says what a file may look like. What only a whole file tells (whether a gang fits the cluster, whether a name is
taken) `load_world` checks.
"""

from __future__ import annotations

import json
from typing import Any

from ..file.json_schema import Generate, proper
from .bids import BidsFile
from .file import VERSION, SharingFile
from .policies import POLICIES

__all__ = ["schema", "schema_text"]

SCHEMA_ID = f"urn:meshwright:schema:sharing:{VERSION}"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of world files; docs/schema/sharing-1.schema.json holds the same."""
    forms: dict[str, Any] = {}
    for model in (SharingFile, BidsFile):
        said = model.model_json_schema(schema_generator=Generate)
        forms |= said.pop("$defs")
        forms[model.__name__] = said
    world = forms["SharingFile"]
    del world["properties"]["planner"]  # of studies
    world["properties"]["sharing"]["const"] = VERSION
    world["properties"]["planners"]["items"] = {
        "anyOf": [{"type": "string", "enum": list(POLICIES)}, {"$ref": "#/$defs/PolicyCase"}]
    }
    world["properties"]["seed"]["minimum"] = 0
    world["oneOf"] = _one_of("apps", "workload")
    forms["SharedClusterCase"]["oneOf"] = _one_of("preset", "machines", "devices")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID,
        "title": "Meshwright shared cluster",
        "description": "A training cluster that apps share, with the planners to compare; or, with bids, one auction.",
        "type": "object", "required": ["sharing"],
        "if": {"required": ["bids"]}, "then": {"$ref": "#/$defs/BidsFile"}, "else": {"$ref": "#/$defs/SharingFile"},
        "$defs": proper(forms),
    }  # fmt: skip


def schema_text() -> str:
    """The text of the published file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _one_of(*keys: str) -> list[dict[str, list[str]]]:
    return [{"required": [key]} for key in keys]
