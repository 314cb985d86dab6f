"""What a decoder's sizes must be, each and together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import InputError

if TYPE_CHECKING:
    from .decoder import DecoderSpec

__all__ = ["check_shape"]


def check_shape(spec: DecoderSpec) -> None:
    """Check a decoder's sizes.

    Raises
    ------
    InputError
        On a size below one, heads that the KV heads do not divide, or experts that do not fit together.
    """
    for name in ("layers", "hidden", "heads", "ffn", "vocab", "kv_heads", "head_dim", "max_positions"):
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(f"decoder {spec.name!r}: {name}: expected an integer >= 1 (got {value!r})")
    if spec.heads % spec.kv_heads:
        raise InputError(
            f"decoder {spec.name!r}: kv_heads {spec.kv_heads} does not divide the {spec.heads} attention heads"
        )
    for name in (
        "experts", "experts_per_token", "moe_ffn", "shared_ffn", "dense_layers", "window", "full_layers", "kv_rank",
        "rope_dim", "value_dim", "q_rank", "mtp_layers",
    ):  # fmt: skip
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"decoder {spec.name!r}: {name}: expected an integer >= 0 (got {value!r})")
    if spec.experts and not (1 <= spec.experts_per_token <= spec.experts and spec.moe_ffn):
        raise InputError(
            f"decoder {spec.name!r}: {spec.experts} experts: expected experts_per_token of 1 to {spec.experts} and "
            f"moe_ffn >= 1 (got {spec.experts_per_token} and {spec.moe_ffn})"
        )
    if not spec.experts and (spec.experts_per_token or spec.moe_ffn or spec.shared_ffn or spec.dense_layers):
        raise InputError(f"decoder {spec.name!r}: fields of experts without experts; give how many there are")
    if spec.full_layers and not (spec.window and spec.full_layers < spec.layers):
        raise InputError(
            f"decoder {spec.name!r}: {spec.full_layers} layers that see everything, of {spec.layers}; others have "
            f"a window of {spec.window}"
        )
    if spec.kv_rank and not (spec.value_dim and spec.rope_dim < spec.head_dim):
        raise InputError(
            f"decoder {spec.name!r}: latent attention: expected value_dim >= 1 and rope_dim below head_dim "
            f"{spec.head_dim} (got {spec.value_dim} and {spec.rope_dim})"
        )
    if not spec.kv_rank and (spec.rope_dim or spec.value_dim or spec.q_rank):
        raise InputError(f"decoder {spec.name!r}: fields of latent attention without kv_rank")
    if spec.dense_layers > spec.layers:
        raise InputError(f"decoder {spec.name!r}: {spec.dense_layers} dense layers of {spec.layers}")
