"""Devices of one's own, from YAML or JSON files: fields of `DeviceSpec`, the rest as a shipped device has them."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, cast

from ..errors import InputError
from ..files import readable
from .hardware import DeviceSpec, LinkSpec, device

__all__ = ["read_device"]

LINKS = ("intra_node", "inter_node")
TEXTS = ("name", "source")
WHOLE = ("memory_bytes", "usable_memory_bytes", "devices_per_adapter")
KNOWN = tuple(f.name for f in fields(DeviceSpec))
USABLE = 0.92  # of the memory, where the file does not say it: as `devices.USABLE`


def read_device(path: str | Path) -> DeviceSpec:
    """Read a device.

    The file holds fields of `DeviceSpec`; ``intra_node`` and ``inter_node`` hold ``bandwidth_bytes_per_s`` and
    ``latency_s``. ``like: l40s-48gb`` takes what is left out from a shipped device. Without it the memory, the two
    rates and the two links must be said. The name is the file's if it says none.

    Raises
    ------
    InputError
        If the file cannot be read, or says what is unknown, missing or out of range; one line.
    """
    path = Path(path)
    said = _said(path)
    like = said.pop("like", None)
    unknown = [name for name in said if name not in KNOWN]
    if unknown:
        raise InputError(f"{path}: unknown field {unknown[0]!r}; known: like, {', '.join(KNOWN)}")
    try:
        base = None if like is None else device(str(like))
        given = {name: _value(name, value, base) for name, value in said.items()}
        found: dict[str, Any] = {
            "name": path.stem,
            "source": f"{path.name}" + ("" if base is None else f", like {base.name}"),
        } | given
        if "memory_bytes" in found and "usable_memory_bytes" not in found:
            found["usable_memory_bytes"] = int(USABLE * found["memory_bytes"])
        if base is not None:
            return replace(base, **found)
        needed = [f.name for f in fields(DeviceSpec) if f.default is MISSING and f.name not in found]
        if needed:
            raise InputError(
                f"missing {', '.join(needed)}; or like: and the name of a shipped device to take them from"
            )
        return DeviceSpec(**found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _said(path: Path) -> dict[str, Any]:
    import yaml

    try:
        text = readable(path).read_text(encoding="utf-8")
        found: Any = json.loads(text) if path.suffix.lower() == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected fields of a device, one a line (got {type(found).__name__})")
    return {str(name): value for name, value in cast("dict[Any, Any]", found).items()}


def _value(name: str, value: Any, base: DeviceSpec | None) -> Any:
    if name in TEXTS:
        return str(value)
    if name not in LINKS:
        number = _number(name, value)
        return int(number) if name in WHOLE else number
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected bandwidth_bytes_per_s and latency_s (got {value!r:.60})")
    parts = {str(k): _number(f"{name}.{k}", v) for k, v in cast("dict[Any, Any]", value).items()}
    names = [f.name for f in fields(LinkSpec)]
    wrong = [part for part in parts if part not in names]
    if wrong:
        raise InputError(f"{name}: unknown field {wrong[0]!r}; known: {', '.join(names)}")
    if base is not None:
        return replace(getattr(base, name), **parts)
    if len(parts) < len(names):
        raise InputError(f"{name}: expected bandwidth_bytes_per_s and latency_s (got {', '.join(parts) or 'nothing'})")
    return LinkSpec(**parts)


def _number(name: str, value: Any) -> float:
    """A finite number; YAML takes 24e9 for text, and so do we not."""
    try:
        found = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if not -1e30 < found < 1e30:
        raise InputError(f"{name}: expected a number (got {value!r:.60})")
    return found
