"""The set-up of AlpaServe §3.2–3.3: eight 2.6 B models on eight devices, replicated or pipelined (Figs. 3–7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .... import traces
from ....errors import InputError
from ....profiles import ModelProfile, ParallelConfig, compose
from ....profiles.alpaserve.shipped import comm_model, layer_table
from ....simulator import Group, Placement, simulate
from ....traces import Trace
from ...report import Frame
from ...style import lines, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CV",
    "DEVICES",
    "MODELS",
    "RATE",
    "REPLICAS_IN_13_GB",
    "SIZE_GB",
    "draw_latency",
    "ideal_pipeline",
    "latency_rows",
    "load_profiles",
    "model_parallel",
    "peak_rate",
    "replication",
    "stages_for_budget",
    "traffic",
]

MODELS = tuple(f"bert-2.6b-{i}" for i in range(8))
"""Eight Transformer models with 2.6 B parameters (§3.2)."""

DEVICES = 8
"""GPUs, one for each model (§3.2)."""
SIZE_GB = 5.2
"""Weights of one model, GB (§3.2)."""

RATE = 20.0
"""Requests per second of all models together. The paper's "20 request/s" cannot be per model: eight times 20/s
times 0.238 s would keep 38 devices busy, and there are eight."""

CV = 3.0
"""CV of the Gamma arrivals (§3.2)."""

REPLICAS_IN_13_GB = 2
"""Models of 5.2 GB that fit on a device with 13 GB usable (§6.2: "at most … 2 replicas of BERT-2.6B")."""


def load_profiles() -> Mapping[str, ModelProfile]:
    """The eight instances, from the shipped V100 model, cut into stages of equally many Transformer layers.

    §3.2: "uniformly assign the Transformer layers to different GPUs": the manual partition, not the automatic one of
    §4.1 that the profile set `alpaserve-v100` holds.
    """
    configs = [ParallelConfig(1, stages) for stages in (1, 2, 4, 8)]
    table, comm = layer_table("bert-2.6b"), comm_model("bert-2.6b")
    profile = compose(table, comm, configs=configs, partition="equal")
    return {name: profile.renamed(name) for name in MODELS}


def replication(replicas: int) -> Placement:
    """Every device holds `replicas` models, every model is on `replicas` devices (Fig. 3a)."""
    if not 1 <= replicas <= len(MODELS):
        raise InputError(f"replication: expected 1 to {len(MODELS)} replicas (got {replicas})")
    return Placement(
        Group(ParallelConfig(1, 1), [MODELS[(d + k) % len(MODELS)] for k in range(replicas)]) for d in range(DEVICES)
    )


def model_parallel(stages: int) -> Placement:
    """Pipelines of `stages` devices, each with all eight models (Fig. 3b).

    Raises
    ------
    InputError
        If the eight devices cannot be shared out.
    """
    if stages < 1 or DEVICES % stages:
        raise InputError(f"model_parallel: stages must divide {DEVICES} (got {stages})")
    return Placement(Group(ParallelConfig(1, stages), MODELS) for _ in range(DEVICES // stages))


def stages_for_budget(budget: float) -> int:
    """Fewest stages that let every pipeline hold all models, memory per device being `budget` times a model."""
    return next(n for n in (1, 2, 4, 8) if len(MODELS) / n <= budget)


def peak_rate(placement: Placement, profiles: Mapping[str, ModelProfile]) -> float:
    """Requests per second that the placement can serve at most: the sum over groups of 1 / slowest stage."""
    model = profiles[MODELS[0]]
    return sum(1.0 / max(model.latency(group.config)) for group in placement.groups)


def traffic(rate: float, cv: float, duration: float, seed: int) -> Trace:
    """Gamma arrivals, `rate` requests per second over all models, each model the same share; no SLO."""
    return traces.gamma(rate, cv, duration, MODELS, seed=seed)


def ideal_pipeline(base: ModelProfile, stages: int, overhead: float) -> ModelProfile:
    """§3.3: `stages` equal stages of overhead·L/stages seconds, with L the latency on one device."""
    one = ParallelConfig(1, 1)
    cut = ParallelConfig(1, stages)
    latency = base.single_device_latency()
    return ModelProfile.from_stages(base.name, {one: {1: [latency]}, cut: {1: [overhead * latency / stages] * stages}})


def latency_rows(
    placements: Mapping[str, Placement], trace: Trace, profiles: Mapping[str, ModelProfile], **columns: Any
) -> list[dict[str, Any]]:
    """Mean and P99 latency of every placement on one trace without SLOs: a row each, with `columns` added."""
    rows = []
    for system, placement in placements.items():
        result = simulate(placement, trace, profiles)
        rows.append(
            columns | {"system": system, "mean_latency_s": result.mean_latency, "p99_latency_s": result.latency(99)}
        )
    return rows


def draw_latency(frame: Frame, ax: Axes, *, x: str, y: str, xlabel: str, log: bool = False) -> Axes:
    """Draw the latency of both placements with its confidence band; `y` is ``mean_latency_s`` or ``p99_latency_s``."""
    lines(frame, ax, x=x, y=y, spread=f"{y}_ci")
    title = "mean latency" if y.startswith("mean") else "P99 latency"
    ax.set(xlabel=xlabel, ylabel=f"{title} (s)", title=title)
    if log:
        ax.set_yscale("log")
        plain_ticks(ax, "y", (0.3, 1, 3, 10, 30, 100, 300))
    else:
        ax.set_ylim(bottom=0)
    return ax
