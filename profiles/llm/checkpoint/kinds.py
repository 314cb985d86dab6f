"""What fields of config.json files may hold: a number in quotes or a list where a number belongs is never passed over.

Sizes such as ``hidden_size`` are checked where they are read. Here are the fields whose absence has a meaning of its
own: a value of the wrong kind would otherwise pass for an absent one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from . import mixture
from .windows import SIZES

__all__ = ["wrong_kinds"]

LISTS = ("mlp_only_layers", "moe_layers")
"""Layers by number, or null."""
SWITCHES = (
    "use_sliding_window", "multi_query", "multi_query_attention", "new_decoder_architecture", "learned_pos_emb",
)  # fmt: skip
LEAST = {
    **dict.fromkeys(SIZES, 1),
    **dict.fromkeys((name for name in mixture.FIELDS if name not in LISTS), 0),
    **dict.fromkeys(("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "moe_layer_interval"), 1),
    **dict.fromkeys(("max_window_layers", "sliding_window_pattern", "_sliding_window_pattern"), 0),
    "moe_layer_end_index": -1,
    "intermediate_size_mlp": 1,
}
"""Field of whole numbers -> the least; null is none."""


def wrong_kinds(config: Mapping[str, Any]) -> list[str]:
    """One message for each field whose value is of a kind that it cannot have."""
    found: list[str] = []
    for name, value in config.items():
        if name in LEAST:
            fine = value is None or (_whole(value) and value >= LEAST[name])
            kind = f"an integer >= {LEAST[name]} or null" + (" (no window)" if name in SIZES else "")
        elif name in LISTS:
            fine = value is None or (isinstance(value, list) and all(map(_whole, cast("list[Any]", value))))
            kind = "a list of layers or null"
        elif name in SWITCHES:
            fine, kind = value is None or isinstance(value, bool), "true, false or null"
        elif name == "tie_word_embeddings":  # what null means differs between engines
            fine, kind = isinstance(value, bool), "true or false"
        else:
            continue
        if not fine:
            found.append(f"{name}: expected {kind} (got {value!r:.60})")
    return found


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
