"""How far back layers see: sliding windows and chunks of config.json files, and layers of other kinds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from .families import Family

__all__ = ["FIELDS", "SIZES", "full_layers", "other_layers", "too_short", "window_of"]

FIELDS = (
    "sliding_window",
    "sliding_window_size",
    "attention_chunk_size",
    "use_sliding_window",
    "max_window_layers",
    "sliding_window_pattern",
    "layer_types",
)
"""What is read here."""
SIZES = FIELDS[:3]
"""Those that hold tokens, or null for no window."""
FULL = ("full_attention", "attention", "global")
NEAR = ("sliding_attention", "chunked_attention")
PATTERNS = ("sliding_window_pattern", "_sliding_window_pattern")


def window_of(config: Mapping[str, Any], family: Family, layers: int, ignore: Collection[str] = ()) -> tuple[int, str]:
    """The least number of tokens that some layer sees, and the field that says so; 0 where all see everything.

    It does not count where the caller ignores the field that says it.
    """
    if set(SIZES) & set(ignore):
        return 0, ""
    # Llama 4 has chunks in place of windows, so its default is that field's.
    own = SIZES[2] if config.get("model_type") == "llama4_text" else SIZES[0]
    default = {} if own in config or SIZES[1] in config else {own: family.window}  # Gemma 2's first files: SIZES[1]
    given = {name: size for name, size in (default | dict(config)).items() if name in SIZES and size}
    if not given:
        return 0, own
    # The least window binds; of equal ones the family's own field is named, which is the one that users know.
    name = min(given, key=lambda name: (given[name], name != own))
    said = given[name]
    types: Any = config.get("layer_types")
    if isinstance(types, list):
        return (said if any(kind in NEAR for kind in cast("list[Any]", types)) else 0), name
    off = config.get("use_sliding_window") is False
    if off or (family.switch and not config.get("use_sliding_window")):
        return 0, name
    first: Any = config.get("max_window_layers")
    if isinstance(first, int) and not isinstance(first, bool) and first >= layers and _by_depth(config, family):
        return 0, name
    return (0 if any(config.get(pattern) == 1 for pattern in PATTERNS) else said), name


def full_layers(config: Mapping[str, Any], family: Family, layers: int) -> int:
    """Layers that see everything in a model of which some have a window."""
    types: Any = config.get("layer_types")
    if isinstance(types, list):
        return sum(kind in FULL for kind in cast("list[Any]", types))
    first: Any = config.get("max_window_layers")
    if isinstance(first, int) and not isinstance(first, bool) and _by_depth(config, family):
        return min(first, layers)
    said = next((config[name] for name in PATTERNS if isinstance(config.get(name), int)), family.pattern)
    return layers // said if said else 0


def _by_depth(config: Mapping[str, Any], family: Family) -> bool:
    """Whether only layers from ``max_window_layers`` on have windows: in Qwen's code and in what came from it."""
    return family.switch or config.get("model_type") == "dots1"


def too_short(config: Mapping[str, Any], name: str, window: int, longest: int) -> str:
    """The message about chunks of attention that are shorter than the longest sequence."""
    stated = "" if name in config else f" (what model_type {config.get('model_type')!r} means by default)"
    return (
        f"{name}: {window}{stated}: layers that see so few tokens are not modelled; sequences up to the window are "
        f"exact: write max_position_embeddings {window} (got {longest}) in the file to plan for those alone"
    )


def other_layers(config: Mapping[str, Any], layers: int) -> list[str]:
    """What is wrong with ``layer_types``: kinds that are not modelled, or another number of layers."""
    types: Any = config.get("layer_types")
    if types is None:
        return []
    if not isinstance(types, list):
        return [f"layer_types: expected a list of the layers' kinds (got {types!r:.60})"]
    kinds = [str(kind) for kind in cast("list[Any]", types)]
    others = sorted({kind for kind in kinds if kind not in (*FULL, *NEAR)})
    if others:
        return [f"layer_types: {', '.join(map(repr, others))}: layers without full attention are not modelled"]
    if len(kinds) != layers:
        return [f"layer_types: {len(kinds)} kinds of {layers} layers"]
    return []
