"""Shapes of models by name: the GPTs of the papers, public decoders, or sizes written out."""

from __future__ import annotations

import re
from dataclasses import replace

from ...errors import InputError
from ...simulator.training import TransformerShape

__all__ = ["GPTS", "model_shape"]

GPTS: dict[str, tuple[int, int, int]] = {
    "gpt3-350m": (24, 1024, 16), "gpt3-1.3b": (24, 2048, 32), "gpt3-2.6b": (32, 2560, 32), "gpt3-6.7b": (32, 4096, 32),
    "gpt3-15b": (48, 5120, 32), "gpt3-39b": (48, 8192, 64), "gpt3-175b": (96, 12288, 96), "gpt-22b": (48, 6144, 64),
    "gpt-530b": (105, 20480, 128), "gpt-1t": (128, 25600, 160),
}  # fmt: skip
"""(layers, hidden, heads) of GPTs with a vocabulary of 51,200 and sequences of 2,048: Alpa, Table 6 (there with 1,024);
Brown et al. 2020; Korthikanti et al. 2022, Table 3."""
SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "head_dim")
FLAGS = ("gated", "tied", "dropout")


def model_shape(text: str, seq: int | None = None) -> TransformerShape:
    """The shape of a model.

    Parameters
    ----------
    text : str
        A name of `GPTS`, of a public decoder ("llama-3.1-8b"), or fields of `TransformerShape` such as
        ``layers=96,hidden=12288,heads=96,vocab=51200,seq=2048,gated=false``.
    seq : int, optional
        Tokens of a sample; by default the model's own, at most 8,192.

    Raises
    ------
    InputError
        On an unknown name, a model with experts, or a field that is wrong.
    """
    if "=" in text:
        shape = _written(text)
    elif text.lower() in GPTS:
        layers, hidden, heads = GPTS[text.lower()]
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
    else:
        shape = _decoder(text)
    return shape if seq is None else replace(shape, seq=seq)


def _written(text: str) -> TransformerShape:
    given: dict[str, int | bool] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in (*SIZES, *FLAGS):
            raise InputError(f"model: unknown field {name!r}; expected {', '.join((*SIZES, *FLAGS))}")
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
    return TransformerShape(**given)  # pyright: ignore[reportArgumentType]


def _decoder(name: str) -> TransformerShape:
    from ...profiles.llm import decoder

    try:
        spec = decoder(name)
    except InputError as error:
        raise InputError(f"{error}; or a GPT: {', '.join(GPTS)}; or layers=…,hidden=…,heads=…,vocab=…,seq=…") from None
    if spec.experts:
        raise InputError(f"model: {spec.name} has experts, which estimates do not model; give a dense model")
    return TransformerShape(
        spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.ffn, spec.vocab, min(spec.longest, 8192),
        gated=spec.gated, tied=spec.tied, head_dim=spec.head_dim,
    )  # fmt: skip
