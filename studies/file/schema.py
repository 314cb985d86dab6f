"""The published JSON Schema of study files, for editors; ``python -m meshwright.studies.file.schema`` prints it.

It says what a study file may look like. What only a whole study tells (whether a field exists, whether values go
together) `meshwright.studies.load` checks.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ...worlds.file.json_schema import Generate, proper
from ...worlds.registry import WORLDS, world
from .document import VERSION, StudyDocument

__all__ = ["schema", "schema_text"]

SCHEMA_ID = f"urn:meshwright:schema:study:{VERSION}"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of study files; docs/schema/study-1.schema.json holds the same."""
    said = StudyDocument.model_json_schema(schema_generator=Generate)
    properties: dict[str, Any] = said["properties"]
    defs: dict[str, Any] = said["$defs"]
    shared = set(properties)
    planners: list[Any] = [{"type": "string", "minLength": 1}]
    sections: dict[str, list[Any]] = {}
    for name in WORLDS:
        case = world(name).case.model_json_schema(schema_generator=Generate)
        own = cast("dict[str, Any]", case["properties"])
        defs |= {key: _without_required(part) for key, part in case["$defs"].items()}
        planners.append({"$ref": own.pop("planner")["$ref"]})
        for key, part in own.items():
            if key not in shared and part not in sections.setdefault(key, []):
                sections[key].append(part)
    # Worlds that have sections of one name each have their own form of it.
    properties |= {key: parts[0] if len(parts) == 1 else {"anyOf": parts} for key, parts in sections.items()}
    properties["planners"]["items"] = {"anyOf": planners}
    properties["planners"]["minItems"] = 1
    properties["world"]["enum"] = list(WORLDS)
    properties["study"]["const"] = VERSION
    properties["axes"]["additionalProperties"]["anyOf"][0]["minItems"] = 1
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "Meshwright study",
        "description": "A what-if study: a base case, what varies, and what is asked.",
        "type": "object", "required": ["study"], "additionalProperties": False,
        "properties": proper(properties), "$defs": proper(defs),
    }  # fmt: skip


def schema_text() -> str:
    """The text of the published file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _without_required(part: dict[str, Any]) -> dict[str, Any]:
    """A section whose fields may all be left to axes."""
    choice = [set(form) for form in part.get("oneOf", [])]
    left = {"required", "oneOf"} if choice and all(form == {"required"} for form in choice) else {"required"}
    return {key: value for key, value in part.items() if key not in left}


if __name__ == "__main__":
    print(schema_text(), end="")
