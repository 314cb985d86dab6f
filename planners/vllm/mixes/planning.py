"""`MixPlanning`: a plan over several device types, with what was tried on the way to it and why it was not taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....profiles.hardware import DeviceSpec
from ....reprs import Shown
from ....simulator.llm.plan.file import LLMPlan
from ....simulator.metrics import Estimate
from ..layouts import Rejected
from ..score import Score
from ..search import lost
from .aims import IDLE_SHARE, Aim
from .choice import Option
from .search import MixFinalist, MixLevel

__all__ = ["MixPlanning", "MixPoint"]


@dataclass(frozen=True, slots=True, repr=False)
class MixPoint(Shown):
    """What a mix reaches for what.

    Parameters
    ----------
    model, mix : str
        Which model, served how.
    devices : int
        How many.
    price_per_hour : float
        Of these; 0 where that of one type is not known.
    board_power_w, mean_power_w : float
        Most that the boards take, and what they take by the busy time of their engines, watts; 0 for unknown.
    attained, goodput : Estimate
        Share of good requests and good requests per second, over the seeds.
    attained_gap, goodput_gap : Estimate
        The same less those of the chosen mix under the same seeds.
    ttft_p90_s, tpot_p90_s : float
        Means over seeds of the 90th percentiles, seconds.
    """

    model: str
    mix: str
    devices: int
    price_per_hour: float
    board_power_w: float
    mean_power_w: float
    attained: Estimate
    goodput: Estimate
    attained_gap: Estimate
    goodput_gap: Estimate
    ttft_p90_s: float
    tpot_p90_s: float

    def __str__(self) -> str:
        price = f"{self.price_per_hour:9.4g}/h" if self.price_per_hour else "   no price"
        power = f"{self.mean_power_w:7.0f} W" if self.mean_power_w else " no power"
        return (
            f"{price} {power}  {_share(self.attained)}, {self.goodput.mean:.4g}/s, against the chosen "
            f"{_share(self.attained_gap, sign=True)}: {self.mix}"
        )

    def to_dict(self) -> dict[str, object]:
        """For machines; an interval of one seed has no width."""
        plain = {
            name: getattr(self, name)
            for name in (
                "model", "mix", "devices", "price_per_hour", "board_power_w", "mean_power_w", "ttft_p90_s",
                "tpot_p90_s",
            )
        }  # fmt: skip
        for name in ("attained", "goodput", "attained_gap", "goodput_gap"):
            found: Estimate = getattr(self, name)
            plain[name] = {"mean": found.mean, "half_width": None if found.n == 1 else found.half_width}
        return plain


@dataclass(frozen=True, slots=True, repr=False)
class MixPlanning(Shown):
    """A plan, the fronts of what its models reach for what, and the mixes that were not taken.

    Parameters
    ----------
    plan : LLMPlan
        What was decided, with what it is predicted to reach on the first seed.
    aim : Aim
        What was looked for.
    target : float
        Share of good requests that was to be reached.
    chosen : mapping of str to Option
        Model -> its mix.
    levels : mapping of str to tuple of MixLevel
        Model -> what was tried, by amount.
    rejected : mapping of str to mapping of str to tuple of Rejected
        Model -> device type -> engines that are not possible.
    load : float
        Multiple of the given load at which all but the plan's own predictions are.
    """

    plan: LLMPlan
    aim: Aim
    target: float
    chosen: Mapping[str, Option]
    levels: Mapping[str, Sequence[MixLevel]]
    rejected: Mapping[str, Mapping[str, tuple[Rejected, ...]]]
    load: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Device types, pool by pool."""
        return tuple(pool.spec.name for pool in self.plan.mixed.pools)

    def point(self, model: str, finalist: MixFinalist) -> MixPoint:
        """A finalist beside the chosen one."""
        mix, best = finalist.mix, self.chosen[model].finalist
        pools, n = self.plan.mixed.pools, len(finalist.scores)
        used = [(pools[part.pool].spec, part.devices) for part in mix.parts]
        return MixPoint(
            model,
            mix.said(self.names),
            mix.devices,
            _total(used, "price_per_hour"),
            _total(used, "watts"),
            finalist.power,
            finalist.estimate(_attained),
            finalist.estimate(_goodput),
            finalist.gap(best, _attained),
            finalist.gap(best, _goodput),
            sum(s.ttft_p90_s for s in finalist.scores) / n,
            sum(s.tpot_p90_s for s in finalist.scores) / n,
        )

    def front(self, model: str) -> tuple[MixPoint, ...]:
        """What a model reaches for what: mixes that none that counts less reaches, and the chosen one."""
        kept: list[MixFinalist] = []
        chosen = self.chosen[model].finalist
        for level in self.levels[model]:
            for finalist in level.finalists[:1] if chosen not in level.finalists else (chosen,):
                if finalist is chosen or not kept or finalist.attained > max(f.attained for f in kept):
                    kept.append(finalist)
        return tuple(self.point(model, f) for f in kept)

    def one_type(self, model: str) -> dict[str, MixPoint | None]:
        """Device type -> what counts least of it alone that attains the target; None where nothing that was tried."""
        found: dict[str, MixPoint | None] = {}
        for number, name in enumerate(self.names):
            alone = [
                f
                for level in self.levels[model]
                if sum(level.counts) == level.counts[number]
                for f in level.reaching(self.target)
            ]
            found[name] = self.point(model, alone[0]) if alone else None
        return found

    def one_less(self, model: str) -> tuple[str, ...]:
        """What would be reached with one device less of each type: why it takes so many."""
        mine = self.chosen[model].level.counts
        known = {level.counts: level for level in self.levels[model]}
        lines: list[str] = []
        for number, name in enumerate(self.names):
            counts = tuple(n - (i == number) for i, n in enumerate(mine))
            if counts[number] < 0:
                continue
            level = known.get(counts)
            if not sum(counts):
                lines.append(f"one {name} less: no device is left")
            elif level is None:
                lines.append(f"one {name} less: no engine uses exactly so many devices")
            elif level.finalists:
                best = self.point(model, level.finalists[0])
                lines.append(
                    f"one {name} less: {_share(best.attained)} at best, {_share(best.attained_gap, sign=True)} against "
                    f"the chosen: {best.mix}"
                )
            else:
                lines.append(f"one {name} less: {level.seen[0]:.2%} at best on the first {level.seen[1]} requests")
        return tuple(lines)

    def runners_up(self, model: str) -> tuple[tuple[str, str], ...]:
        """Finalists on as many devices of each type, and why they lost."""
        option = self.chosen[model]
        others = [f for f in option.level.finalists if f is not option.finalist]
        return tuple((f.mix.said(self.names), lost(f.scores, option.finalist.scores)) for f in others)

    def assumptions(self) -> tuple[str, ...]:
        """What the figures rest on."""
        lines = [f"iteration times: {self.plan.cost_source}"]
        if self.load != 1:
            lines.append(f"what devices reach is at {self.load:.4g} times the given load, the highest that is attained")
        for pool in self.plan.mixed.pools:
            price = f"{pool.spec.price_per_hour:g} per hour" if pool.spec.price_per_hour else "price not known"
            power = f"{pool.spec.watts:g} W" if pool.spec.watts else "power not known"
            lines.append(f"{pool}: {price}, {power} each: {pool.spec.source}")
        if any(pool.spec.watts for pool in self.plan.mixed.pools):
            lines.append(
                f"power: all of the board's while an engine computes, an upper bound, and {IDLE_SHARE:.0%} of it while "
                "it waits, a guess; hosts and cooling are not counted"
            )
        if any(each.share is not None for each in self.plan.deployments):
            lines.append("requests are dealt to unlike engines by fixed shares, in turn, whatever their load")
        return tuple(lines)

    def explain(self) -> str:
        """The plan, the fronts, and why the others lost."""
        lines = [self.plan.explain()]
        for model, levels in self.levels.items():
            tried = sum(level.tried for level in levels)
            lines += ["", f"{model}: {tried} mixes of {len(levels)} counts of devices"]
            lines.append(f"  {self.aim.name} against good requests:")
            lines += [f"  {point}" for point in self.front(model)]
            if len(self.names) > 1 and self.aim.reaches:
                lines.append("  one device type alone:")
                lines += [
                    f"  {point}" if point is not None else f"  {name}: nothing that was tried reaches {self.target:.4g}"
                    for name, point in self.one_type(model).items()
                ]
            if self.aim.reaches:
                lines += [f"  {line}" for line in self.one_less(model)]
            runners = self.runners_up(model)
            if runners:
                lines.append("  runners-up on the same devices:")
                lines += [f"    {mix}: {why}" for mix, why in runners]
            for name, rejected in self.rejected[model].items():
                lines += [f"  not possible on {name}: {r.what}: {r.why}" for r in rejected[:3]]
                lines += [f"  … and {len(rejected) - 3} more"] if len(rejected) > 3 else []
        who = self.plan.planner
        lines += ["", *self.assumptions()[1:], f"{who.evaluations} simulations in {who.seconds:.3g} s"]
        return "\n".join(lines)


def _total(used: Sequence[tuple[DeviceSpec, int]], what: str) -> float:
    """Of all devices; 0 where that of one type is not known."""
    each = [getattr(spec, what) for spec, _ in used]
    return sum(value * n for value, (_, n) in zip(each, used, strict=True)) if all(each) else 0.0


def _attained(score: Score) -> float:
    return score.attained


def _goodput(score: Score) -> float:
    return score.goodput


def _share(found: Estimate, *, sign: bool = False) -> str:
    text = f"{found.mean:+.2%}" if sign else f"{found.mean:.2%}"
    return text if found.n == 1 else f"{text} ± {found.half_width:.2%}"
