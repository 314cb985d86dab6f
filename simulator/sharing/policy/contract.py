"""`Policy`: which app gets the GPUs that are free. It knows no clock: the simulator or the real arbiter calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ....errors import InputError
from ....reprs import Shown
from ..cluster import SharedCluster
from .agent import AppView
from .nearness import Chooser

__all__ = ["Greedy", "Policy", "check_answer", "grants"]


class Policy(Protocol):
    """A sharing policy. The simulator and the real arbiter drive these very objects."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    @property
    def preempts(self) -> bool:
        """Whether GPUs are leased and offered again when the lease is over; if not, an app keeps them while it can
        use them."""
        ...

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """Give GPUs on offer to apps.

        Parameters
        ----------
        cluster : SharedCluster
            The cluster.
        offered : sequence of int
            GPUs that are free or whose lease is over, ascending.
        apps : sequence of AppView
            Every app in the cluster, by its number, ascending.

        Returns
        -------
        mapping of int to int
            GPU -> number of the app; what is missing stays free.
        """
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Greedy(Shown):
    """A greedy policy: it serves apps in the order of a key and gives each one all GPUs that it can use.

    Parameters
    ----------
    name : str
        Its name in results.
    key : callable
        Sorting key of apps, smallest first; ties go to the lower number.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Chooses which GPUs an app is given.
    """

    name: str
    key: Callable[[AppView], float]
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1
        pool, given = set(offered), dict[int, int]()
        for view in sorted(apps, key=lambda v: (self.key(v), v.index)):  # the number: equal keys, one order
            if not pool:
                break
            mine = grants(cluster, pool, view, view.wanted, self.chooser)
            given.update(dict.fromkeys(mine, view.index))
            pool.difference_update(mine)
        return given


def grants(cluster: SharedCluster, pool: set[int], view: AppView, n: int, chooser: Chooser) -> tuple[int, ...]:
    """Up to `n` GPUs of the pool for an app: those that it had first, then what is chosen; none that its gangs leave
    over, none if no job of it could run with them."""
    n = view.usable(len(view.held) + min(n, len(pool))) - len(view.held)
    if n <= 0 or n + len(view.held) < view.gang:
        return ()
    kept = tuple(g for g in view.lapsed if g in pool)[:n]
    more = chooser.take(cluster, pool.difference(kept), n - len(kept), (*view.held, *kept))
    return tuple(sorted((*kept, *more)))


def check_answer(name: str, given: Mapping[int, int], offered: Sequence[int], apps: Sequence[int]) -> None:
    """A policy of one's own may err: a GPU has one owner, and an owner is in the cluster.

    Raises
    ------
    InputError
        If it gives what is not on offer, or to an app that is not there.
    """
    for g in sorted(given.keys() - set(offered)):
        raise InputError(f"policy {name!r}: gives GPU {g}, which is not on offer (on offer: {list(offered)})")
    for index in sorted(set(given.values()) - set(apps)):
        raise InputError(
            f"policy {name!r}: gives GPUs to app {index}, which is not in the cluster (it has {list(apps)})"
        )
