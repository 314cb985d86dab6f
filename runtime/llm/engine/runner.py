"""`Runner`: one process's share of the model with its KV cache; runs packed batches."""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ....errors import InputError
from ....kernels.llm import kernels_for
from ....profiles.llm.decoder import DecoderSpec
from .batch import Batch, PackedBatch
from .cache import KVCache
from .freed_memory import keep_freed_memory
from .model import Decoder, PagedAttention
from .options import EngineConfig
from .weights import Part, check_dense, draw_weights, torch_dtype

if TYPE_CHECKING:
    from .processes.groups import Groups

__all__ = ["Memory", "Runner"]


@dataclass(frozen=True, slots=True)
class Memory:
    """The KV memory that a policy manages.

    Parameters
    ----------
    blocks, host_blocks : int
        On the device, and to swap to.
    block_size : int
        Tokens in a block.
    longest : int
        Tokens of the longest sequence.
    """

    blocks: int
    host_blocks: int
    block_size: int
    longest: int


class Runner:
    """The model of one process.

    Parameters
    ----------
    spec : DecoderSpec
        Its shape.
    memory : Memory
        The KV cache.
    options : EngineConfig
        Where and how.
    rank : int
        Which process.
    groups : Groups, optional
        The other processes, where there are any.

    Raises
    ------
    InputError
        If the model cannot be split or run so.
    """

    def __init__(
        self, spec: DecoderSpec, memory: Memory, options: EngineConfig, rank: int = 0, groups: Groups | None = None
    ) -> None:
        check_shape(spec, memory, options)
        self.spec, self.memory, self.options = spec, memory, options
        self.device = torch.device(options.device_of(rank))
        if options.cuda:
            torch.cuda.set_device(self.device)
        else:
            keep_freed_memory()
            if options.threads is not None:
                torch.set_num_threads(options.threads)
        part = Part(rank % options.tp, options.tp)
        self.kernels = kernels_for(options.device, options.backend)
        try:
            self.weights = draw_weights(spec, seed=options.seed, dtype=options.dtype, device=self.device, part=part)
        except torch.OutOfMemoryError:
            need = spec.weights * torch.empty(0, dtype=torch_dtype(options.dtype)).element_size() / options.tp
            raise InputError(
                f"{spec.name}: weights of {need / 2**30:.3g} GiB do not fit {self.device}; choose a smaller model, a "
                "smaller dtype or more tp"
            ) from None
        self.cache = KVCache(
            spec.layers, memory.blocks, memory.block_size // options.cp, part.kv_heads(spec), spec.head_dim,
            host_blocks=memory.host_blocks, dtype=torch_dtype(options.dtype), device=self.device,
        )  # fmt: skip
        scale = spec.head_dim**-0.5
        self.attention = PagedAttention(self.kernels, scale)
        if groups is None:
            self.decoder = Decoder(self.weights, self.attention, memory.longest)
        else:
            self.decoder = groups.decoder(self.weights, self.kernels, scale, memory)
        self.graphs = None
        if options.cuda and options.cuda_graphs and options.world == 1:
            from .graphs import DecodeGraphs

            self.graphs = DecodeGraphs(self.decoder, self.cache, memory, options.graph_sequences)

    def run(self, packed: PackedBatch) -> Tensor | None:
        """Move and copy blocks, then compute; logits of the rows asked for, or None where nothing is computed."""
        layout = packed.layout
        batch = packed.on(self.device)
        if layout.swap_in or layout.swap_out or layout.copies:
            self.move(batch)
        if not layout.tokens:
            return None
        if self.graphs is not None and not layout.chunks and self.graphs.takes(layout):
            return self.graphs.run(batch)
        return self.decoder.logits(batch, self.cache)

    @torch.inference_mode()
    def move(self, batch: Batch) -> None:
        """Blocks go to the host, come back, and are copied, in this order: what leaves makes room for what comes."""
        if batch.layout.swap_out:
            self.cache.swap_out(batch.swap_out)
        if batch.layout.swap_in:
            self.cache.swap_in(batch.swap_in)
        if batch.layout.copies:
            self.cache.copy(batch.copies, self.kernels)


def check_shape(spec: DecoderSpec, memory: Memory, options: EngineConfig) -> None:
    """See that the model can be run so, before anything is built.

    Raises
    ------
    InputError
        If not.
    """
    check_dense(spec)
    Part(0, options.tp).check(spec)
    if memory.block_size % options.cp:
        raise InputError(f"cp {options.cp}: does not divide block_size {memory.block_size}; choose a multiple of cp")
    if not options.cuda and hasattr(os, "sysconf"):
        width, have = torch_dtype(options.dtype).itemsize, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        tokens = (memory.blocks + memory.host_blocks) * memory.block_size
        need = (spec.weights + 2 * tokens * spec.layers * spec.kv_heads * spec.head_dim) * width
        if need > have:
            raise InputError(
                f"{spec.name}: weights and KV blocks of {need / 2**30:.3g} GiB do not fit this machine's "
                f"{have / 2**30:.3g} GiB; choose a smaller model, a smaller dtype or fewer blocks"
            )
    if memory.longest > spec.max_positions:
        raise InputError(
            f"max_model_len {memory.longest}: {spec.name} has {spec.max_positions} positions; lower max_model_len"
        )
    spec.check_length(memory.longest, "max_model_len")
    if not spec.learned_positions and spec.head_dim % 2:
        raise InputError(f"{spec.name}: rotary positions need an even head_dim (got {spec.head_dim})")
