"""`Told`: what a page says of a planner's answer, whichever search gave it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....planners.vllm import Planning, SharedPlanning
from ....planners.vllm.mixes import MixPlanning, MixPoint
from ....planners.vllm.score import Score
from ....planners.vllm.search import Bracket, Finalist
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.metrics import Estimate, paired_difference

__all__ = ["Row", "Told", "told"]


@dataclass(frozen=True, slots=True)
class Row:
    """A way to serve a model that was tried to the end.

    Parameters
    ----------
    model, what : str
        Which model, served how.
    amount : float
        What it counts: along x.
    attained, goodput : Estimate
        Share of good requests, good requests per second; over seeds.
    gap : Estimate
        Share of good requests less the chosen one's, under the same seeds.
    devices : int
        How many.
    price_per_hour, power_w : float
        0 where they are not known.
    ttft_p90_s, tpot_p90_s : float
        90th percentiles, seconds.
    front, chosen : bool
        Whether nothing that counts less reaches as much; whether it is the answer.
    """

    model: str
    what: str
    amount: float
    attained: Estimate
    goodput: Estimate
    gap: Estimate
    devices: int
    price_per_hour: float
    power_w: float
    ttft_p90_s: float
    tpot_p90_s: float
    front: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class Told:
    """What a page says.

    Parameters
    ----------
    plan : LLMPlan
        The answer.
    axis : str
        What amounts are, with the unit.
    target : float
        Share of good requests that was asked for; NaN where none was.
    assumptions : tuple of str
        What the figures rest on.
    rows : tuple of Row
        Everything that was tried to the end.
    lost : tuple of (str, str)
        What was not taken, and why.
    rejected : tuple of (str, str)
        Engines that are not possible, and why.
    """

    plan: LLMPlan
    axis: str
    target: float
    assumptions: tuple[str, ...]
    rows: tuple[Row, ...]
    lost: tuple[tuple[str, str], ...]
    rejected: tuple[tuple[str, str], ...]


def told(found: Planning | MixPlanning | SharedPlanning, target: float) -> Told:
    """What a page says of an answer."""
    if isinstance(found, MixPlanning):
        return _of_mixes(found)
    if isinstance(found, Planning):
        return _of_engines(found, math.nan if found.objective == "goodput" else target)
    cuts = tuple((what, f"{good:.2%} of the requests are good") for what, good in found.tried)
    alone = "not possible" if found.dedicated is None else f"{found.dedicated_good:.2%} of the requests are good"
    return Told(
        found.plan, "devices", math.nan, (f"iteration times: {found.plan.cost_source}", *_device_lines(found.plan)), (),
        (*cuts, ("devices of their own", alone)), (),
    )  # fmt: skip


AXES = {"cost": "price per hour", "energy": "mean power, W", "devices": "devices", "goodput": "devices"}


def _of_mixes(found: MixPlanning) -> Told:
    rows: list[Row] = []
    lost: list[tuple[str, str]] = []
    rejected: list[tuple[str, str]] = []
    for model, levels in found.levels.items():
        front = {point.mix for point in found.front(model)}
        best = found.chosen[model].finalist
        for level in levels:
            for finalist in level.finalists:
                point = found.point(model, finalist)
                rows.append(_mix_row(found, point, point.mix in front, finalist is best))
        lost += [(line.partition(": ")[0], line.partition(": ")[2]) for line in found.one_less(model)]
        if len(found.names) > 1 and found.aim.reaches:
            lost += [
                (f"{name} alone", "nothing that was tried reaches the target" if point is None else str(point).strip())
                for name, point in found.one_type(model).items()
            ]
        lost += found.runners_up(model)
        rejected += [(f"{name}: {r.what}", r.why) for name, each in found.rejected[model].items() for r in each]
    target = found.target if found.aim.reaches else math.nan
    return Told(
        found.plan, AXES[found.aim.name], target, found.assumptions(), tuple(rows), tuple(lost), tuple(rejected)
    )


def _mix_row(found: MixPlanning, point: MixPoint, front: bool, chosen: bool) -> Row:
    amounts = {"cost": point.price_per_hour, "energy": point.mean_power_w}
    return Row(
        point.model, point.mix, amounts.get(found.aim.name, float(point.devices)), point.attained, point.goodput,
        point.attained_gap, point.devices, point.price_per_hour, point.mean_power_w, point.ttft_p90_s, point.tpot_p90_s,
        front, chosen,
    )  # fmt: skip


def _of_engines(found: Planning, target: float) -> Told:
    rows: list[Row] = []
    lost: list[tuple[str, str]] = []
    rejected: list[tuple[str, str]] = []
    price = found.plan.cluster.device.price_per_hour
    for front, bracket in zip(found.fronts, found.chosen, strict=True):
        best, kept = bracket.best, {id(b) for b in front.pareto}
        for each in front.brackets:
            rows += [_engine_row(front.model, each, f, best, price, id(each) in kept) for f in each.finalists]
        lost += [(str(f.candidate), f.lost_to(best)) for f in bracket.finalists[1:]]
        rejected += [(r.what, r.why) for r in found.rejected[front.model]]
    assumptions = (f"iteration times: {found.plan.cost_source}", *_device_lines(found.plan))
    return Told(found.plan, "devices", target, assumptions, tuple(rows), tuple(lost), tuple(rejected))


def _engine_row(model: str, bracket: Bracket, each: Finalist, best: Finalist, price: float, front: bool) -> Row:
    devices = each.candidate.devices
    return Row(
        model, str(each.candidate), float(devices), each.estimate(_attained), each.estimate(_goodput),
        paired_difference([s.attained for s in each.scores], [s.attained for s in best.scores]), devices,
        price * devices, 0.0, _mean(each.scores, _ttft), _mean(each.scores, _tpot), front and each is bracket.best,
        each is best,
    )  # fmt: skip


def _device_lines(plan: LLMPlan) -> tuple[str, ...]:
    return tuple(f"{pool}: {pool.spec.source}" for pool in plan.mixed.pools)


def _mean(scores: Sequence[Score], of: Callable[[Score], float]) -> float:
    return sum(map(of, scores)) / len(scores)


def _attained(score: Score) -> float:
    return score.attained


def _goodput(score: Score) -> float:
    return score.goodput


def _ttft(score: Score) -> float:
    return score.ttft_p90_s


def _tpot(score: Score) -> float:
    return score.tpot_p90_s
