"""`Planning`: a plan with what was tried on the way to it, and why it was not taken."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...reprs import Shown
from ...simulator.llm.plan.file import LLMPlan
from .choice import Front
from .layouts import Rejected
from .search import Bracket, Finalist

__all__ = ["FrontPoint", "Planning"]


@dataclass(frozen=True, slots=True, repr=False)
class FrontPoint(Shown):
    """A point of a front: devices against what they reach, or TTFT against TPOT.

    Parameters
    ----------
    model, candidate : str
        Which model, served how.
    devices : int
        How many.
    attained, half_width : float
        Mean share of good requests over the seeds, and half its interval (NaN for one seed).
    goodput, ttft_p90_s, tpot_p90_s, factor : float
        Means over seeds of good requests per second, the 90th percentiles, and the highest load (NaN if unknown).
    """

    model: str
    candidate: str
    devices: int
    attained: float
    half_width: float
    goodput: float
    ttft_p90_s: float
    tpot_p90_s: float
    factor: float

    @classmethod
    def of(cls, model: str, finalist: Finalist) -> FrontPoint:
        """The point of a finalist."""
        share = finalist.estimate(lambda s: s.attained)
        n = len(finalist.scores)
        return cls(
            model,
            str(finalist.candidate),
            finalist.candidate.devices,
            share.mean,
            share.half_width,
            sum(s.goodput for s in finalist.scores) / n,
            sum(s.ttft_p90_s for s in finalist.scores) / n,
            sum(s.tpot_p90_s for s in finalist.scores) / n,
            sum(s.factor for s in finalist.scores) / n,
        )

    def __str__(self) -> str:
        width = "" if math.isnan(self.half_width) else f" ± {self.half_width:.2%}"
        load = "" if math.isnan(self.factor) else f", load x {self.factor:.3g}"
        return (
            f"{self.devices:>3}  {self.attained:.2%}{width}, {self.goodput:.4g}/s, TTFT p90 {self.ttft_p90_s:.3g} s, "
            f"TPOT p90 {self.tpot_p90_s:.3g} s{load}: {self.candidate}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Planning(Shown):
    """A plan and how it came about.

    Parameters
    ----------
    plan : LLMPlan
        What was decided, with what it is predicted to reach on the first seed.
    chosen : tuple of Bracket
        For each model the bracket of the devices that it got.
    fronts : tuple of Front
        For each model what was tried.
    rejected : mapping of str to tuple of Rejected
        Model -> engines that are not possible.
    objective : str
        What was asked for.
    """

    plan: LLMPlan
    chosen: tuple[Bracket, ...]
    fronts: tuple[Front, ...]
    rejected: Mapping[str, tuple[Rejected, ...]]
    objective: str

    def devices_front(self, model: str) -> tuple[FrontPoint, ...]:
        """What a model reaches against devices: those points that no point with fewer devices reaches."""
        front = next(f for f in self.fronts if f.model == model)
        return tuple(FrontPoint.of(model, b.best) for b in front.pareto)

    def latency_front(self, model: str) -> tuple[FrontPoint, ...]:
        """TTFT against TPOT: finalists with the chosen number of devices that no other one beats in both."""
        bracket = self.chosen[[f.model for f in self.fronts].index(model)]
        points = [FrontPoint.of(model, f) for f in bracket.finalists]
        kept = [
            p
            for p in points
            if not any(
                (q.ttft_p90_s, q.tpot_p90_s) != (p.ttft_p90_s, p.tpot_p90_s)
                and q.ttft_p90_s <= p.ttft_p90_s
                and q.tpot_p90_s <= p.tpot_p90_s
                for q in points
            )
        ]
        return tuple(sorted(kept, key=lambda p: (p.ttft_p90_s, p.tpot_p90_s)))

    def explain(self) -> str:
        """The plan, the fronts, and why the runners-up lost."""
        lines = [self.plan.explain()]
        for front, bracket in zip(self.fronts, self.chosen, strict=True):
            tried = sum(b.rounds[0].candidates for b in front.brackets)
            lines.append("")
            lines.append(f"{front.model}: {tried} candidates, {len(self.rejected[front.model])} engines not possible")
            lines.append("  goodput against devices (points that more devices were needed for):")
            lines += [f"  {point}" for point in self.devices_front(front.model)]
            latency = self.latency_front(front.model)
            if len(latency) > 1:
                lines.append(f"  TTFT against TPOT on {bracket.devices} devices:")
                lines += [f"  {point}" for point in latency]
            if len(bracket.finalists) > 1:
                lines.append(f"  runners-up on {bracket.devices} devices, against {bracket.best.candidate}:")
                lines += [f"    {f.candidate}: {f.lost_to(bracket.best)}" for f in bracket.finalists[1:4]]
            for rejected in self.rejected[front.model][:6]:
                lines.append(f"  not possible: {rejected.what}: {rejected.why}")
            if len(self.rejected[front.model]) > 6:
                lines.append(f"  … and {len(self.rejected[front.model]) - 6} more")
        who = self.plan.planner
        lines.append("")
        lines.append(
            f"{who.evaluations} simulations in {who.seconds:.3g} s ({who.evaluations / max(who.seconds, 1e-9):.3g}/s)"
        )
        return "\n".join(lines)
