"""Protocol buffers' text format, as much as a Triton config needs."""

from __future__ import annotations

from typing import Any

__all__ = ["Enum", "pbtxt"]


class Enum(str):
    """A name of an enumeration's value: written without quotes."""

    __slots__ = ()


def pbtxt(message: dict[str, Any]) -> str:
    """A message as text: a field per line, a repeated field once per value."""
    return "".join(_field(key, value, "") for key, value in message.items())


def _field(key: str, value: Any, indent: str) -> str:
    if isinstance(value, list):
        return "".join(_field(key, item, indent) for item in value)
    if isinstance(value, dict):
        inner = "".join(_field(k, v, indent + "  ") for k, v in value.items())
        return f"{indent}{key} {{\n{inner}{indent}}}\n"
    return f"{indent}{key}: {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, str):
        return f'"{"".join(_escaped(byte) for byte in value.encode("utf-8"))}"'
    return repr(value)


def _escaped(byte: int) -> str:
    """Printable ASCII as it is, quotes and backslashes behind a backslash, every other byte by its octal number."""
    if byte in b'"\\':
        return f"\\{chr(byte)}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
