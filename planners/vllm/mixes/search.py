"""The search for one model among mixes: for every number of devices of each type the best way to use just these."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from ....reprs import Shown
from ....simulator.metrics import Estimate, mean_interval, paired_difference
from ..halving import Kinds, Rung, successive_halving
from ..layouts import Shapes, place
from ..score import Score
from ..search import FAR_OFF
from ..space import Effort, SearchSpace
from .aims import Aim
from .mix import Mix, Part
from .runs import Runs, Task

__all__ = ["MixFinalist", "MixLevel", "MixSearch"]

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class MixFinalist(Shown):
    """A mix of the last round.

    Parameters
    ----------
    mix : Mix
        How the model is served.
    scores : tuple of Score
        Of each seed, on all requests.
    power_w : tuple of float
        Mean power under each seed, watts; 0 where a device's is not known.
    """

    mix: Mix
    scores: tuple[Score, ...]
    power_w: tuple[float, ...]

    @property
    def attained(self) -> float:
        """Mean share of good requests."""
        return sum(s.attained for s in self.scores) / len(self.scores)

    @property
    def slack(self) -> float:
        """Mean slack."""
        return sum(s.slack for s in self.scores) / len(self.scores)

    @property
    def power(self) -> float:
        """Mean power over the seeds, watts."""
        return sum(self.power_w) / len(self.power_w)

    def estimate(self, of: Callable[[Score], float]) -> Estimate:
        """Mean over seeds with its interval."""
        return mean_interval([of(s) for s in self.scores])

    def gap(self, other: MixFinalist, of: Callable[[Score], float]) -> Estimate:
        """Mean difference to another one under the same seeds, with its interval."""
        return paired_difference([of(s) for s in self.scores], [of(s) for s in other.scores])


@dataclass(frozen=True, slots=True)
class MixLevel:
    """The race among mixes of exactly so many devices of each type.

    Parameters
    ----------
    counts : tuple of int
        Devices of each pool.
    amount : float
        What they count at most (`Aim.per_device`).
    finalists : tuple of MixFinalist
        Best first; empty where the race ended before its end.
    tried : int
        Mixes that raced.
    rounds : tuple of Rung
        The rounds.
    seen : (float, int)
        The best share of good requests in the last round, and on how many requests.
    """

    counts: Counts
    amount: float
    finalists: tuple[MixFinalist, ...]
    tried: int
    rounds: tuple[Rung, ...]
    seen: tuple[float, int]

    def reaching(self, target: float) -> tuple[MixFinalist, ...]:
        """Finalists that attain a target."""
        return tuple(f for f in self.finalists if f.attained >= target)


class MixSearch:
    """Finds levels of one model, each once.

    Parameters
    ----------
    runs : Runs
        Who simulates.
    demand : int
        Which of its models.
    shapes : sequence of Shapes
        The engines that are possible on each pool.
    space : SearchSpace
        The choices.
    effort : Effort
        How hard is searched.
    aim : Aim
        What is looked for.
    target : float
        Share of good requests that is to be reached.
    seed : int
        First seed; the last round takes the ones after it too.
    """

    def __init__(
        self, runs: Runs, demand: int, shapes: Sequence[Shapes], space: SearchSpace, effort: Effort, *, aim: Aim,
        target: float, seed: int,
    ) -> None:  # fmt: skip
        self.runs, self.demand, self.shapes, self.space, self.effort = runs, demand, shapes, space, effort
        self.aim, self.target, self.seed = aim, target, seed
        trace = runs.setting.demands[demand].traffic.trace(seed)
        self.requests, self.first_s = len(trace), float(trace.arrival[0])
        self._known: dict[Counts, MixLevel | None] = {}

    @property
    def fewest(self) -> int:
        """Fewest devices that can serve it at all."""
        sizes = [shape.devices for shapes in self.shapes for shape in shapes.possible]
        return min(sizes) * (2 if self.space.disaggregate == "only" else 1)

    def level(self, counts: Counts) -> MixLevel | None:
        """The level of so many devices of each pool; None if no mix uses exactly so many."""
        if counts not in self._known:
            among = list(self.mixes(counts))
            self._known[counts] = self._race(among, counts) if among else None
        return self._known[counts]

    @property
    def levels(self) -> tuple[MixLevel, ...]:
        """All that was found so far, by amount."""
        return tuple(sorted((x for x in self._known.values() if x is not None), key=lambda x: (x.amount, x.counts)))

    def amount(self, counts: Counts) -> float:
        """What so many devices count at most."""
        pools = self.runs.setting.fleet.pools
        return round(sum(n * self.aim.per_device(pool.spec) for n, pool in zip(counts, pools, strict=True)), 9)

    def value(self, found: MixFinalist) -> float:
        """What a finalist counts: its price, its power, its devices."""
        if self.aim.name == "energy":
            return found.power
        return self.amount(found.mix.counts(len(self.shapes)))

    def mixes(self, counts: Counts) -> Iterator[Mix]:
        """Every way to use exactly so many devices of each pool."""
        used = [pool for pool, n in enumerate(counts) if n]
        kinds = [list(self._parts(pool, counts[pool])) for pool in used]
        if self.space.disaggregate != "only":
            for parts in product(*kinds):
                routers = self.space.routers[: None if any(p.replicas > 1 for p in parts) else 1]
                for shares, router in product(_shares(len(parts), self.effort.share_steps), routers):
                    yield Mix(parts, shares, router)
        if self.space.disaggregate != "no":
            yield from self._apart(used, kinds)

    def _parts(self, pool: int, devices: int) -> Iterator[Part]:
        cluster = self.runs.setting.fleet.pools[pool]
        for shape in self.shapes[pool].possible:
            engines, left = divmod(devices, shape.devices)
            if not left and place([(shape.devices, shape.tp)] * engines, cluster) is not None:
                yield Part(pool, shape, engines)

    def _apart(self, used: Sequence[int], kinds: Sequence[Sequence[Part]]) -> Iterator[Mix]:
        """Prompts and decodes on engines of their own: on one type in every ratio, or each on another."""
        router = self.space.routers[0]
        able = [[p for p in parts if p.engine.splits] for parts in kinds]
        if len(used) == 1:
            for part in able[0]:
                for n in range(1, part.replicas):
                    yield Mix(_halves(part, part, n, part.replicas - n), router=router)
        if len(used) == 2:
            for one, other in product(*able):
                if one.engine.block_size == other.engine.block_size:
                    yield Mix(_halves(one, other, one.replicas, other.replicas), router=router)
                    yield Mix(_halves(other, one, other.replicas, one.replicas), router=router)

    def _race(self, among: list[Mix], counts: Counts) -> MixLevel:
        effort, bar = self.effort, self.target - FAR_OFF

        def evaluate(some: Sequence[Mix], requests: int) -> list[_Race]:
            return self._scores(some, requests)

        def better(score: _Race) -> tuple[float, ...]:
            return self._key(score.attained, score.slack, score.power_w)

        def hopeless(scores: Sequence[_Race]) -> bool:
            return max(s.attained for s in scores) < bar

        found = successive_halving(
            among, self.requests, evaluate, better, eta=effort.eta, finalists=effort.finalists,
            smallest=effort.smallest, hopeless=None if effort.eta == 1 else hopeless, kinds=Kinds(_kind, _near),
        )  # fmt: skip
        last = found.last or tuple((m, s) for m, s, _ in found.dropped[: found.rounds[-1].candidates])
        seen = max(s.attained for _, s in last), found.rounds[-1].budget
        chosen = [m for m, _ in found.last][: effort.finalists]
        finalists = sorted(
            map(self._finalist, chosen),
            key=lambda f: (tuple(-x for x in self._key(f.attained, f.slack, f.power)), among.index(f.mix)),
        )
        return MixLevel(counts, self.amount(counts), tuple(finalists), len(among), found.rounds, seen)

    def _key(self, attained: float, slack: float, power_w: float) -> tuple[float, ...]:
        """What mixes of equally many devices are compared by; larger is better."""
        if self.aim.name == "energy":
            return min(attained, self.target), -power_w, slack
        return attained, slack

    def _finalist(self, mix: Mix) -> MixFinalist:
        seeds = range(self.seed, self.seed + self.effort.seeds)
        scores, power = zip(*(self.runs.whole(self.demand, mix, seed) for seed in seeds), strict=True)
        return MixFinalist(mix, scores, power)

    def _scores(self, some: Sequence[Mix], requests: int) -> list[_Race]:
        """What mixes reach by their pieces, on the first requests of the first seed."""
        pieces = [mix.pieces() for mix in some]
        tasks = [Task(self.demand, piece, requests, self.seed) for each in pieces for piece in each]
        found = iter(self.runs(tasks))
        scores: list[_Race] = []
        for mix, each in zip(some, pieces, strict=True):
            mine = [next(found) for _ in each]
            good = sum(s.attained * s.requests for s in mine) / sum(s.requests for s in mine)
            lasts = max(s.last_s for s in mine) - self.first_s
            busy = [min(1.0, b / lasts) if lasts > 0 else 0.0 for s in mine for b in s.busy_s]
            scores.append(_Race(good, min(s.slack for s in mine), self.runs.setting.power_w(mix, busy)))
        return scores


@dataclass(frozen=True, slots=True)
class _Race:
    """What mixes race by: the share of good requests, the slack of the part that has least, the mean power."""

    attained: float
    slack: float
    power_w: float


def _kind(mix: Mix) -> tuple[Hashable, ...]:
    """On which devices, cut into what, and for what its engines are."""
    return tuple((part.pool, *part.engine.degrees, part.role) for part in mix.parts)


def _near(score: _Race, best: _Race) -> bool:
    return score.attained >= best.attained - FAR_OFF


def _halves(prefill: Part, decode: Part, prompts: int, decodes: int) -> tuple[Part, Part]:
    return (
        Part(prefill.pool, prefill.engine, prompts, "prefill"),
        Part(decode.pool, decode.engine, decodes, "decode"),
    )


def _shares(parts: int, steps: int) -> Iterator[tuple[int, ...]]:
    """Every way to deal so many steps to parts, at least one to each."""
    if parts == 1:
        yield (1,)
        return
    for cuts in combinations(range(1, steps), parts - 1):
        yield tuple(b - a for a, b in zip((0, *cuts), (*cuts, steps), strict=True))
