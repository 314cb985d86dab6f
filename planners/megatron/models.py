"""Shapes of models by name: the GPTs of the papers, public decoders, or sizes written out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...errors import InputError
from ...simulator.training import TransformerShape
from ...simulator.training.configuration.mixture.parts import Experts, Latent

__all__ = ["GPTS", "model_shape"]

GPTS: dict[str, tuple[int, int, int]] = {
    "gpt3-350m": (24, 1024, 16), "gpt3-1.3b": (24, 2048, 32), "gpt3-2.6b": (32, 2560, 32), "gpt3-6.7b": (32, 4096, 32),
    "gpt3-15b": (48, 5120, 32), "gpt3-39b": (48, 8192, 64), "gpt3-175b": (96, 12288, 96), "gpt-22b": (48, 6144, 64),
    "gpt-530b": (105, 20480, 128), "gpt-1t": (128, 25600, 160),
}  # fmt: skip
"""(layers, hidden, heads) of GPTs with a vocabulary of 51,200 and sequences of 2,048: Alpa, Table 6 (there with 1,024);
Brown et al. 2020; Korthikanti et al. 2022, Table 3."""
SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "head_dim", "mtp_layers")
EXPERTS = {
    "experts": "count",
    "top_k": "top_k",
    "expert_ffn": "ffn",
    "shared_ffn": "shared_ffn",
    "dense_layers": "dense_layers",
}
LATENT = ("kv_rank", "rope_dim", "value_dim", "q_rank")
FLAGS = ("gated", "tied", "dropout")
LLAMA_4 = {
    "llama-4-scout": TransformerShape(48, 5120, 40, 8, 16384, 202048, 8192, True, experts=Experts(16, 1, 8192, 8192)),
    "llama-4-maverick": TransformerShape(
        48, 5120, 40, 8, 16384, 202048, 8192, True, experts=Experts(128, 1, 8192, 8192, 24, alternate=True)
    ),
}
"""The language models alone, by the config.json files that Meta publishes with them: every layer of Scout has experts,
every other one of Maverick."""
NODES = {"DeepSeek-V3": 4, "DeepSeek-R1": 4}
"""Nodes that a token's experts may be on (DeepSeek-V3's report, section 2.1.2)."""


def model_shape(text: str, seq: int | None = None) -> TransformerShape:
    """The shape of a model.

    Parameters
    ----------
    text : str
        A name of `GPTS`, of a public decoder ("llama-3.1-8b", "deepseek-v3"), "llama-4-scout", "llama-4-maverick", or
        fields of `TransformerShape` such as ``layers=96,hidden=12288,heads=96,vocab=51200,seq=2048,gated=false``, with
        experts ``experts=8,top_k=2,expert_ffn=14336,shared_ffn=…,dense_layers=…``, with latent attention
        ``kv_rank=512,rope_dim=64,value_dim=128,q_rank=1536``.
    seq : int, optional
        Tokens of a sample; by default the model's own, at most 8,192.

    Raises
    ------
    InputError
        On an unknown name, or a field that is wrong.
    """
    if "=" in text:
        shape = _written(text)
    elif text.lower() in GPTS:
        layers, hidden, heads = GPTS[text.lower()]
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
    elif text.lower() in LLAMA_4:
        shape = LLAMA_4[text.lower()]
    else:
        shape = _decoder(text)
    return shape if seq is None else replace(shape, seq=seq)


def _written(text: str) -> TransformerShape:
    given: dict[str, int | bool] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        known = (*SIZES, *FLAGS, *EXPERTS, *LATENT)
        if name not in known:
            raise InputError(f"model: unknown field {name!r}; expected {', '.join(known)}")
        if name in given:
            raise InputError(f"model: {name} is given twice (got {text!r})")
        if name in FLAGS:
            if value.lower() not in ("true", "false"):
                raise InputError(f"model.{name}: expected true or false (got {value!r})")
            given[name] = value.lower() == "true"
        elif re.fullmatch(r"\d+", value):
            given[name] = int(value)
        else:
            raise InputError(f"model.{name}: expected a positive integer (got {value!r})")
    missing = [name for name in ("layers", "hidden", "heads", "vocab", "seq") if name not in given]
    if missing:
        raise InputError(f"model: {', '.join(missing)} missing (got {text!r})")
    mixed = {inner: given.pop(name) for name, inner in EXPERTS.items() if name in given}
    latent = {name: given.pop(name) for name in LATENT if name in given}
    more: dict[str, Any] = {**given, "experts": mixed or None, "latent": latent or None}
    if mixed or latent:
        more = {"gated": True, **more}
    return TransformerShape(**more)


def _decoder(name: str) -> TransformerShape:
    from ...profiles.llm import decoder

    try:
        spec = decoder(name)
    except InputError as error:
        raise InputError(f"{error}; or a GPT: {', '.join(GPTS)}; or layers=…,hidden=…,heads=…,vocab=…,seq=…") from None
    experts = latent = None
    if spec.experts:
        experts = Experts(
            spec.experts, spec.experts_per_token, spec.moe_ffn, spec.shared_ffn, spec.dense_layers,
            nodes=NODES.get(spec.name, 0), router_bias=spec.name in NODES,
        )  # fmt: skip
    if spec.kv_rank:
        latent = Latent(spec.kv_rank, spec.rope_dim, spec.value_dim, spec.q_rank)
    return TransformerShape(
        spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.ffn, spec.vocab, min(spec.longest, 8192),
        gated=spec.gated, tied=spec.tied, head_dim=spec.head_dim, experts=experts, latent=latent,
        mtp_layers=spec.mtp_layers,
    )  # fmt: skip
