"""The schedulers that Themis is compared with (Themis §6.1), each reduced to what decides who gets free GPUs.

=============  =========================================================================  =========
policy         who is next                                                                leases
=============  =========================================================================  =========
fifo           the first to arrive                                                        no
drf            the smallest share of the cluster at the moment, GPU by GPU                no
tiresias       the least GPU time so far (LAS)                                            yes
tiresias-2q    queues by GPU time so far, first to arrive within a queue                  yes
gandiva        the best placement score that the free GPUs allow                          yes
optimus        the largest gain in throughput by one GPU more, where it would be          yes
slaq           the largest fall of its loss within a lease                                yes
srtf           the shortest remaining time with the free GPUs                             yes
srsf           the least remaining GPU time, GPU by GPU                                   yes
finish-time    the largest ρ (the straw man of §3.3, which lying pays off under)          yes
=============  =========================================================================  =========

Which GPUs an app is given is an option of all of them, `placement`: its own of before first, then the nearest, or any.
Gandiva alone also migrates: it takes other GPUs than an app's own of before where these score higher. Where offers are
compared (gandiva, optimus, slaq, srtf, finish-time), equals draw lots (`ties`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ....errors import InputError
from ....wording import nearest
from ..cluster import SharedCluster
from .agent import AppView, Shape
from .contract import Greedy, Policy
from .nearness import Chooser, Placement
from .offers import TIES, BestOffer, LargestGain, Ties, more, speed

__all__ = ["BASELINES", "BestOffer", "GpuByGpu", "LargestGain", "baseline", "draws_ties", "is_baseline", "window_s"]

TIRESIAS_QUEUE_S = 3250.0
"""GPU seconds after which Tiresias moves a job to its second queue (the first limit of its public simulator)."""


@dataclass(frozen=True, slots=True)
class GpuByGpu:
    """GPUs one by one (as many at once as a gang needs to start), each to the app that is first by a key now.

    Parameters
    ----------
    name : str
        What results call it.
    key : callable
        (view, GPUs that it has by then) -> what apps are sorted by, smallest first; ties to the lower number.
    preempts : bool
        Whether GPUs are leased.
    chooser : Chooser
        Which GPUs an app is given.
    """

    name: str
    key: Callable[[SharedCluster, AppView, tuple[int, ...]], float]
    preempts: bool = True
    chooser: Chooser = field(default_factory=Chooser)

    def begin(self) -> None:
        """Forget: a world begins."""
        self.chooser.decisions = 0

    def assign(self, cluster: SharedCluster, offered: Sequence[int], apps: Sequence[AppView]) -> Mapping[int, int]:
        """See `Policy.assign`."""
        self.chooser.decisions += 1
        pool, given = set(offered), dict[int, int]()
        have = {v.index: v.held for v in apps}
        able = {v.index: v for v in apps if v.wanted > 0}
        while pool and able:
            view = min(able.values(), key=lambda v: (self.key(cluster, v, have[v.index]), v.index))
            got = len(have[view.index]) - len(view.held)
            mine = more(cluster, pool, view, have[view.index], view.wanted - got, self.chooser)
            if not mine:
                # The pool only shrinks from here on: who cannot start with it now cannot start later in this round.
                del able[view.index]
                continue
            pool.difference_update(mine)
            given.update(dict.fromkeys(mine, view.index))
            have[view.index] = tuple(sorted((*have[view.index], *mine)))
        return given


def _placement_score(cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
    usable = min(len(gpus), sum(j.cap for j in view.jobs))
    return speed(cluster, view, gpus) / usable if usable else 0.0


@dataclass(frozen=True, slots=True)
class _LossFall:
    """SLAQ's rule: how much an app's losses fall within a lease. Instances compare equal, whatever their leases."""

    lease_s: float = field(compare=False)

    def __call__(self, cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
        left = sum(j.left_s for j in view.jobs)
        done = min(1.0, speed(cluster, view, gpus) * self.lease_s / left) if left else 1.0
        total = 0.0
        for j in view.jobs:
            whole = view.job_work_s(j.job)
            before = 1.0 - j.left_s / whole
            curve = view.app.jobs[j.job].loss
            total += curve.at(before) - curve.at(before + done * (1.0 - before))
        return total


def _remaining(cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
    return -view.remaining_s(Shape.of(cluster, gpus))


def _arrival(view: AppView) -> float:
    return view.app.arrival_s


def _attained(view: AppView) -> float:
    return view.attained_s


def _share(cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
    return float(len(gpus))


def _left(cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
    return view.left_s


def _unfairness(cluster: SharedCluster, view: AppView, gpus: tuple[int, ...]) -> float:
    return view.rho(Shape.of(cluster, (*view.held, *view.lapsed)))


def _tiresias_queue(view: AppView) -> float:
    """Queue, then arrival: one number for both, as arrivals stay below the step between queues (`world.LATEST_S`)."""
    return float(view.attained_s >= TIRESIAS_QUEUE_S) * 1e12 + view.app.arrival_s


def baselines(
    lease_s: float = 600.0, placement: Placement = "near", seed: int = 0, ties: Ties = "lot"
) -> Mapping[str, Policy]:
    """The policies by name.

    Parameters
    ----------
    lease_s : float
        Seconds ahead for which SLAQ predicts the fall of the loss.
    placement : {"near", "blind"}
        Which GPUs an app gets in addition to those that it has: the nearest, or random ones. Its jobs divide the app's
        GPUs by nearness in either case.
    seed : int
        Seed of the random choice, and of lots.
    ties : {"lot", "first"}
        Who wins of apps whose offers are worth the same: a lot decides, or the lower number.

    Raises
    ------
    InputError
        If the lease is not positive, the placement or the word for ties unknown, or the seed negative.
    """
    if not lease_s > 0:
        raise InputError(f"policy: lease_s: expected seconds > 0 (got {lease_s})")
    if ties not in TIES:
        raise InputError(f"policy: ties: expected one of {', '.join(TIES)} (got {ties!r})")

    def choose() -> Chooser:
        return Chooser(placement, seed)

    made: tuple[Policy, ...] = (
        Greedy("fifo", _arrival, preempts=False, chooser=choose()),
        GpuByGpu("drf", _share, preempts=False, chooser=choose()),
        Greedy("tiresias", _attained, chooser=choose()),
        Greedy("tiresias-2q", _tiresias_queue, chooser=choose()),
        BestOffer("gandiva", _placement_score, chooser=choose(), ties=ties, migrates=True),
        LargestGain("optimus", chooser=choose(), ties=ties),
        BestOffer("slaq", _LossFall(lease_s), chooser=choose(), ties=ties),
        BestOffer("srtf", _remaining, chooser=choose(), ties=ties),
        GpuByGpu("srsf", _left, chooser=choose()),
        BestOffer("finish-time", _unfairness, chooser=choose(), ties=ties),
    )
    return MappingProxyType({policy.name: policy for policy in made})


SHIPPED = (Greedy, GpuByGpu, LargestGain, BestOffer)

_KNOWN = baselines()

BASELINES = tuple(_KNOWN)
"""Names of the policies."""


def is_baseline(policy: Policy) -> bool:
    """Whether a policy is one of these, by what it does: a policy of one's own may have the name of one."""
    if not isinstance(policy, SHIPPED) or policy.name not in _KNOWN:
        return False
    known = _KNOWN[policy.name]
    return type(policy) is type(known) and policy.preempts == known.preempts and _rule(policy) == _rule(known)


def window_s(policy: Policy, default_s: float) -> float:
    """Within which seconds a policy looks at the loss, if it does."""
    rule = policy.score if isinstance(policy, BestOffer) else None
    return rule.lease_s if isinstance(rule, _LossFall) else default_s


def draws_ties(policy: Policy) -> bool:
    """Whether equals draw lots under a policy."""
    return isinstance(policy, (BestOffer, LargestGain)) and policy.ties == "lot"


def _rule(policy: Policy) -> object:
    if isinstance(policy, BestOffer):
        return policy.score, policy.migrates
    return getattr(policy, "key", None)


def baseline(
    name: str, lease_s: float = 600.0, placement: Placement = "near", seed: int = 0, ties: Ties = "lot"
) -> Policy:
    """Make a baseline policy by name; `BASELINES` lists them, and the module `baselines` describes the arguments.

    Raises
    ------
    InputError
        If there is no policy of this name (the message names the nearest), the lease is not positive, the placement or
        the word for ties is unknown, or the seed is negative.
    """
    known = baselines(lease_s, placement, seed, ties)
    if name not in known:
        near = nearest(name, tuple(known))
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
        raise InputError(f"policy: unknown sharing policy {name!r}; {hint}")
    return known[name]
