"""`Themis`: the arbiter's policy, round by round (Themis §3.3.2, §4.2): visibility, filter, auction, leftovers."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal

from ...errors import InputError
from ...reprs import Shown
from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.policy.agent import AppView
from ...simulator.sharing.policy.nearness import pick
from .auction import ROUNDINGS, Had, Rounding, auction
from .bidding import bid_of, current_rho
from .bids import GRAIN, STARVED, Bid, log_worth
from .lots import lot

if TYPE_CHECKING:
    from ...simulator.sharing.compiled.run import Run
    from ...simulator.sharing.world import SharingWorld

__all__ = ["Themis"]


@dataclass(repr=False)
class Themis(Shown):
    """Finish-time fair sharing by partial-allocation auctions.

    Parameters
    ----------
    fairness : float
        f: the share 1 − f of the apps with the worst ρ take part in an auction, at least one. The default 0.8 is what
        the paper chooses (§6.4). Its §4.2.2 says f where §3 and the pseudocode say 1 − f; the latter is followed.
    payments : bool
        Whether winners pay.
    rounding : {"random", "nearest", "floor"}
        How many of c·n GPUs a winner keeps; see `auction`.
    visibility : {"cached", "current"}
        The ρ by which apps are ranked. "cached": what the table of an app's last bid says about the number of GPUs that
        it has now, so that it does not pay to lie at this point (Theorem 3.3). "current": what the app says now.
    leftovers : {"participants", "idle"}
        Who gets GPUs that neither the winners nor the apps outside the auction take. "participants": those that took
        part, the worst first, so that no usable GPU is idle. "idle": nobody until the next auction, so that payments
        are really lost. The paper does not say.
    seed : int
        Seed of the lots for leftovers and rounding.
    steps : int
        The search for an allocation stops after so many steps; `gap` tells how much better another could be. The
        default is a guess that keeps a round below a second.

    Raises
    ------
    InputError
        If f is outside [0, 1], a choice is unknown, the seed is outside [0, 2⁶³), or steps is less than 1.
    """

    fairness: float = 0.8
    payments: bool = True
    rounding: Rounding = "random"
    visibility: Literal["cached", "current"] = "cached"
    leftovers: Literal["participants", "idle"] = "participants"
    seed: int = 0
    steps: int = 20_000
    name: str = "themis"
    preempts: bool = True
    auctions: int = field(default=0, init=False)
    gap: float = field(default=0.0, init=False)
    _tables: dict[int, tuple[int, Bid]] = field(default_factory=dict[int, tuple[int, Bid]], init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.fairness, Real) or not 0 <= self.fairness <= 1:
            raise InputError(
                f"Themis.fairness: f is the share of apps that stay out, in [0, 1] (got {self.fairness!r})"
            )
        for name, known in (
            ("rounding", ROUNDINGS), ("visibility", ("cached", "current")), ("leftovers", ("participants", "idle")),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise InputError(f"Themis.{name}: expected one of {', '.join(known)} (got {getattr(self, name)!r})")
        for name, least in (("seed", 0), ("steps", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or not least <= int(value) < 1 << 63:
                raise InputError(f"Themis.{name}: expected an integer in {least} … 2^63 - 1 (got {value!r})")

    def begin(self) -> None:
        """Forget everything, because a new simulation begins."""
        self.auctions, self.gap = 0, 0.0
        self._tables.clear()

    def run_compiled(self, world: SharingWorld) -> Run:
        """Simulate in compiled code; see `simulator.sharing.compiled.engine`."""
        from .compiled import simulate_themis

        return simulate_themis(world, self)

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `simulator.sharing.Policy.assign`."""
        self.auctions += 1
        wanting = [v for v in apps if v.wanted > 0]
        if not wanting:
            return {}
        # Lowest log 1/ρ is the worst; of apps that all stand still (ρ = ∞), the one that has waited longest for its
        # size.
        ranked = sorted(wanting, key=lambda v: (self._visible(cluster, v), -self._waiting(v), v.index))
        # The margin undoes rounding errors: (1 − 0.7) · 10 is 3.0000000000000004, and must not be rounded up to 4.
        n = max(1, math.ceil((1 - self.fairness) * len(apps) - 1e-9))
        inside = self._startable(cluster, len(offered), ranked[:n])
        taking_part = {v.index for v in inside}
        outside = [v for v in ranked if v.index not in taking_part]
        bids = [bid_of(cluster, offered, v) for v in inside]
        self._tables.update((v.index, (len(v.held), b)) for v, b in zip(inside, bids, strict=True))
        outcome = auction(
            cluster, offered, bids, had=Had({v.index: v.lapsed for v in inside}, {v.index: v.held for v in inside}),
            payments=self.payments, rounding=self.rounding, seed=self.seed, number=self.auctions, steps=self.steps,
        )  # fmt: skip
        self.gap = max(self.gap, outcome.gap)
        given = {g: app for app, gpus in outcome.gpus.items() for g in gpus}
        pool = set(outcome.leftover)
        lots = sorted(outside, key=lambda v: lot(self.seed, self.auctions, v.index))
        # The paper says "at random", and not what if nobody stayed out.
        for view in (*lots, *(inside if self.leftovers == "participants" else ())):
            mine = _more(cluster, pool, view, outcome.gpus.get(view.index, ()))
            given.update(dict.fromkeys(mine, view.index))
            pool.difference_update(mine)
        return given

    def _startable(self, cluster: SharedCluster, offered: int, inside: Sequence[AppView]) -> Sequence[AppView]:
        """Who takes part of those whom the filter lets in: all, unless more of them stand still than GPUs can start.

        The product of 1/ρ is 0 for all of these, whoever gets GPUs, and among those with one GPU it is largest for who
        is off the best. So those that have waited the longest take part: who loses rounds wins the next one (§3.3.2).
        """
        still = [v for v in inside if self._visible(cluster, v) <= STARVED]
        first: list[AppView] = []
        for view in still:
            need = max(view.gang - len(view.held), 1)
            if need <= offered:
                offered -= need
                first.append(view)
        return first if 0 < len(first) < len(still) else inside

    def _visible(self, cluster: SharedCluster, view: AppView) -> float:
        """The log 1/ρ by which the app is ranked."""
        if self.visibility == "cached" and view.index in self._tables:
            kept, table = self._tables[view.index]
            n = len(view.held) + len(view.lapsed)
            more = max(n - kept, 0)
            return max(log_worth(row.rho) for row in table.rows if row.gpus <= more) if n else STARVED
        return log_worth(current_rho(cluster, view))

    @staticmethod
    def _waiting(view: AppView) -> float:
        """How long the app has waited, relative to its ideal time. It ranks apps that do not run, which all have ρ =
        ∞."""
        return round((view.now_s - view.app.arrival_s) / view.ideal_s * GRAIN) / GRAIN


def _more(cluster: SharedCluster, pool: set[int], view: AppView, won: Sequence[int]) -> tuple[int, ...]:
    """All GPUs of the pool that an app can use in whole gangs: those that it had before, then the nearest."""
    n, have = min(view.wanted - len(won), len(pool)), (*view.held, *won)
    n = view.usable(len(have) + n) - len(have)
    if n <= 0 or n + len(have) < view.gang:
        return ()
    own = tuple(g for g in view.lapsed if g in pool)[:n]
    return (*own, *pick(cluster, pool.difference(own), n - len(own), (*have, *own)))
