"""One decode step of a Llama-7B layer on four GPUs under cache, tensor and data parallelism: thesis Figs. 4.2–4.5.

A step gives one token to each of B requests. Its time on the GPU that has most to do is the sum of

- matrices and attention by the roofline at `EFFICIENCY` (`profiles.llm.parallel.layer.decode_layer`); attention reads
  a shard of L tokens at L / (L + ramp) of that, for each sequence and head: shards of sequences are four times as many;
- the collectives, latency and bandwidth of the bridge (`decode_layer`);
- the host: block tables by the entry, and what does not fit in memory moved out and in again over PCIe.

What nobody knows of the thesis' machine is in `Assumed`, and swept. `shards` says what was measured for it, and how.

Requests' lengths differ: nobody knows how long they become. Under data parallelism each GPU has a quarter of the
requests and of the memory, whatever their lengths: the fullest one is waited for (the straggler), and it alone may have
to evict. Every request of the batch advances in every step, so that what exceeds the memory is moved in every step: the
thesis evaluates single steps of whole batches. `Assumed.stay_steps` is how long a request stays; without end, those
that do not fit wait for the others to finish, and throughput levels off.

Data and tensor parallelism do the same work in kernels: a quarter of the requests with all heads, or all requests with
a quarter of the heads. Both start as many thread blocks of PagedAttention (`thread_blocks`), so that a GPU is filled as
well by either. What can set them apart is the straggler, memory, the host, and what "maximum batch" means (`each`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...profiles import DeviceSpec, LinkSpec
from ...profiles.llm import decoder
from ...profiles.llm.parallel.layer import Parallel, decode_layer
from ...seeds import generator
from ..report import Frame
from ..style import BLUE, GREEN, VERMILLION, plain_ticks
from .shards import ENTRY_S, RAMP_TOKENS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "ASSUMED", "BATCHES", "DEFAULT", "GPU", "LAYOUTS", "MARGIN", "PCIE", "Assumed", "cells", "draw_throughput", "equal",
    "exponential", "outputs", "prefixes", "ratios", "step", "thread_blocks",
]  # fmt: skip

GPUS = 4
GIB = 2**30
BRIDGE = LinkSpec(56.25e9, 5e-6)
"""NVLink bridge of RTX A5000s: 112.5 GB/s in both directions; 5 us a message."""
PCIE = LinkSpec(12e9, 20e-6)
"""Half of what `Assumed.pcie_bytes_per_s` carries, since it goes through the host's memory; a guess, for a sweep."""
GPU = DeviceSpec(
    "rtx-a5000", 24 * GIB, 21 * GIB, 111e12, 768e9, BRIDGE, LinkSpec(1.25e9, 20e-6), "NVIDIA RTX A5000 datasheet"
)
EFFICIENCY = 0.8
"""Share of bandwidth and products that kernels reach."""
MARGIN = 0.03
"""Faster means by more than this: the thesis' largest standard deviation (§4.5.1)."""
BLOCK_SIZE = 16
"""Tokens in a block: vLLM's default (thesis §5.7.2)."""
MODEL = decoder("Llama-7b")
TOKEN_BYTES = 2 * MODEL.hidden * 2
"""Keys and values of one token in one layer, 16-bit."""

LAYOUTS = {"CP": Parallel(cp=GPUS), "TP": Parallel(tp=GPUS), "DP": Parallel()}
"""Cache parallelism with data parallelism for the matrices, as the thesis evaluates it. DP: each of four replicas."""
BATCHES = (32, 64, 128, 256, 512)
COLOURS = {"CP": BLUE, "TP": VERMILLION, "DP": GREEN}


@dataclass(frozen=True, slots=True)
class Assumed:
    """What is not known of the thesis' machine.

    Parameters
    ----------
    entry_s : float
        Host time per entry of a block table: listed, made a tensor. Measured on another processor.
    ramp_tokens : float
        Tokens that attention's kernel could read while it begins and ends one sequence and head of a shard. A
        processor's reference kernels; a guess for a GPU's.
    pcie_bytes_per_s : float
        What PCIe 4.0 x16 carries in one direction: 31.5 GB/s less protocol. A round figure, not a measurement.
    stay_steps : float
        Steps that a request takes between being moved in and out, where not all fit: 1 as in single steps of whole
        batches; ``inf`` where nothing is moved and those that do not fit wait.
    each : bool
        Whether the maximum batch is each instance's under data parallelism ("separate batches of requests", §4.2.3),
        in place of all instances' together: four times as many requests.
    link : LinkSpec
        Between the GPUs. A bridge joins two A5000s; between the pairs of four everything goes over PCIe.
    """

    entry_s: float = ENTRY_S
    ramp_tokens: float = RAMP_TOKENS
    pcie_bytes_per_s: float = 24e9
    stay_steps: float = 1.0
    each: bool = False
    link: LinkSpec = BRIDGE

    def batch(self, kind: str, maximum: int) -> int:
        """Requests of a step on all GPUs at a maximum batch."""
        return GPUS * maximum if self.each and kind == "DP" else maximum


DEFAULT = Assumed()

ASSUMED = (
    f"4 RTX A5000 (768 GB/s, 24 GiB, NVLink bridge {BRIDGE.bandwidth_bytes_per_s / 1e9:g} GB/s and "
    f"{1e6 * BRIDGE.latency_s:g} us a message), one layer of Llama-7B in 16 bits, kernels at {EFFICIENCY:.0%} of the "
    f"roofline; attention reads a shard of L tokens at L / (L + {RAMP_TOKENS:g}) of it (a CPU's kernels; a guess for a "
    f"GPU's); host: {1e9 * ENTRY_S:g} ns an entry of a block table, as Python's lists and torch take here "
    "(python -m meshwright.reproduce.cache_parallel.shards); eviction over PCIe at "
    f"{DEFAULT.pcie_bytes_per_s / 1e9:g} GB/s of all that does not fit, in every step",
    "the thesis' figures have lost their curves and their lengths' distribution: orderings are judged, no figure is",
)
"""What the cells rest on, for the notes of a report."""


Regime = Callable[[int, int, np.random.Generator], Any]
"""(mean length, batch, generator) -> tokens of each request."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of a decode step, on the GPU with the most work.

    Parameters
    ----------
    tokens : int
        Requests that advance by one token each, on all GPUs.
    matrices_s, attention_s, communication_s, tables_s, moved_s : float
        Kernels of matrices and of attention; collectives; block tables; what is moved between host and device.
    """

    tokens: int
    matrices_s: float
    attention_s: float
    communication_s: float
    tables_s: float
    moved_s: float

    @property
    def compute_s(self) -> float:
        """Seconds of all kernels."""
        return self.matrices_s + self.attention_s

    @property
    def total_s(self) -> float:
        """Seconds of the whole step: the parts follow each other, nothing overlaps."""
        return self.compute_s + self.communication_s + self.tables_s + self.moved_s


def step(kind: str, lengths: Any, assumed: Assumed = DEFAULT) -> Step:
    """One decode step of requests with these many tokens.

    Parameters
    ----------
    kind : str
        ``"CP"``, ``"TP"`` or ``"DP"``.
    lengths : sequence of int
        Tokens of each request.
    assumed : Assumed
        What is not known of the machine.
    """
    given = [int(n) for n in lengths]
    # Dealt in turn, whatever the lengths: nobody knows them when a request arrives.
    groups = [given[r::GPUS] for r in range(GPUS)] if kind == "DP" else [given]
    found = [_group(kind, group, assumed) for group in groups if group]
    return replace(max(found, key=lambda s: s.total_s), tokens=sum(s.tokens for s in found))


def _group(kind: str, lengths: list[int], assumed: Assumed) -> Step:
    """The step of one group of GPUs that share these requests."""
    layout = LAYOUTS[kind]
    devices = layout.stage_devices
    room = devices * (GPU.usable_memory_bytes - 2 * MODEL.weights // MODEL.layers)
    layer = decode_layer(MODEL, layout, lengths, block_size=BLOCK_SIZE)
    time = layer.time(GPU, assumed.link, efficiency=EFFICIENCY)
    # Every sequence and head that a GPU attends to begins and ends once, whatever its shard's length.
    ramp_bytes = len(lengths) * assumed.ramp_tokens * TOKEN_BYTES / layout.tp
    excess = max(0, sum(lengths) * TOKEN_BYTES - room)
    return Step(
        len(lengths),
        time.matrices_s,
        time.attention_s + ramp_bytes / (EFFICIENCY * GPU.memory_bandwidth_bytes_per_s),
        time.communication_s,
        layer.host_s(assumed.entry_s),
        # Twice: what does not fit is moved out and in again.
        2 * excess / devices / assumed.pcie_bytes_per_s / assumed.stay_steps,
    )


PARTITION = 512
"""Tokens that one thread block of PagedAttention reads from 8,192 tokens on (vLLM's V2 kernel)."""


def thread_blocks(kind: str, lengths: Any) -> int:
    """Thread blocks of attention that the GPU with most of them starts: one per sequence, head and `PARTITION`.

    From vLLM's V2 kernel, whose grid is heads x sequences x partitions. The thesis' own kernel extends it (§4.5.1).
    """
    layout, given = LAYOUTS[kind], [int(n) for n in lengths]
    groups = [given[r::GPUS] for r in range(GPUS)] if kind == "DP" else [given]
    heads = MODEL.heads // layout.tp
    parts = [[math.ceil(math.ceil(n / layout.cp) / PARTITION) for n in group] for group in groups]
    return max(heads * sum(group) for group in parts)


def prefixes(mean: int, batch: int, rng: np.random.Generator) -> Any:
    """Draw lengths of long prompts: uniform from half to one and a half times the mean."""
    return rng.integers(mean // 2, mean + mean // 2 + 1, batch)


def outputs(mean: int, batch: int, rng: np.random.Generator) -> Any:
    """Draw lengths of requests with long outputs, each caught at some moment of its generation."""
    # A running request is met in proportion to its length: an exponential law weighted by length is Gamma of shape 2;
    # how far it has come is uniform. 512 tokens of prompt are a guess.
    return 512 + (rng.gamma(2.0, mean, batch) * rng.random(batch)).astype(int)


def exponential(mean: int, batch: int, rng: np.random.Generator) -> Any:
    """Draw lengths that spread as widely as their mean: an exponential law, from one block on."""
    return BLOCK_SIZE + rng.exponential(mean, batch).astype(int)


def equal(mean: int, batch: int, rng: np.random.Generator) -> Any:
    """All of the same length, for what a spread of lengths does."""
    return np.full(batch, mean)


def cells(
    regime: Regime, means: tuple[int, ...], batches: tuple[int, ...], draws: int, seed: int,
    assumed: Assumed = DEFAULT,
) -> Frame:  # fmt: skip
    """One row per mean length, batch and parallelism, means over `draws` draws of the lengths.

    Returns
    -------
    DataFrame
        Columns tokens, batch, system; throughput (tokens per second per layer), step_ms, compute_ms (of it
        attention_ms), communication_ms, tables_ms, moved_ms.
    """
    import pandas as pd

    rows = []
    for mean in means:
        for batch in batches:
            for kind in LAYOUTS:
                many = assumed.batch(kind, batch)
                streams = [generator(seed, "decode steps", str(mean), str(i)) for i in range(draws)]
                found = [step(kind, regime(mean, many, stream), assumed) for stream in streams]
                total = float(np.mean([s.total_s for s in found]))
                advanced = float(np.mean([s.tokens for s in found]))
                parts = ("compute", "attention", "communication", "tables", "moved")
                rows.append(
                    {
                        "tokens": mean,
                        "batch": batch,
                        "system": kind,
                        "throughput": advanced / total,
                        "step_ms": 1e3 * total,
                    }
                    | {f"{p}_ms": 1e3 * float(np.mean([getattr(s, f"{p}_s") for s in found])) for p in parts}
                )
    return pd.DataFrame(rows)


def ratios(frame: Frame, a: str, b: str) -> Frame:
    """Throughput of `a` over that of `b`, by tokens (rows) and batch (columns)."""
    wide = frame.pivot_table(index=["tokens", "batch"], columns="system", values="throughput")
    return (wide[a] / wide[b]).unstack("batch")


def draw_throughput(frame: Frame, ax: Axes, batch: int) -> Axes:
    """Draw tokens per second per layer against the mean length, at one batch size."""
    part = frame[frame.batch == batch]
    for kind, colour in COLOURS.items():
        mine = part[part.system == kind]
        ax.plot(mine.tokens / 1000, mine.throughput, label=kind, color=colour, marker="o")
    ax.set(xscale="log", yscale="log", xlabel="tokens (thousands)", title=f"batch of {batch}")
    plain_ticks(ax, "x", tuple(sorted(set(part.tokens / 1000))))
    return ax
