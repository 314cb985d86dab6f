"""`iteration_cost`: how long an LLM engine's iteration takes, from measured kernels, rooflines and host overheads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ..hardware import DeviceSpec, LinkSpec
from .cost_grid import CostGrid, attention_seconds, iteration_seconds
from .cost_layers import LayerKernels
from .cost_operators import OperatorKernels
from .cost_overheads import Overheads
from .cost_parts import Kernels, Part, Surface
from .decoder import DecoderSpec
from .iteration import Iteration
from .tables import KernelTables, Operators, Peaks
from .tables_grid import KINDS
from .tables_layers import check_layers

__all__ = ["TableCost", "iteration_cost"]

Counts = NDArray[np.int64]
PRECISIONS = {"bf16": "bfloat16", "fp16": "bfloat16", "bfloat16": "bfloat16", "float16": "bfloat16"} | {
    name: name for name in ("fp8", "fp8_block", "nvfp4", "int8_wo", "int4_wo")
}
"""What a precision is called here -> in the tables."""
PCIE = LinkSpec(64e9, 10e-6)
"""Taken for layers' tables, which say nothing of links: PCIe 5.0 x16, one direction."""


@dataclass(frozen=True, slots=True)
class TableCost:
    """Cost of an iteration of one model on one type of device; an `IterationCost`.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    tp, pp : int
        Degrees of parallelism.
    kernels : Kernels
        What gives the kernels' seconds.
    overheads : Overheads
        Host times.
    source : str
        What the figures rest on.
    """

    model: DecoderSpec
    tp: int
    pp: int
    kernels: Kernels
    overheads: Overheads
    source: str
    _grid: CostGrid = field(repr=False)
    _surfaces: tuple[Surface, Surface] = field(repr=False)

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration; under pipeline parallelism until its tokens leave the last stage."""
        new, before = _chunks(iteration.prefill)
        return float(
            iteration_seconds(self._grid, iteration.decodes, iteration.context, new, before, iteration.outputs)
        )

    def interval(self, iteration: Iteration) -> float:
        """Seconds until the next iteration may enter a pipeline: its slowest stage (the whole iteration if pp is 1)."""
        if self.pp == 1:
            return self.seconds(iteration)
        share = -(-self.model.layers // self.pp) / self.model.layers
        head = float(self._grid.head[min(iteration.outputs, len(self._grid.head) - 1)])
        return (self.seconds(iteration) - head) * share + head

    def explain(self, iteration: Iteration) -> tuple[Part, ...]:
        """Every part with its seconds and what they rest on; their sum is `seconds`."""
        new, before = _chunks(iteration.prefill)
        tokens, outputs, decodes = iteration.tokens, iteration.outputs, iteration.decodes
        if not tokens:
            return ()
        size, out = np.array([float(tokens)]), np.array([float(outputs)])
        parts = [p.part() for p in (*self.kernels.dense(size), *self.kernels.head(out)) if p.seconds[0] > 0]
        parts += self._attention(iteration, new, before)
        device = sum(p.seconds for p in parts)
        grid = self._grid
        launch = grid.host_eager_s
        if tokens <= grid.graph_tokens:
            launch = grid.host_pieces_s if len(new) else grid.host_decode_s
        host = grid.scheduler_s + grid.per_sequence_s * (decodes + len(new))
        wait = max(0.0, launch + host - device) if grid.overlapped else max(0.0, launch - device)
        parts.append(Part("device waits for launches", wait, "overhead"))
        if not grid.overlapped:
            parts.append(Part("scheduler", grid.scheduler_s, "overhead"))
            parts.append(Part("scheduler, per sequence", host - grid.scheduler_s, "overhead"))
        return tuple(parts)

    def report(self, iteration: Iteration) -> str:
        """`explain` as lines that a person reads, with the overheads and what the figures rest on."""
        parts = self.explain(iteration)
        lines = [f"{1e3 * part.seconds:10.3f} ms  {part.name}  ({part.basis})" for part in parts]
        total = f"{1e3 * sum(part.seconds for part in parts):10.3f} ms  together"
        return "\n".join((*lines, total, self.overheads.explain(), f"kernels: {self.source}"))

    def grid(self) -> CostGrid:
        """The same cost as arrays: `iteration_seconds(grid, …)` and its numba twin `compiled()` give `seconds`."""
        return self._grid

    def _attention(self, iteration: Iteration, new: Counts, before: Counts) -> list[Part]:
        decodes, context = iteration.decodes, iteration.context
        mixed = self.kernels.mixed()
        decode, prefill = self._surfaces
        if len(new) and mixed is not None:
            mean = context / decodes if decodes else 0.0
            kinds = [
                int(mixed.at(n, b, decodes, max(mean, mixed.axes[3][0]))[1]) for n, b in zip(new, before, strict=True)
            ]
            name = "attention of prefill and decodes" if decodes else "attention of prefill"
            return [Part(name, float(attention_seconds(self._grid, decodes, context, new, before)), KINDS[max(kinds)])]
        none = np.zeros(0)
        parts: list[Part] = []
        if len(new):
            seconds = float(attention_seconds(self._grid, 0, 0, new, before))
            whole = [(n + b) * (n + b + 1) / 2 for n, b in zip(new, before, strict=True)]
            kind = max(max(prefill.basis(len(new), w), int(b > 0)) for w, b in zip(whole, before, strict=True))
            parts.append(Part("attention of prefill", seconds, KINDS[kind]))
        if decodes:
            seconds = float(attention_seconds(self._grid, decodes, context, none, none))
            parts.append(Part("attention of decodes", seconds, KINDS[decode.basis(decodes, context / decodes)]))
        return parts


def _chunks(prefill: Sequence[tuple[int, int]]) -> tuple[Counts, Counts]:
    new = np.array([n for n, _ in prefill], dtype=np.int64)
    return new, np.array([b for _, b in prefill], dtype=np.int64)


def iteration_cost(
    model: DecoderSpec,
    system: KernelTables | DeviceSpec,
    *,
    tp: int = 1,
    pp: int = 1,
    precision: str = "bf16",
    kv: str = "",
    overheads: Overheads | None = None,
    link: LinkSpec | None = None,
    max_tokens: int = 16384,
    max_outputs: int = 1024,
) -> TableCost:
    """Build the cost of a model's iterations on a device.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    system : KernelTables or DeviceSpec
        Measured kernels; or a device, whose roofline then gives everything (and `explain` says so).
    tp, pp : int
        Degrees of tensor and pipeline parallelism.
    precision : str
        Of weights and products: ``bf16``, ``fp8``, ``fp8_block``, or another name of the GEMM tables.
    kv : str
        Of the KV cache: ``bf16`` or ``fp8``; bf16 if empty, as engines do with fp8 weights.
    overheads : Overheads, optional
        Host times of a step.
    link : LinkSpec, optional
        Link between devices, where tables by layer are used with `tp` or `pp` above 1; PCIe 5.0 x16 if absent.
    max_tokens, max_outputs : int
        Sizes up to which tables by tokens and outputs are laid out; beyond, they go on along their slope.

    Raises
    ------
    InputError
        On a degree that does not divide, an unknown precision, or tables of another model.
    """
    for name, value in (("tp", tp), ("pp", pp), ("max_tokens", max_tokens), ("max_outputs", max_outputs)):
        _whole(name, value)
    if model.heads % tp:
        raise InputError(f"tp: {tp} does not divide the {model.heads} heads of {model.name}")
    if pp > model.layers:
        raise InputError(f"pp: {pp} stages are more than the {model.layers} layers of {model.name}")
    if precision not in PRECISIONS:
        raise InputError(f"precision: expected one of {', '.join(PRECISIONS)} (got {precision!r})")
    if PRECISIONS.get(kv or "bf16") not in ("bfloat16", "fp8"):
        raise InputError(f"kv: expected bf16 or fp8 (got {kv!r})")
    overheads = overheads or Overheads()
    cache = PRECISIONS[kv or "bf16"]
    if isinstance(system, KernelTables) and system.layers is not None:
        peaks, where = check_layers(system, model, tp), link or PCIE
        kernels: Kernels = LayerKernels(
            model, peaks, system.layers, pp, overheads, where.bandwidth_bytes_per_s, where.latency_s
        )
        source = system.source
    else:
        tables = isinstance(system, KernelTables)
        peaks = system.peaks if isinstance(system, KernelTables) else Peaks.of(system)
        operators = (system.operators if isinstance(system, KernelTables) else None) or Operators()
        kernels = OperatorKernels(model, peaks, operators, tp, pp, PRECISIONS[precision], cache, overheads)
        source = system.source if tables else f"roofline of {peaks.name}, nothing measured: {system.source}"
    grid, surfaces = _lay_out(kernels, overheads, model.layers, max_tokens, max_outputs)
    if isinstance(system, KernelTables) and system.layers is not None:
        grid = grid._replace(chunk_s=model.layers * system.layers.further_chunk_s)
    return TableCost(model, tp, pp, kernels, overheads, source, grid, surfaces)


def _lay_out(
    kernels: Kernels, overheads: Overheads, layers: int, max_tokens: int, max_outputs: int
) -> tuple[CostGrid, tuple[Surface, Surface]]:
    dense = sum(p.seconds for p in kernels.dense(np.arange(1.0, max_tokens + 1)))
    head = sum(p.seconds for p in kernels.head(np.arange(0.0, max_outputs + 1)))
    decode, prefill, mixed = kernels.decode(), kernels.prefill(), kernels.mixed()
    none = np.zeros(0)
    axes: Any = mixed.axes if mixed is not None else (none, none, none, none)
    pieces = layers * (overheads.graph_launch_s + 2 * overheads.launch_s)
    grid = CostGrid(
        _frozen(np.concatenate([[0.0], np.asarray(dense)])),
        _frozen(head),
        _frozen(decode.x),
        _frozen(decode.y),
        _frozen(decode.seconds),
        _frozen(prefill.x),
        _frozen(prefill.y),
        _frozen(prefill.seconds),
        _frozen(axes[0]),
        _frozen(axes[1]),
        _frozen(axes[2]),
        _frozen(axes[3]),
        _frozen(mixed.seconds if mixed is not None else np.zeros((0, 0, 0, 0))),
        scheduler_s=overheads.scheduler_s,
        per_sequence_s=overheads.per_sequence_s,
        host_decode_s=overheads.graph_launch_s,
        host_pieces_s=min(pieces, kernels.launches * overheads.launch_s),
        host_eager_s=kernels.launches * overheads.launch_s,
        graph_tokens=overheads.graph_tokens if overheads.cuda_graphs else 0,
        overlapped=overheads.overlapped,
    )
    return grid, (decode, prefill)


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")


def _frozen(values: Any) -> Any:
    """A contiguous copy that nobody may write to."""
    array = np.array(values, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array
