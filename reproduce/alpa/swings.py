"""What Alpa's headlines hinge on: each assumption moved alone, the plans made anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..sensitivity import Sensitivity, Swing
from .convolutions import Shares
from .deepspeed import DeepSpeed
from .points import measure, resharded
from .systems import AS_SAID, Assumed, plan_of

__all__ = ["moe_lead", "resharding_gain", "stage_lead"]

Ends = tuple[tuple[str, Assumed], tuple[str, Assumed]]
"""Two values of an assumption, each with its words."""


def _with(baseline: DeepSpeed) -> Assumed:
    return Assumed(deepspeed=baseline)


NO_COUNTS: Mapping[str, tuple[int, ...]] = MappingProxyType({})

MOE: Mapping[str, Ends] = MappingProxyType(
    {
        "ZeRO-2, summed after each microbatch": (
            ("once", _with(DeepSpeed(every_microbatch=False))),
            ("ZeRO-3", _with(DeepSpeed(zero=3))),
        ),
        "all-to-alls at the links' rate": (
            ("half", _with(DeepSpeed(all_to_all=0.5))),
            ("an eighth", _with(DeepSpeed(all_to_all=0.125))),
        ),
    }
)
MORE: Mapping[str, Ends] = MappingProxyType(
    {
        "25 Gb/s between nodes": (
            ("10 Gb/s", Assumed(network_gbps=10.0)),
            ("50 Gb/s", Assumed(network_gbps=50.0)),
        ),
        "gates and dispatches as fast as Alpa's": (
            ("twice as fast", _with(DeepSpeed(kernels=0.5))),
            ("an eighth", _with(DeepSpeed(kernels=8.0))),
        ),
    }
)
"""Swept in full versions only: both systems are planned anew for each network, and kernels matter little."""

CONVOLUTIONS: Mapping[str, Ends] = MappingProxyType(
    {
        "share of the peak of convolutions": (
            ("0.3 at sides from 54 on", Assumed(shares=Shares(large=0.3))),
            ("0.35 at sides up to 7", Assumed(shares=Shares(small=0.35))),
        ),
        "25 Gb/s between nodes": (
            ("10 Gb/s", Assumed(network_gbps=10.0)),
            ("100 Gb/s", Assumed(network_gbps=100.0)),
        ),
        "memory that plans may fill, 0.9": (("0.45", Assumed(memory=0.45)), ("as it is", AS_SAID)),
    }
)


def moe_lead(paper: float, gpus: int, *, fast: Mapping[str, tuple[int, ...]] = NO_COUNTS) -> Sensitivity:
    """Alpa's speedup over DeepSpeed on MoE.

    Where gradients are summed once, a plan may choose another number of microbatches; else those of what is assumed
    unless swept are kept. `fast`, each system's numbers of microbatches: with those of either, and without `MORE`.
    """
    alpa, base = (measure("moe", system, gpus, counts=fast.get(system, ())) for system in ("Alpa", "DeepSpeed"))
    chosen = {"Alpa": (int(alpa["microbatches"]),), "DeepSpeed": (int(base["microbatches"]),)}
    either = tuple(sorted({n for counts in fast.values() for n in counts}))

    def lead(assumed: Assumed) -> float:
        if assumed == AS_SAID:
            return base["seconds"] / alpa["seconds"]
        mine = chosen["DeepSpeed"] if assumed.deepspeed.every_microbatch else either
        theirs = measure("moe", "DeepSpeed", gpus, assumed, mine)["seconds"]
        if assumed.network_gbps == AS_SAID.network_gbps:
            return theirs / alpa["seconds"]
        return theirs / measure("moe", "Alpa", gpus, assumed, chosen["Alpa"])["seconds"]

    ends = MOE if fast else {**MOE, **MORE}
    return _swung(f"MoE on {gpus} GPUs: Alpa over DeepSpeed", paper, "× DeepSpeed", ends, lead)


def stage_lead(paper: float, system: str, gpus: int, counts: tuple[int, ...]) -> Sensitivity:
    """The speedup of stages by the dynamic programme over a rule's, on Wide-ResNet."""

    def lead(assumed: Assumed) -> float:
        rule, dp = (measure("resnet", s, gpus, assumed, counts)["seconds"] for s in (system, "Alpa"))
        return rule / dp

    claim = f"Wide-ResNet on {gpus} GPUs: DP over {system.lower()}"
    return _swung(claim, paper, f"× {system.lower()}", CONVOLUTIONS, lead)


def resharding_gain(paper: float, gpus: int, counts: tuple[int, ...] = (), more: tuple[int, ...] = ()) -> Sensitivity:
    """The speedup by local all-gather: of one plan, simulated with each way of sending.

    With `more`, also of the plan for this number of microbatches, and of the one for a slower network.
    """
    local, naive, shared = "w/ local all-gather", "w/o local all-gather", "w/o, senders balanced"

    def gain(assumed: Assumed, counts: tuple[int, ...], before: str = naive, *, overlap: bool = False) -> float:
        plan = plan_of("resnet", "Alpa", gpus, assumed, counts)
        return resharded(plan, before, overlap=overlap).seconds / resharded(plan, local, overlap=overlap).seconds

    plan = plan_of("resnet", "Alpa", gpus, AS_SAID, counts)
    ours = gain(AS_SAID, counts)
    alone = resharded(plan, "signal send/recv").seconds
    sent = {way: resharded(plan, way).seconds - alone for way in (naive, local)}
    most = sent[naive] / sent[local]

    def at(times: float) -> float:  # meshes wait for their transfers, so that these add to what stages take
        return (alone + times * sent[naive]) / (alone + times * sent[local])

    swings = [
        Swing("each tile's first holder sends; meshes wait", "holders share the work", "they compute beside it",
              gain(AS_SAID, counts, shared), gain(AS_SAID, counts, overlap=True)),
        Swing("25 Gb/s between nodes, this plan", "four times as much", "a quarter", at(0.25), at(4.0)),
    ]  # fmt: skip
    needed = f"not reached with this plan: even where transfers are all that takes time it is {most:.2f}×"
    if most >= paper:
        needed = "a slower network between nodes than 25 Gb/s"
    if more:
        slow = Assumed(network_gbps=10.0)
        swings.append(
            Swing("another plan", f"{more[0]} microbatches", "for 10 Gb/s", gain(AS_SAID, more), gain(slow, counts))
        )
        needed += f"; planned with {more[0]} microbatches for 10 Gb/s it is {gain(slow, more):.2f}×"
    claim = f"Wide-ResNet on {gpus} GPUs: local all-gather"
    return Sensitivity(claim, paper, ours, "× without it", tuple(swings), needed)


def _swung(
    claim: str, paper: float, unit: str, ends: Mapping[str, Ends], figure: Callable[[Assumed], float]
) -> Sensitivity:
    """All swings, and which of their ends reach the paper's figure."""
    ours = figure(AS_SAID)
    swings = tuple(
        Swing(name, low, high, figure(at_low), figure(at_high))
        for name, ((low, at_low), (high, at_high)) in ends.items()
    )
    return Sensitivity(claim, paper, ours, unit, swings, needed(paper, ours, swings))


def needed(paper: float, ours: float, swings: tuple[Swing, ...]) -> str:
    """Which of the values tried go past the paper's figure, in words."""
    past = [
        f"{swing.assumption}: {end} ({value:.2f})"
        for swing in swings
        for end, value in ((swing.low, swing.at_low), (swing.high, swing.at_high))
        if math.isfinite(value) and (value - paper) * (ours - paper) <= 0
    ]
    return (
        f"past the paper's figure: {'; '.join(past)}" if past else "none of the values tried gives the paper's figure"
    )
