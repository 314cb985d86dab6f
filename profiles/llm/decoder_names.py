"""Names that models go by: the same shape is published tuned, quantised and under other spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...errors import InputError

if TYPE_CHECKING:
    from .decoder import DecoderSpec

__all__ = ["check_precision_said", "precision_in", "shape_named"]

PRECISIONS = (
    (r"nvfp4|fp4", "nvfp4"),
    (r"w4a16|awq|gptq|int4|4bit", "int4_wo"),
    (r"w8a16", "int8_wo"),
    (r"fp8[-_]block", "fp8_block"),
    (r"fp8|w8a8", "fp8"),
)
"""What model names say of their weights -> the cost model's name."""

TUNED = (
    r"instruct(\d+)?|chat|hf|it|base|thinking(\d+)?|pt|dpo|sft|preview|"
    r"fp8|fp4|nvfp4|bf16|fp16|int4|int8|awq|gptq|autoawq|dynamic|block|kv|static|marlin|4bit|8bit|"
    r"quantized|w4a16|w8a8|w8a16|w4a4|g128|quantization|\d{4}"
)
"""Last words of a name that leave its shape alone."""

SAME = (
    (r"^deepseek-?r1-?distill-?llama-?", "llama-3.1-"),
    (r"^deepseek-?r1-?distill-?qwen-?", "qwen2.5-"),
    (r"^llama2_", "llama-2-"),
    (r"^qwq-32b", "qwen2.5-32b"),
    (r"^qwen2(\.5)?-coder-", "qwen2.5-"),
    (r"^qwen2-(7b|72b)", r"qwen2.5-\1"),
    (r"^llama-?3\.3-", "llama-3.1-"),
    (r"^llama-3-(8b|70b)", r"meta-llama-3-\1"),
    (r"^moe[-_]mixtral", "mixtral-"),
    (r"^mistral-7b-instruct-v0.3", "mistral-7b-v0.3"),
    (r"-instruct-(v0\.\d)", r"-\1"),
)
"""Beginnings of names of one shape: distilled, specialised or later tuned from it."""


def shape_named(name: str, shapes: Mapping[str, DecoderSpec]) -> DecoderSpec | None:
    """The shape of a published model: by its name, or by that name without words on tuning and quantisation.

    Parameters
    ----------
    name : str
        The model's name without its owner.
    shapes : mapping
        Name -> shape.
    """
    exact = {known.lower(): spec for known, spec in shapes.items()}
    if name.lower() in exact:
        return exact[name.lower()]
    by_key: dict[str, DecoderSpec] = {}
    for known, spec in shapes.items():
        by_key.setdefault(_key(known), spec)
    for begin in (*_others(name.lower()), name.lower()):
        said = begin
        while said:
            found = exact.get(said) or by_key.get(_key(said)) or by_key.get(_key(said.removeprefix("meta-")))
            found = found or by_key.get(_key(f"meta-{said}")) or _active(said, by_key)
            if found is not None:
                return found
            shorter = re.sub(rf"[-_.](?:{TUNED})$", "", said)
            if shorter == said:
                break
            said = shorter
    return None


def precision_in(name: str) -> str:
    """The precision of weights that a model's name tells of; bf16 if none."""
    short = name.rpartition("/")[2].lower()
    for pattern, found in PRECISIONS:
        if re.search(rf"(^|[-_.]){pattern}($|[-_.])", short):
            return found
    return "bf16"


def check_precision_said(name: str, precision: object, how: str) -> None:
    """See that nobody plans 16-bit weights for a name that tells of others.

    Parameters
    ----------
    name : str
        The model's name.
    precision : object
        The precision that was asked for; None if none was.
    how : str
        How it is asked for, with ``{}`` for the precision.

    Raises
    ------
    InputError
        If the name tells of a precision and none was asked for.
    """
    told = precision_in(name)
    if told != "bf16" and precision is None and not name.endswith(".json"):
        raise InputError(
            f"model: {name!r} tells of weights in {told}, and no precision is given; say {how.format(told)} (and the "
            f"KV cache's, if it is not bf16), or {how.format('bf16')}"
        )


def _key(name: str) -> str:
    said = re.sub(r"(llama-?\d)_(\d)", r"\1.\2", re.sub(r"-v0\.\d$", "", name.lower()))
    return re.sub(r"[^a-z0-9.]", "", said)


def _others(name: str) -> list[str]:
    return [re.sub(pattern, by, name) for pattern, by in SAME if re.search(pattern, name)]


def _active(name: str, by_key: Mapping[str, DecoderSpec]) -> DecoderSpec | None:
    """A model of experts named without its active size: ``Qwen3-235B`` for ``Qwen3-235B-A22B``."""
    begin = _key(name)
    if not begin.endswith("b"):
        return None
    found = [spec for key, spec in by_key.items() if re.fullmatch(re.escape(begin) + r"a\d+b", key)]
    return found[0] if found else None
