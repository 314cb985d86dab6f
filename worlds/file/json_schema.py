"""What the JSON Schemas of files that people write have in common: text with units is allowed where it is read."""

from __future__ import annotations

from typing import Any, cast

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from .units import PATTERNS

__all__ = ["Generate", "proper"]


class Generate(GenerateJsonSchema):
    """Where a validator reads text before the type is checked (``13 GiB``, ``99 %``), text of that form is allowed
    too."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        """A field whose text is read first."""
        inner = self.generate_inner(schema["schema"])
        reader: Any = schema["function"]["function"]
        text: JsonSchemaValue = {"type": "string"}
        if reader in PATTERNS:
            text["pattern"] = PATTERNS[reader]
        forms: list[JsonSchemaValue] = [inner, text]
        if "oneOf" in inner:  # a question, whose find may be {highest: FIELD}
            find = {"type": "object", "minProperties": 1, "maxProperties": 1}
            forms.append({"type": "object", "required": ["find"], "properties": {"find": find}})
        return {"anyOf": forms}


BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def proper(part: Any) -> Any:
    """pydantic leaves the bounds of what a validator reads under its own names."""
    if isinstance(part, list):
        return [proper(inner) for inner in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    return {
        BOUNDS[key] if key in BOUNDS and isinstance(inner, int | float) else key: proper(inner)
        for key, inner in cast("dict[str, Any]", part).items()
    }
