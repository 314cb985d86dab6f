"""Names of precisions: what benchmarks and engines call them, and what the cost model calls them."""

from __future__ import annotations

from ....errors import InputError
from ....profiles.llm.decoder_names import precision_in

__all__ = ["KV", "PRECISIONS", "WEIGHTS", "kv_named", "named", "precision_named"]

PRECISIONS = {
    "": "bf16",
    "none": "bf16",
    "auto": "bf16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp8": "fp8",
    "fp8_static": "fp8",
    "fp8_ootb": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "w8a8_fp8": "fp8",
    "modelopt": "fp8",
    "fbgemm_fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "w4a16": "int4_wo",
    "int4": "int4_wo",
    "int4_wo": "int4_wo",
    "awq": "int4_wo",
    "awq_marlin": "int4_wo",
    "gptq": "int4_wo",
    "gptq_marlin": "int4_wo",
    "bitsandbytes": "int4_wo",
    "mxfp4": "int4_wo",
    "w4a16_mxfp4": "int4_wo",
    "w8a16": "int8_wo",
    "int8_wo": "int8_wo",
}
"""Word -> name of the cost model's GEMMs. Weights of four bits whose products are of 16 bits are all one sort here."""

WEIGHTS = {
    "bf16": "bfloat16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int4_wo": "int4",
    "int8_wo": "int8",
}
"""Name of the GEMMs -> how weights are stored (`profiles.llm.decoder.weight_bytes`)."""

KV = {
    **dict.fromkeys(("", "auto", "bf16", "bfloat16", "fp16", "float16", "half"), "bf16"),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "int8"), "fp8"),
}
"""Word for the KV cache -> bf16 or fp8 (one byte)."""


def precision_named(word: str) -> str:
    """The cost model's name of a precision.

    Raises
    ------
    InputError
        On an unknown word.
    """
    said = word.strip().lower().replace("-", "_")
    if said not in PRECISIONS:
        known = ", ".join(name for name in PRECISIONS if name)
        raise InputError(f"precision: unknown precision {word!r}; expected one of {known}, or nothing for bf16")
    return PRECISIONS[said]


def kv_named(word: str) -> str:
    """Precision of a KV cache: ``bf16`` or ``fp8``.

    Raises
    ------
    InputError
        On an unknown word.
    """
    said = word.strip().lower().replace("-", "_")
    if said not in KV:
        raise InputError(f"KV cache: unknown precision {word!r}; expected one of {', '.join(n for n in KV if n)}")
    return KV[said]


def named(model: str) -> str:
    """The precision that a model's name tells of, bf16 if none."""
    return precision_in(model)
