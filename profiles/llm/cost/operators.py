"""Kernels of any decoder from tables by operator, or from the roofline alone where there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...hardware import LinkSpec
from ..decoder import DecoderSpec
from ..parallel.collectives import Collective
from ..parallel.engine_reduce import NCCL_BYTES, engine_all_reduce, priced
from ..parallel.layer import Widths, collectives
from ..parallel.layout import Parallel
from ..tables.grid import EXTRAPOLATED, Grid
from ..tables.kernels import Operators, Peaks
from ..tables.operators import GEMM_BYTES, gemm_ideal
from ..tables.outliers import outlier_lines, set_aside
from .attention import Heads, Tables, decode_surface, nearest_tables, prefill_surface
from .kinds.experts import ALONE, ROUTING_KERNELS, Spread, expert_seconds, measured_experts
from .kinds.latent import latent_decode, latent_prefill, projections
from .kinds.windows import windowed
from .overheads import Overheads
from .parts import Parts, Surface

__all__ = ["OperatorKernels"]

Floats = NDArray[np.float64]
GEMM_SHARES, GEMM_SHARES_16 = (0.7, 0.7), (0.85, 0.8)
"""Shares of the peak of products and of bandwidth that the roofline alone assumes; the second in 16 bits. Rounded from
the tables of H100s and A100s for the shapes of Llama-3.1-8B and 70B (products 0.87 and 0.87, bandwidth 0.87 and 0.7; in
fp8 0.69 and 0.75 on H100s); those of H200s, seen but not rounded from, reach 0.83 and 0.82."""
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
    spread : Spread
        How experts and requests are spread over ranks.
    layout : Parallel, optional
        How sequences are sharded (`cp`, its exchange); not at all if left out.
    """

    model: DecoderSpec
    peaks: Peaks
    operators: Operators
    tp: int
    pp: int
    gemm: str
    kv: str
    overheads: Overheads
    spread: Spread = ALONE
    layout: Parallel | None = None

    @property
    def kv_heads(self) -> int:
        """KV heads of one rank; repeated where the degree is above their number."""
        return max(1, self.model.kv_heads // self.tp)

    @property
    def launches(self) -> int:
        """Kernels of one iteration: GEMMs, attention, KV write, elementwise ones, all-reduces, head and sampling."""
        layer = (9 if self.model.kv_rank else 6) + len(self._elementwise()) + (2 if self.tp > 1 else 0)
        shards = 0 if self.layout is None else self.model.layers * len(self.exchanges(1))
        return self.model.layers * layer + self.model.moe_layers * ROUTING_KERNELS + shards + SAMPLER_KERNELS + 4

    def dense(self, tokens: Floats) -> list[Parts]:
        """GEMMs of the layers, elementwise kernels, all-reduces, embedding, and sends between stages."""
        model, tp, layers = self.model, self.tp, self.model.layers
        plain, moe = layers - model.moe_layers, model.moe_layers
        shared, wide = (1, tp) if self.layout is None else (self.layout.cp if self.layout.spread else 1, self._wide)
        run = self.overheads.padded_each(-(-tokens.astype(np.int64) // shared))
        q, kv = model.heads * model.head_dim // tp, self.kv_heads * model.head_dim
        parts = [self._gemm(name, run, n, k) for name, n, k in projections(model, tp)] if model.kv_rank else [
            self._gemm("QKV projection", run, q + 2 * kv, model.hidden),
            self._gemm("output projection", run, model.hidden, model.heads * model.head_dim // wide),
        ]  # fmt: skip
        for name, inner, count in (("", model.ffn, plain), ("shared experts' ", model.shared_ffn, moe)):
            if inner and count:
                up = f"{name}gate and up projection" if model.gated else f"{name}up projection"
                parts.append(self._gemm(up, run, (1 + model.gated) * inner / wide, model.hidden, layers=count))
                parts.append(self._gemm(f"{name}down projection", run, model.hidden, inner / wide, layers=count))
        if moe:
            parts.append(self._gemm("router", run, model.experts, model.hidden, "bfloat16", layers=moe))
        if model.joins:  # whole on every rank, in 16 bits
            parts.append(self._gemm("joining projection", run, model.hidden, 2 * model.hidden, "bfloat16", layers=1))
        for name, moved, count in self._elementwise():
            parts.append(self._moved(name, run * moved, count))
        parts.append(self._moved("embedding", run * 4 * model.hidden, 1))
        if wide > 1:
            parts.append(self._all_reduce("all-reduces", run * model.hidden * 2, 2 * layers + 1, wide))
        if self.layout is not None:
            parts += self._exchanged(np.asarray(tokens, dtype=float))
        if self.pp > 1:
            near = tp * self.pp <= self.peaks.devices_per_node
            rate = self.peaks.link_bytes_per_s if near else self.peaks.far_bytes_per_s
            seconds = (self.pp - 1) * (self.peaks.link_latency_s + run * model.hidden * 2 / tp / rate)
            parts.append(Parts("sends between stages", seconds, np.full(len(run), EXTRAPOLATED)))
        return parts

    def experts(self, tokens: Floats) -> list[Parts]:
        """Experts for the tokens of all ranks; sending them there and back."""
        if not self.model.moe_layers:
            return []
        found = expert_seconds(self.model, self.spread, tokens, self.operators, self.peaks, self.gemm)
        near = self.tp * self.spread.dp <= self.peaks.devices_per_node
        rate = self.peaks.link_bytes_per_s * self.peaks.efficiency if near else self.peaks.far_bytes_per_s
        # Sent as the experts take them: in 8 bits with a scale of four bytes for 128 numbers.
        number = 1 + 4 / 128 if self.gemm.startswith("fp8") else 2.0
        return [found, *self.spread.exchanges(self.model, tokens, self.peaks.link_latency_s, rate, number)]

    def fallbacks(self) -> list[str]:
        """What was not measured in this precision or width, and what stands for it, one line each."""
        found = [f"note: {line}" for line in outlier_lines(set_aside(self.grids()))]
        if self.operators.gemm and self.gemm not in self.operators.gemm:
            found.append(f"note: no GEMMs in {self.gemm}: those in bf16, scaled by the roofline of both")
        if self.operators.decode and not any(key[0] == self.kv for key in self.operators.decode):
            found.append(f"note: no attention with a KV cache in {self.kv}: other tables, scaled by bytes")
        if self.model.moe_layers and measured_experts(self.model, self.spread, self.operators, self.gemm) is None:
            found.append(f"note: experts of {self.model.name}: not measured, by the roofline")
        if self.model.kv_rank and self.operators.decode:
            found.append(f"note: latent attention of {self.model.name}: not measured, by the roofline")
        return found

    def grids(self) -> dict[str, Grid]:
        """The grids that are read for this model."""
        tables, gemm = self.operators, {self.gemm, "bfloat16"}
        found = {f"gemm {name}": grid for name, grid in tables.gemm.items() if name in gemm}
        for name, wanted in (("prefill", tables.prefill), ("decode", tables.decode)):
            near = nearest_tables(wanted, self._heads) or {}
            found |= {f"{name} {'/'.join(map(str, key))}": grid for key, grid in near.items()}
        found |= {f"all_reduce {way}/{n}": grid for (way, n), grid in tables.all_reduce.items() if n == self.tp}
        experts = measured_experts(self.model, self.spread, tables, self.gemm) if self.model.moe_layers else None
        return found if experts is None else found | {"experts": experts}

    def exchanges(self, batch: float) -> tuple[Collective, ...]:
        """Collectives of one layer between the shards of sequences, all-reduces left out (`parallel.collectives`)."""
        if self.layout is None:
            return ()
        size = 1.0 if self.kv == "fp8" else 2.0
        found = collectives(self.model, batch, self.layout, Widths(kv=size))
        return tuple(c for c in found if c.kind != "all-reduce")

    def head(self, outputs: Floats) -> list[Parts]:
        """Final norm, output head, gathering the logits, sampling."""
        model, tp = self.model, self.tp
        some = outputs > 0
        run = np.maximum(outputs, 1)
        found = [
            self._gemm("output head", run, model.vocab / tp, model.hidden, "bfloat16", layers=1),
            # fp32 logits, read twice: for the largest and for the sum
            self._moved("sampling", run * model.vocab * 8, 1, SAMPLER_KERNELS),
        ]
        if tp > 1:
            seconds = self.peaks.link_latency_s + run * model.vocab * 2 * (tp - 1) / tp / self.peaks.link_bytes_per_s
            found.append(Parts("gathering the logits", seconds, np.full(len(run), EXTRAPOLATED)))
        return [Parts(p.name, np.where(some, p.seconds, 0.0), p.kind) for p in found]

    def decode(self) -> Surface:
        """Attention of decodes; of the shard of each sequence that a rank has, over the whole sequence's length."""
        heads, latent = self._heads, None
        if self.model.kv_rank:
            latent = latent_decode(self.model, self.tp, self.peaks, heads.kv_bytes)
        found = windowed(decode_surface({} if latent else self.operators.decode, heads, self.peaks, latent), self.model)
        if self.layout is None:
            return found
        return Surface(found.x, found.y * self.layout.cp, found.seconds, found.kind)

    def prefill(self) -> Surface:
        """Attention of equal prompts without context; shards outside the tensor-parallel group share it."""
        if self.layout is None or self.layout.inside:
            latent = latent_prefill(self.model, self.tp, self.peaks) if self.model.kv_rank else None
            tables: Tables = {} if latent else self.operators.prefill
            return windowed(prefill_surface(tables, self._prompt_heads, self.peaks, latent), self.model, areas=True)
        found = prefill_surface(self.operators.prefill, self._heads, self.peaks)
        return Surface(found.x, found.y, found.seconds / self.layout.cp, found.kind)

    def mixed(self) -> Grid | None:
        """None: this format has no such measurements, so attention of chunks and of decodes are added up."""
        return None

    def _elementwise(self) -> list[tuple[str, float, int]]:
        """The bandwidth-bound kernels: name, bytes that each moves per token, and number of layers that have it."""
        model, tp, layers = self.model, self.tp, self.model.layers
        q, kv, hidden = model.heads * model.head_dim / tp, model.kv_numbers(tp) / 2, model.hidden
        # Bytes a token, 16 bits each: read one or two halves of the up projection, write one.
        act = 2 * model.ffn / tp * (2 + model.gated)
        norm = 4 * hidden * 2  # input and residual, each read and written
        found = [
            ("norm before attention", norm, layers),
            ("rotation" if not model.learned_positions else "positions", 4 * (q + kv), layers),
            ("KV write", 8 * kv, layers),
            ("norm before feed-forward", norm, layers),
        ]
        if layers > model.moe_layers:
            found.append(("activation", act, layers - model.moe_layers))
        if self._quantised and self.overheads.fused:
            # 16 bits read, 8 bits written
            found.append(("quantisation of attention's output", 3 * q, layers))
        return found

    @property
    def _heads(self) -> Heads:
        groups = self.tp if self.layout is None else self.layout.head_groups
        return Heads(self.model.layers, self.model.heads // groups, self.kv_heads, self.model.head_dim, self.kv)

    @property
    def _prompt_heads(self) -> Heads:
        """Heads of one rank in a prompt's attention: never sharded along the sequence within a group."""
        return Heads(self.model.layers, self.model.heads // self.tp, self.kv_heads, self.model.head_dim, self.kv)

    @property
    def _wide(self) -> int:
        return self.tp if self.layout is None else self.layout.matrix_tp

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
            shares = GEMM_SHARES_16 if GEMM_BYTES.get(dtype, 1.0) == 2 else GEMM_SHARES
            seconds = gemm_ideal(self.peaks, dtype, *shares)(m, n, k) + self.peaks.kernel_s
            kind = np.full(len(m), EXTRAPOLATED)
        return Parts(name, count * np.asarray(seconds, dtype=float), kind)

    def _moved(self, name: str, moved: Floats, layers: int, kernels: int = 1) -> Parts:
        seconds = kernels * self.peaks.kernel_s + moved / (self.peaks.bandwidth_bytes_per_s * self.peaks.efficiency)
        return Parts(name, layers * seconds, np.full(len(moved), EXTRAPOLATED))

    def _exchanged(self, tokens: Floats) -> list[Parts]:
        """What the shards of a sequence send each other; volumes grow in proportion to the batch's tokens."""
        assert self.layout is not None
        near = self.layout.stage_devices <= self.peaks.devices_per_node
        rate = self.peaks.link_bytes_per_s * self.peaks.efficiency if near else self.peaks.far_bytes_per_s
        return [
            Parts(
                f"exchange of {each.name}",
                self.model.layers * (each.steps * self.peaks.link_latency_s + each.sent_bytes * tokens / rate),
                np.full(len(tokens), EXTRAPOLATED),
            )
            for each in self.exchanges(1)
        ]

    def _all_reduce(self, name: str, moved: Floats, count: int, group: int) -> Parts:
        # Without graphs the kernel is the same; its launch is counted with the others'.
        tables = self.operators.all_reduce
        own, nccl = tables.get(("graph", group)), tables.get(("nccl", group))
        small, large = own or nccl, nccl or own
        if small is not None and large is not None:
            (low, basis), (high, bulk) = small.at(moved), large.at(moved)
            own_way = moved < NCCL_BYTES
            return Parts(name, count * np.where(own_way, low, high), np.where(own_way, basis, bulk))
        near = group <= self.peaks.devices_per_node
        if near and priced(LinkSpec(self.peaks.link_bytes_per_s, self.peaks.link_latency_s)):
            seconds = engine_all_reduce(moved, group, self.peaks.link_bytes_per_s)
            return Parts(name, count * seconds, np.full(len(moved), EXTRAPOLATED))
        share = 2 * (group - 1) / group
        rate = self.peaks.link_bytes_per_s if near else self.peaks.far_bytes_per_s
        seconds = self.peaks.link_latency_s + share * moved / (rate * self.peaks.efficiency)
        return Parts(name, count * seconds, np.full(len(moved), EXTRAPOLATED))
