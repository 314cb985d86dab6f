"""Kernels of any dense decoder from tables by operator, or from the roofline alone where there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cost_attention import Heads, decode_surface, prefill_surface
from .cost_overheads import Overheads
from .cost_parts import Parts, Surface
from .decoder import DecoderSpec
from .tables import Operators, Peaks
from .tables_grid import EXTRAPOLATED, Grid
from .tables_operators import gemm_ideal

__all__ = ["OperatorKernels"]

Floats = NDArray[np.float64]
GEMM_EFFICIENCY = 0.7
"""Share of the peak that the roofline alone assumes: what H100 tables reach at 4096 tokens."""
CUSTOM_BYTES = 8 * 2**20
"""From this message on, vLLM's own all-reduce leaves the work to NCCL's; its tables jump there."""
SAMPLER_KERNELS = 8
"""Small kernels of sampling: softmax or argmax, penalties, gathers (vLLM's sampler; 25 us measured at one sequence)."""


@dataclass(frozen=True, slots=True)
class OperatorKernels:
    """One rank's kernels of a model (all layers together) under tensor and pipeline parallelism.

    Parameters
    ----------
    model, peaks, operators
        The model, the device's roofline, its tables.
    tp, pp : int
        Degrees of tensor and pipeline parallelism.
    gemm : str
        Name of the GEMM table: ``bfloat16``, ``fp8``, ``fp8_block``, ….
    kv : str
        Name of the KV cache's precision in the tables: ``bfloat16``, ``fp8``.
    overheads : Overheads
        Decides padding, and whether quantisation is fused.
    """

    model: DecoderSpec
    peaks: Peaks
    operators: Operators
    tp: int
    pp: int
    gemm: str
    kv: str
    overheads: Overheads

    @property
    def kv_heads(self) -> int:
        """KV heads of one rank; repeated where the degree is above their number."""
        return max(1, self.model.kv_heads // self.tp)

    @property
    def launches(self) -> int:
        """Kernels of one iteration: GEMMs, attention, KV write, elementwise ones, all-reduces, head and sampling."""
        layer = 6 + len(self._elementwise()) + (2 if self.tp > 1 else 0)
        return self.model.layers * layer + SAMPLER_KERNELS + 4

    def dense(self, tokens: Floats) -> list[Parts]:
        """GEMMs of the layers, elementwise kernels, all-reduces, embedding, and sends between stages."""
        model, tp, layers = self.model, self.tp, self.model.layers
        run = np.array([self.overheads.padded(int(t)) for t in tokens], dtype=float)
        q, kv = model.heads * model.head_dim // tp, self.kv_heads * model.head_dim
        ffn = model.ffn / tp
        parts = [
            self._gemm("QKV projection", run, q + 2 * kv, model.hidden),
            self._gemm("output projection", run, model.hidden, q),
            self._gemm(
                "gate and up projection" if model.gated else "up projection", run, (1 + model.gated) * ffn, model.hidden
            ),
            self._gemm("down projection", run, model.hidden, ffn),
        ]
        for name, moved in self._elementwise():
            parts.append(self._moved(name, run * moved, layers))
        parts.append(self._moved("embedding", run * 4 * model.hidden, 1))
        if tp > 1:
            parts.append(self._all_reduce("all-reduces", run * model.hidden * 2, 2 * layers + 1))
        if self.pp > 1:
            near = tp * self.pp <= self.peaks.devices_per_node
            rate = self.peaks.link_bytes_per_s if near else self.peaks.far_bytes_per_s
            seconds = (self.pp - 1) * (self.peaks.link_latency_s + run * model.hidden * 2 / tp / rate)
            parts.append(Parts("sends between stages", seconds, np.full(len(run), EXTRAPOLATED)))
        return parts

    def head(self, outputs: Floats) -> list[Parts]:
        """Final norm, output head, gathering the logits, sampling."""
        model, tp = self.model, self.tp
        some = outputs > 0
        run = np.maximum(outputs, 1)
        found = [
            self._gemm("output head", run, model.vocab / tp, model.hidden, "bfloat16", layers=1),
            self._moved("sampling", run * model.vocab * 8, 1, SAMPLER_KERNELS),
        ]
        if tp > 1:
            seconds = self.peaks.link_latency_s + run * model.vocab * 2 * (tp - 1) / tp / self.peaks.link_bytes_per_s
            found.append(Parts("gathering the logits", seconds, np.full(len(run), EXTRAPOLATED)))
        return [Parts(p.name, np.where(some, p.seconds, 0.0), p.kind) for p in found]

    def decode(self) -> Surface:
        """Attention of decodes."""
        return decode_surface(self.operators.decode, self._heads, self.peaks)

    def prefill(self) -> Surface:
        """Attention of equal prompts without context."""
        return prefill_surface(self.operators.prefill, self._heads, self.peaks)

    def mixed(self) -> Grid | None:
        """Not measured in this format: attention of chunks and of decodes are added."""
        return None

    def _elementwise(self) -> list[tuple[str, float]]:
        """Bandwidth-bound kernels of a layer and the bytes that each moves per token."""
        model, tp = self.model, self.tp
        q, kv, hidden = model.heads * model.head_dim / tp, self.kv_heads * model.head_dim, model.hidden
        act = 2 * model.ffn / tp * (2 + model.gated)
        norm = 4 * hidden * 2
        found = [
            ("norm before attention", norm),
            ("rotation" if not model.learned_positions else "positions", 4 * (q + kv)),
            ("KV write", 8 * kv),
            ("norm before feed-forward", norm),
            ("activation", act),
        ]
        if self._quantised and self.overheads.fused:
            found.append(("quantisation of attention's output", 3 * q))
        return found

    @property
    def _heads(self) -> Heads:
        return Heads(self.model.layers, self.model.heads // self.tp, self.kv_heads, self.model.head_dim, self.kv)

    @property
    def _quantised(self) -> bool:
        return self.gemm in self.operators.quantise

    def _gemm(
        self, name: str, m: Floats, n: float, k: float, dtype: str | None = None, *, layers: int | None = None
    ) -> Parts:
        dtype = dtype or self.gemm
        count = self.model.layers if layers is None else layers
        table = self.operators.gemm.get(dtype)
        ideal = gemm_ideal(self.peaks, dtype)
        if table is not None:
            seconds, kind = table.at(m, n, k)
            if self.overheads.fused and dtype in self.operators.quantise:
                launch, each = self.operators.quantise[dtype]
                seconds = np.maximum(seconds - launch - each * m * k, ideal(m, n, k))
        elif "bfloat16" in self.operators.gemm:
            seconds, _ = self.operators.gemm["bfloat16"].at(m, n, k)
            seconds = seconds * ideal(m, n, k) / gemm_ideal(self.peaks, "bfloat16")(m, n, k)
            kind = np.full(len(m), EXTRAPOLATED)
        else:
            seconds = ideal(m, n, k) / GEMM_EFFICIENCY + self.peaks.kernel_s
            kind = np.full(len(m), EXTRAPOLATED)
        return Parts(name, count * np.asarray(seconds, dtype=float), kind)

    def _moved(self, name: str, moved: Floats, layers: int, kernels: int = 1) -> Parts:
        seconds = kernels * self.peaks.kernel_s + moved / (self.peaks.bandwidth_bytes_per_s * self.peaks.efficiency)
        return Parts(name, layers * seconds, np.full(len(moved), EXTRAPOLATED))

    def _all_reduce(self, name: str, moved: Floats, count: int) -> Parts:
        # Without graphs the kernel is the same; its launch is counted with the others'.
        tables = self.operators.all_reduce
        own, nccl = tables.get(("graph", self.tp)), tables.get(("nccl", self.tp))
        small, large = own or nccl, nccl or own
        if small is not None and large is not None:
            (low, basis), (high, bulk) = small.at(moved), large.at(moved)
            own_way = moved < CUSTOM_BYTES
            return Parts(name, count * np.where(own_way, low, high), np.where(own_way, basis, bulk))
        share = 2 * (self.tp - 1) / self.tp
        near = self.tp <= self.peaks.devices_per_node
        rate = self.peaks.link_bytes_per_s if near else self.peaks.far_bytes_per_s
        seconds = self.peaks.link_latency_s + share * moved / (rate * self.peaks.efficiency)
        return Parts(name, count * seconds, np.full(len(moved), EXTRAPOLATED))
