"""Decode steps as CUDA graphs: captured once for each padded batch size, replayed with new inputs.

A step of one token per sequence launches hundreds of small kernels; a graph launches them as one. Sizes are those that
`Overheads.padded` charges for. What pads a batch writes nowhere (slot −1) and reads one token of block 0.
"""

from __future__ import annotations

# torch is typed in part.
# pyright: standard
from dataclasses import dataclass

import torch
from torch import Tensor

from ....profiles.llm.cost.overheads import Overheads
from .batch import Batch, Layout
from .cache import KVCache
from .model import Decoder
from .runner import Memory

__all__ = ["DecodeGraphs"]


@dataclass(frozen=True, slots=True, eq=False)
class _Captured:
    """A graph and the buffers that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    logits: Tensor


class DecodeGraphs:
    """Graphs of one decoder, captured when a size is first met; all share one memory pool.

    Parameters
    ----------
    decoder, cache : Decoder, KVCache
        What runs.
    memory : Memory
        How wide block tables may be.
    sequences : int
        Largest batch that is captured; larger ones run eagerly.
    """

    def __init__(self, decoder: Decoder, cache: KVCache, memory: Memory, sequences: int) -> None:
        self.decoder, self.cache = decoder, cache
        self.width = -(-memory.longest // memory.block_size)
        self.sizes = Overheads(graph_tokens=sequences)
        self._captured: dict[int, _Captured] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def takes(self, layout: Layout) -> bool:
        """Whether a batch can run as a graph: decodes only, of which every one is sampled."""
        return not layout.chunks and 0 < layout.decodes <= self.sizes.graph_tokens and layout.samples == layout.decodes

    @torch.inference_mode()
    def run(self, batch: Batch) -> Tensor:
        """Logits of a batch, shape (decodes, vocab); valid until the next batch runs."""
        n, width = batch.layout.decodes, batch.layout.width
        captured = self._captured.get(self.sizes.padded(n))
        if captured is None:
            captured = self._capture(self.sizes.padded(n))
        into = captured.batch
        into.slots.fill_(-1)
        into.contexts.fill_(1)
        into.tables[n:].zero_()
        into.tables[:n, :width].copy_(batch.tables)
        for name in ("tokens", "positions", "slots", "contexts"):
            getattr(into, name)[:n].copy_(getattr(batch, name))
        captured.graph.replay()
        return captured.logits[:n]

    def _capture(self, size: int) -> _Captured:
        """Run a batch of padding once to warm up, then record it."""
        device, none = self.cache.device, Layout()
        long = {"dtype": torch.int64, "device": device}
        short = {"dtype": torch.int32, "device": device}
        batch = Batch(
            Layout(tokens=size, decodes=size, width=self.width, samples=size),
            tokens=torch.zeros(size, **long),
            positions=torch.zeros(size, **long),
            slots=torch.full((size,), -1, **long),
            contexts=torch.ones(size, **short),
            starts=torch.zeros(1, **short),
            rows=torch.arange(size, **long),
            tables=torch.zeros(size, self.width, **short),
            **{name: torch.zeros(getattr(none, name), 2, **long) for name in ("swap_out", "swap_in", "copies")},
        )
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # libraries allocate workspaces and choose kernels, which a capture must not
                self.decoder.logits(batch, self.cache)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            logits = self.decoder.logits(batch, self.cache)
        captured = self._captured[size] = _Captured(graph, batch, logits)
        return captured
