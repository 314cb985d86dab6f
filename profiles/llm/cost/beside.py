"""Decodes that share one kernel call with a prompt's chunk, where the tables hold decodes alone.

vLLM calls FlashAttention once for all sequences of a step. Alone, decodes fold the heads of a group into rows of one
tile, and keys and values are read once. FlashAttention 2 does that only where no sequence has more than one new token
(``seqlenq_ngroups_swapped``); beside a chunk each head reads for itself, out of the L2 cache as long as the heads of a
group keep step. FlashAttention 3 (Hopper) folds in either case (``should_pack_gqa``); engines on B200s call
other kernels for prompts and for decodes.
"""

from __future__ import annotations

from ..decoder import DecoderSpec

__all__ = ["L2_RATE", "beside_chunks"]

L2_RATE = 2.8
"""How many times faster than memory the cache hands out what several heads read. From the one public table that has
both, an RTX PRO 6000's: beside a chunk its groups of four take 1.43 times the time of decodes alone (4, 16 and 64 of
them on 1,024 and 2,048 tokens; up to 3.8 times where the keys and values that are read at once exceed the cache, which
is left out here). Other devices: a guess."""
SECOND = ("A100", "A10", "A30", "A40", "A6000", "L4", "L40", "RTX")
"""Parts of the names of devices on which vLLM takes FlashAttention 2."""


def beside_chunks(model: DecoderSpec, device: str) -> float:
    """How many times their own time the attention of decodes takes beside a chunk.

    Parameters
    ----------
    model : DecoderSpec
        Says how many heads share keys and values.
    device : str
        Name of the device, or whatever contains it.
    """
    if model.kv_rank or not any(_named(name, device) for name in SECOND):
        return 1.0
    return max(1.0, model.heads / model.kv_heads / L2_RATE)


def _named(name: str, device: str) -> bool:
    """Whether a device's name contains one of these as a word, as "A100-SXM4" and "a100_sxm" do "A100"."""
    words = device.upper().replace("_", " ").replace("-", " ").split()
    return any(word == name or word == f"{name}S" for word in words)
