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
        "gates and dispatches as fast as Alpa's": (
            ("twice as fast", _with(DeepSpeed(kernels=0.5))),
            ("an eighth", _with(DeepSpeed(kernels=8.0))),
        ),
    }
)

CONVOLUTIONS: Mapping[str, Ends] = MappingProxyType(
    {
        f"share of the peak of convolutions at sides from 54 on, {Shares().large:.2f}": (
            ("0.3", Assumed(shares=Shares(large=0.3))),
            ("1.0", Assumed(shares=Shares(large=1.0))),
        ),
        f"the same at sides up to 7, {Shares().small:.2f}": (
            ("0.35", Assumed(shares=Shares(small=0.35))),
            ("1.0", Assumed(shares=Shares(small=1.0))),
        ),
        "memory that plans may fill, 0.9": (("0.6", Assumed(memory=0.6)), ("0.98", Assumed(memory=0.98))),
    }
)


def moe_lead(paper: float, gpus: int) -> Sensitivity:
    """Alpa's speedup over DeepSpeed on MoE; slower kernels and all-to-alls with the same number of microbatches."""
    alpa, base = (measure("moe", system, gpus) for system in ("Alpa", "DeepSpeed"))

    def lead(assumed: Assumed) -> float:
        slower = (assumed.deepspeed.zero, assumed.deepspeed.every_microbatch) == (2, True)
        counts = (int(base["microbatches"]),) if slower and assumed != AS_SAID else ()
        return measure("moe", "DeepSpeed", gpus, assumed, counts)["seconds"] / alpa["seconds"]

    return _swung(f"MoE on {gpus} GPUs: Alpa over DeepSpeed", paper, "× DeepSpeed", MOE, lead)


def stage_lead(paper: float, system: str, gpus: int, counts: tuple[int, ...]) -> Sensitivity:
    """The speedup of stages by the dynamic programme over a rule's, on Wide-ResNet."""

    def lead(assumed: Assumed) -> float:
        rule, dp = (measure("resnet", s, gpus, assumed, counts)["seconds"] for s in (system, "Alpa"))
        return rule / dp

    claim = f"Wide-ResNet on {gpus} GPUs: DP over {system.lower()}"
    return _swung(claim, paper, f"× {system.lower()}", CONVOLUTIONS, lead)


def resharding_gain(paper: float, gpus: int, counts: tuple[int, ...] = ()) -> Sensitivity:
    """The speedup by local all-gather: of one plan, simulated with each way of sending."""
    plan = plan_of("resnet", "Alpa", gpus, AS_SAID, counts)
    local, naive, shared = "w/ local all-gather", "w/o local all-gather", "w/o, senders balanced"

    def gain(before: str, *, overlap: bool = False) -> float:
        return resharded(plan, before, overlap=overlap).seconds / resharded(plan, local, overlap=overlap).seconds

    ours = gain(naive)
    alone = resharded(plan, "signal send/recv").seconds
    sent = {way: resharded(plan, way).seconds - alone for way in (naive, local)}
    most = sent[naive] / sent[local]

    def at(times: float) -> float:  # meshes wait for their transfers, so that these add to what stages take
        return (alone + times * sent[naive]) / (alone + times * sent[local])

    swings = (
        Swing("each tile's first holder sends; meshes wait", "holders share the work", "they compute beside it",
              gain(shared), gain(naive, overlap=True)),
        Swing("25 Gb/s between nodes", "four times as much", "a quarter", at(0.25), at(4.0)),
    )  # fmt: skip
    short = f"not reached with this plan: even where transfers are all that takes time it is {most:.2f}×"
    enough = "a slower network between nodes than 25 Gb/s"
    claim = f"Wide-ResNet on {gpus} GPUs: local all-gather"
    return Sensitivity(claim, paper, ours, "× without it", swings, short if most < paper else enough)


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
