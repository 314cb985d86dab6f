"""KV heads of families whose config gives their number by switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FAMILIES", "kv_heads"]

FAMILIES = ("falcon", "RefinedWeb", "RefinedWebModel", "gpt_bigcode", "mpt", "chatglm")
"""Families whose KV heads depend on further fields."""
FIELDS = ("multi_query", "new_decoder_architecture", "attn_type", "multi_query_attention")
OF_MPT = ("alibi", "learned_pos_emb")


def kv_heads(
    config: Mapping[str, Any], heads: int | None, grouped: int | None
) -> tuple[int | None, tuple[str, ...], list[str]]:
    """Number of KV heads, the fields that were read, and what is wrong.

    Parameters
    ----------
    config : mapping
        The file's fields.
    heads, grouped : int, optional
        Attention heads, and the KV heads that the file names, where it does.
    """
    kind, one = config.get("model_type"), config.get("multi_query", True)
    if kind == "chatglm":
        return grouped if config.get("multi_query_attention") else heads, FIELDS, []
    if kind in ("falcon", "RefinedWeb", "RefinedWebModel"):
        new = config.get("new_decoder_architecture", kind == "RefinedWeb")
        return grouped if new else 1 if one else heads, FIELDS, []
    if kind == "gpt_bigcode":
        return 1 if one else heads, FIELDS, []
    if kind == "mpt":
        wrong: list[str] = []
        if config.get("alibi") is False and config.get("learned_pos_emb", True):
            wrong.append("alibi: False: learned positions of model_type 'mpt' are not modelled")
        way = config.get("attn_type", "multihead_attention")
        ways = {"multihead_attention": heads, "multiquery_attention": 1, "grouped_query_attention": grouped}
        if way not in ways:
            wrong.append(f"attn_type: {way!r}: expected one of {', '.join(ways)}")
        return ways.get(way), (*FIELDS, *OF_MPT), wrong
    return None, FIELDS, []
