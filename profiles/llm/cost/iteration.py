"""`iteration_cost`: how long an LLM engine's iteration takes, from measured kernels, rooflines and host overheads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....errors import InputError
from ...hardware import DeviceSpec, LinkSpec
from ..decoder import DecoderSpec
from ..experts import SKEW
from ..parallel.layout import Parallel
from ..parallel.ranks import Ranks, check_degrees, whole
from ..tables.kernels import KernelTables, Operators, Peaks
from ..tables.layers import check_layers
from ..tower import Image, checked_images
from .beside import beside_chunks
from .grid import NOTHING, CostGrid
from .kinds.experts import ALL2ALL, Spread
from .kinds.sight import tower_seconds
from .layers import LayerKernels
from .links import PCIE, link_between
from .operators import OperatorKernels
from .overheads import Overheads
from .parts import Kernels, Surface
from .table import TableCost

__all__ = ["CostOptions", "TableCost", "iteration_cost"]

PRECISIONS = {"bf16": "bfloat16", "fp16": "bfloat16", "bfloat16": "bfloat16", "float16": "bfloat16"} | {
    name: name for name in ("fp8", "fp8_block", "nvfp4", "int8_wo", "int4_wo")
}
"""What a precision is called here -> in the tables."""


@dataclass(frozen=True, slots=True, repr=False)
class CostOptions(Ranks):
    """The rarer options of `iteration_cost`.

    Parameters
    ----------
    cp, dp, ep, exchange
        As in `Ranks`; with tables by layer only ``cp=1``.
    skew : float
        How unequally experts are chosen (`experts.SKEW`); 0: all alike.
    balanced : bool
        Whether the ranks that experts are split over bear equally popular ones (vLLM's ``--enable-eplb``); else the
        popular ones lie anywhere, and the fullest rank is waited for (`fullest_rank`).
    all2all : str
        How tokens reach the experts of other ranks, by vLLM's name (`cost.kinds.experts.ALL2ALL`).
    images : sequence of (int, int)
        Heights and widths, in pixels, of the images of every request, for models with a tower that sees. Its time comes
        with a request's first chunk. The tokens that they become are part of a request's prompt tokens
        (`Tower.image_tokens`), as engines count them.
    max_tokens, max_outputs : int
        Sizes up to which tables by tokens and outputs are laid out; beyond, they go on along their slope.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    skew: float = SKEW
    balanced: bool = False
    all2all: str = ALL2ALL[0]
    images: tuple[Image, ...] = ()
    max_tokens: int = 16384
    max_outputs: int = 1024

    def __post_init__(self) -> None:
        Ranks.__post_init__(self)  # super() knows the class from before it had slots
        whole("max_tokens", self.max_tokens)
        whole("max_outputs", self.max_outputs)


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
    options: CostOptions | None = None,
    **fields: Any,
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
        Link between the devices of a node, in place of the device's or of what the tables say. Tables by layer that say
        none need it wherever devices send each other anything: without it `links.link_between` assumes one by the
        device's name, which `TableCost.report` and `kernels.fallbacks` say first.
    options : CostOptions, optional
        Further degrees, how unequally experts are chosen, and how large the tables of the cost are.
    **fields
        Single fields of `CostOptions` instead: ``dp=2, ep=2``.

    Raises
    ------
    InputError
        On a degree that does not divide, an unknown precision, or tables of another model.
    """
    o = CostOptions.of(options, fields)
    for name, value, kinds in (
        ("model", model, (DecoderSpec,)),
        ("system", system, (KernelTables, DeviceSpec)),
        ("overheads", overheads or Overheads(), (Overheads,)),
        ("link", link or PCIE, (LinkSpec,)),
    ):
        if not isinstance(value, kinds):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{name}: expected {' or '.join(kind.__name__ for kind in kinds)} (got {value!r:.80})")
    check_degrees(model, tp, pp)
    if precision not in PRECISIONS:
        raise InputError(f"precision: expected one of {', '.join(PRECISIONS)} (got {precision!r})")
    if PRECISIONS.get(kv or "bf16") not in ("bfloat16", "fp8"):
        raise InputError(f"kv: expected bf16 or fp8 (got {kv!r})")
    overheads = overheads or Overheads()
    spread = Spread(tp, o.dp, o.ep, o.skew, o.balanced, o.all2all)
    spread.check(model)
    layout = Parallel(tp=tp, cp=o.cp, exchange=o.exchange) if o.cp > 1 else None
    if layout is not None:
        layout.check(model)
    cache = PRECISIONS[kv or "bf16"]
    if isinstance(system, KernelTables) and system.layers is not None:
        if layout is not None:
            raise InputError("cp: tables by layer hold no shards of sequences; give tables by operator, or a device")
        peaks = check_layers(system, model, tp)
        where = link_between(link, system.layers.link, f"{system.name} {system.source}", max(2, tp))
        kernels: Kernels = LayerKernels(
            model, peaks, system.layers, pp, overheads, where.spec.bandwidth_bytes_per_s, where.spec.latency_s,
            spread, where.assumed,
        )  # fmt: skip
        source = system.source
    else:
        tables = isinstance(system, KernelTables)
        peaks = system.peaks if isinstance(system, KernelTables) else Peaks.of(system)
        if link is not None:
            peaks = replace(peaks, link_bytes_per_s=link.bandwidth_bytes_per_s, link_latency_s=link.latency_s)
        operators = (system.operators if isinstance(system, KernelTables) else None) or Operators()
        kernels = OperatorKernels(
            model, peaks, operators, tp, pp, PRECISIONS[precision], cache, overheads, spread, layout
        )
        source = system.source if tables else f"roofline of {peaks.name}, nothing measured: {system.source}"
    grid, surfaces = _lay_out(kernels, overheads, model.layers, o)
    grid = grid._replace(request_s=overheads.per_request_s)
    images = checked_images(o.images, model.tower, model.name)
    if images and model.tower is not None:
        grid = grid._replace(tower_s=tower_seconds(model.tower, images, peaks, tp))
    if kernels.mixed() is None:
        grid = grid._replace(beside=beside_chunks(model, source if isinstance(system, KernelTables) else system.name))
    if isinstance(system, KernelTables) and system.layers is not None:
        grid = grid._replace(chunk_s=model.layers * system.layers.further_chunk_s)
        if system.layers.own:  # our engine captures decodes only: steps with prompts are launched kernel by kernel
            grid = grid._replace(host_pieces_s=grid.host_eager_s)
    return TableCost(model, tp, pp, kernels, overheads, source, grid, surfaces, o.cp, o.dp, o.ep)


def _lay_out(
    kernels: Kernels, overheads: Overheads, layers: int, options: CostOptions
) -> tuple[CostGrid, tuple[Surface, Surface]]:
    dp, tokens = options.dp, np.arange(1.0, options.max_tokens + 1)
    dense: Any = sum(p.seconds for p in kernels.dense(tokens))
    # Ranks run padded to one size where they run in graphs; beyond, what is scheduled.
    mine = overheads.padded_each(-(-tokens.astype(np.int64) // dp))
    graphs = overheads.cuda_graphs & (mine <= overheads.graph_tokens)
    experts: Any = sum(p.seconds for p in kernels.experts(np.where(graphs, dp * mine, tokens)))
    if dp == 1:
        dense = dense + experts
    head = sum(p.seconds for p in kernels.head(np.arange(0.0, options.max_outputs + 1)))
    decode, prefill, mixed = kernels.decode(), kernels.prefill(), kernels.mixed()
    none = np.zeros(0)
    axes: Any = mixed.axes if mixed is not None else (none, none, none, none)
    pieces = layers * (overheads.graph_launch_s + 2 * overheads.kernel_launch_s)
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
        host_pieces_s=min(pieces, kernels.launches * overheads.kernel_launch_s),
        host_eager_s=kernels.launches * overheads.kernel_launch_s,
        graph_tokens=overheads.graph_tokens if overheads.cuda_graphs else 0,
        overlapped=overheads.overlapped,
        ranks=dp,
        experts=_frozen(np.concatenate([[0.0], experts])) if dp > 1 and np.ndim(experts) else NOTHING,
    )
    return grid, (decode, prefill)


def _frozen(values: Any) -> Any:
    """A contiguous copy that nobody may write to."""
    array = np.array(values, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array
