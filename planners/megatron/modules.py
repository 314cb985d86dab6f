"""Modules that Megatron Core recomputes or offloads, by the classes of tensors that they free."""

from __future__ import annotations

from ...errors import InputError
from ...simulator.training import TransformerShape
from .result import Configuration

__all__ = ["RECOMPUTE", "activation_flags"]

RECOMPUTE = {
    "none": (),
    "selective": ("--recompute-granularity selective",),
    "full": ("--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"),
}
"""Arguments of what is recomputed by word."""
# megatron/core/transformer/transformer_config.py, Megatron Core 0.16.1: recompute_modules, offload_modules.
AGAIN: dict[str, frozenset[str]] = {
    "moe": frozenset({"arrived", "inner", "activated"}),
    "mlp": frozenset({"inner", "activated"}),
    "moe_act": frozenset({"activated"}),
    "core_attn": frozenset({"scores"}),
    "layernorm": frozenset({"normed"}),
    "mla_up_proj": frozenset({"qkv"}),
}
"""Module -> classes; larger modules first. "moe" and "mlp" also run their last product again, which costs more than is
charged."""
AWAY: dict[str, tuple[str, ...]] = {
    "inputs": ("attn_norm", "mlp_norm"), "qkv": ("core_attn",), "context": ("attn_proj",),
    "arrived": ("expert_fc1",), "inner": ("moe_act",),
}  # fmt: skip
"""Class -> modules whose inputs it is; the last two in a layer with experts."""


def activation_flags(c: Configuration, shape: TransformerShape) -> list[str]:
    """Arguments of what was chosen for a configuration.

    Raises
    ------
    InputError
        On a class that no module of Megatron Core recomputes or offloads.
    """
    again = {one.name for one in c.breakdown.tensors if one.use == "recomputed"}
    away = {one.name for one in c.breakdown.tensors if one.use == "offloaded"}
    if again == {"layer"}:
        flags, again = list(RECOMPUTE["full"]), set[str]()
    else:
        modules: list[str] = []
        for name, classes in AGAIN.items():
            there = name.startswith("moe") == (shape.experts is not None) if name in ("moe", "mlp", "moe_act") else True
            if there and classes <= again and (name != "mla_up_proj" or shape.latent is not None):
                modules.append(name)
                again -= classes
        flags = [f"--recompute-granularity selective --recompute-modules {' '.join(modules)}"] if modules else []
    known = {name for name in AWAY if shape.experts is not None or name not in ("arrived", "inner")}
    for verb, left in (("recomputes", again), ("offloads", away - known)):
        if left:
            raise InputError(
                f"flags: Megatron-LM has no module that {verb} {', '.join(sorted(left))} alone; "
                "set recompute=none,selective,full and offload_activations=false"
            )
    if away:
        modules = [module for name, several in AWAY.items() if name in away for module in several]
        flags += ["--fine-grained-activation-offloading", f"--offload-modules {' '.join(modules)}"]
    return flags
