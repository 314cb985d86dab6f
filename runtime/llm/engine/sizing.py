"""How many KV blocks an engine gets by default: what the device has room for, within reason."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from ....errors import InputError
from ....profiles.llm.decoder import DecoderSpec
from .options import EngineConfig
from .weights import torch_dtype

__all__ = ["blocks_that_fit"]

CPU_BYTES = 2**30
"""KV cache of a process on a CPU, at most. A guess: the machine's memory is also others'."""
CPU_SEQUENCES = 64
"""Sequences of full length that a CPU's KV cache holds, at most."""
ACTIVATION_BYTES = 2 * 2**30
"""Left free on a GPU for activations, graphs and the libraries' workspaces. A round figure."""


def blocks_that_fit(
    spec: DecoderSpec, options: EngineConfig, block_size: int, longest: int, utilization: float = 0.9
) -> int:
    """KV blocks of an engine.

    Parameters
    ----------
    spec : DecoderSpec
        The model.
    options : EngineConfig
        Where it runs.
    block_size, longest : int
        Tokens of a block, and of the longest sequence.
    utilization : float
        Share of a GPU's free memory that is taken, weights included. On a CPU: up to 1 GiB, or 64 sequences of full
        length if that is less.

    Returns
    -------
    int
        Blocks, one sequence of full length at least on a CPU.

    Raises
    ------
    InputError
        If a GPU has no room.
    """
    width = torch_dtype(options.dtype).itemsize
    share = max(1, spec.kv_heads // options.tp) / spec.kv_heads / options.cp
    block_bytes = 2 * spec.layers * spec.kv_heads * spec.head_dim * width * block_size * share
    whole = -(-longest // block_size)
    if not options.cuda:
        return max(whole, min(int(CPU_BYTES / block_bytes), CPU_SEQUENCES * whole)) + 1
    import torch

    free, _ = torch.cuda.mem_get_info(options.device_of(0))
    room = free * utilization - spec.weights * width / options.tp - ACTIVATION_BYTES
    if room < 2 * block_bytes:
        raise InputError(
            f"{spec.name}: weights of {spec.weights * width / options.tp / 2**30:.3g} GiB and 2 GiB of activations "
            f"leave no room for KV blocks in the {free / 2**30:.3g} GiB free; choose a smaller model or more tp"
        )
    return int(room / block_bytes)
