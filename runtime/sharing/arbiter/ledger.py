"""`Ledger`: the arbiter's books: which app has which GPU until when, what each had so far, what the policy decided.

It knows no clock: the caller says what time it is, in the world's seconds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ....errors import RunError
from ....simulator.sharing.policy.agent import AppView
from ....simulator.sharing.policy.contract import Policy
from ....simulator.sharing.policy.split import RunningJob
from ....simulator.sharing.result.columns import AppRecord, Grant
from ....simulator.sharing.workload.app import Slowdown
from ....simulator.sharing.world import SharingWorld
from ..messages import State

__all__ = ["Decision", "Ledger"]


@dataclass
class _Book:
    """An app in the cluster."""

    arrived: float  # when the books knew of it: later than it arrived, by what messages take
    integral: float  # of the number of apps, up to then
    since: float
    state: State
    gpus: set[int] = field(default_factory=set[int])
    attained_s: float = 0.0
    started: float = math.nan
    placed: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # allocations of its jobs, by `Level`


@dataclass(frozen=True, slots=True)
class Decision:
    """GPUs that change hands by a decision.

    Parameters
    ----------
    taken : dict of int to set of int
        For each app that loses GPUs, those GPUs.
    given : dict of int to tuple of int
        For each app whose GPUs change, all GPUs that it has then.
    """

    taken: dict[int, set[int]]
    given: dict[int, tuple[int, ...]]


class Ledger:
    """The arbiter's books for one run: which app holds which GPUs, leases, and the outcome of every app.

    Parameters
    ----------
    world : SharingWorld
        Cluster, apps, leases.
    policy : Policy
        Decides which app gets which GPUs.
    """

    def __init__(self, world: SharingWorld, policy: Policy) -> None:
        self.world, self.policy, self.cluster = world, policy, world.cluster
        self.apps = list(world.apps)  # more may come than the world knew of
        self.now_s = 0.0
        self.active: dict[int, _Book] = {}
        self.records: dict[int, AppRecord] = {}
        self.granted: list[Grant] = []
        self.owner = [-1] * self.cluster.n_gpus
        self.lapsed: set[int] = set()
        self.down: set[int] = set()
        self._lease = [0] * self.cluster.n_gpus
        self._leases: list[tuple[float, int, tuple[int, ...]]] = []
        self._integral = 0.0

    def advance(self, now_s: float) -> None:
        """Let time pass; it never goes back, though messages may cross."""
        now_s = max(now_s, self.now_s)
        self._integral += len(self.active) * (now_s - self.now_s)
        self.now_s = now_s

    # ---- apps come, report and go

    def arrive(self, app: int, state: State) -> None:
        """An app is there."""
        self.advance(state.at_s)
        self.active[app] = _Book(self.now_s, self._integral, self.now_s, state)

    def update(self, app: int, state: State) -> None:
        """An app says how it stands: what its jobs do not use goes back."""
        self.advance(state.at_s)
        if state.over:
            self.leave(app, completed=True)
            return
        book = self.active[app]
        had = {j.job: j.gpus for j in book.state.jobs} if state.phase == book.state.phase else {}
        for j in state.jobs:
            if j.gpus and j.gpus != had.get(j.job, ()):
                book.placed[self.cluster.level(j.gpus)] += 1
        book.state = state
        self.take(app, book.gpus.difference(g for j in state.jobs for g in j.gpus))

    def leave(self, app: int, *, completed: bool) -> None:
        """An app is gone, done or not."""
        book = self.active[app]
        self.take(app, set(book.gpus))
        del self.active[app]
        self.records[app] = AppRecord(
            app, book.started, self.now_s, completed, book.attained_s, self._contention(book), tuple(book.placed)
        )

    def switch(self, machine: int, *, up: bool) -> set[int]:
        """A machine fails or is back; apps that have GPUs on it (they lose them)."""
        gpus = {g for g in range(self.cluster.n_gpus) if self.cluster.machine_of[g] == machine}
        if up:
            self.down -= gpus
            return set()
        self.down |= gpus
        return {self.owner[g] for g in gpus} - {-1}

    # ---- GPUs

    def take(self, app: int, gpus: Iterable[int]) -> None:
        """GPUs go back."""
        book = self.active[app]
        self._account(book)
        for g in gpus:
            self.owner[g] = -1
            self.lapsed.discard(g)
            book.gpus.discard(g)

    def next_lease_s(self) -> float:
        """Time at which the next lease ends; infinite if none runs."""
        while self._leases and not self._bound(self._leases[0]):
            heapq.heappop(self._leases)
        return self._leases[0][0] if self._leases else math.inf

    def lapse(self, now_s: float) -> bool:
        """Put GPUs whose lease ends by `now_s` on offer again; returns whether there were any."""
        any_over = False
        while self.next_lease_s() <= now_s:
            lease = heapq.heappop(self._leases)
            self.advance(lease[0])
            self.lapsed |= self._bound(lease)
            any_over = True
        return any_over

    def _bound(self, lease: tuple[float, int, tuple[int, ...]]) -> set[int]:
        return {g for g in lease[2] if self._lease[g] == lease[1] and self.owner[g] >= 0}

    def leased_until(self, app: int) -> float | None:
        """Time at which the first lease of an app's GPUs ends; None if none runs."""
        mine = self.active[app].gpus
        return min((lease[0] for lease in self._leases if self._bound(lease) & mine), default=None)

    def mirror(self, app: int, held: Iterable[int], lapsed: Iterable[int]) -> None:
        """Enter an app's GPUs as another arbiter gave them."""
        book, over = self.active[app], set(lapsed)
        gpus = over.union(held)
        self.take(app, book.gpus - gpus)
        for other, theirs in self.active.items():
            if other != app and theirs.gpus & gpus:
                self.take(other, theirs.gpus & gpus)
        book.gpus |= gpus
        for g in gpus:
            self.owner[g] = app
        self.lapsed = (self.lapsed - gpus) | over

    def offered(self) -> list[int]:
        """GPUs that are free or whose lease is over."""
        free = {g for g, owner in enumerate(self.owner) if owner < 0 and g not in self.down}
        return sorted(free | self.lapsed)

    def decide(self) -> Decision:
        """Ask the policy once, and write down who has what.

        Raises
        ------
        RunError
            If the policy fails, or gives what is not on offer or to whom is not there.
        """
        offered, lapsed = self.offered(), sorted(self.lapsed)
        views = [self.view(app) for app in sorted(self.active)]
        try:
            given = dict(self.policy.assign(self.cluster, offered, views))
        except Exception as error:
            raise RunError(
                f"run_sharing: policy {self.policy.name} failed at {self.now_s:.6g} s: {type(error).__name__}: {error}"
            ) from error
        wrong = next((g for g, app in given.items() if g not in offered or app not in self.active), None)
        if wrong is not None:
            raise RunError(
                f"run_sharing: policy {self.policy.name} gave GPU {wrong} to app {given[wrong]} at {self.now_s:.6g} s; "
                f"on offer are {offered}, in the cluster {sorted(self.active)}"
            )
        taken: dict[int, set[int]] = {}
        for g in lapsed:
            if given.get(g, -1) != self.owner[g]:
                taken.setdefault(self.owner[g], set()).add(g)
        for app, gpus in taken.items():
            self.take(app, gpus)
        touched = set(taken)
        winners: dict[int, list[int]] = {}
        for g, app in sorted(given.items()):
            winners.setdefault(app, []).append(g)
        for app, gpus in sorted(winners.items()):
            touched |= {app for g in gpus if self.owner[g] != app}
            self._grant(app, gpus)
        return Decision(taken, {app: tuple(sorted(self.active[app].gpus)) for app in sorted(touched)})

    def _grant(self, app: int, gpus: list[int]) -> None:
        book = self.active[app]
        self._account(book)
        number = max(self._lease) + 1
        for g in gpus:
            self.owner[g], self._lease[g] = app, number
            book.gpus.add(g)
            self.lapsed.discard(g)
        if math.isnan(book.started):
            book.started = self.now_s
        if self.policy.preempts and math.isfinite(self.world.lease_s):
            heapq.heappush(self._leases, (self.world.lease_end_s(self.now_s), number, tuple(gpus)))
        self.granted.append(Grant(self.now_s, app, tuple(sorted(book.gpus))))

    def _account(self, book: _Book) -> None:
        book.attained_s += len(book.gpus) * (self.now_s - book.since)
        book.since = self.now_s

    def _contention(self, book: _Book) -> float:
        lived = self.now_s - book.arrived
        return max((self._integral - book.integral) / lived, 1.0) if lived > 0 else float(max(len(self.active), 1))

    def view(self, app: int) -> AppView:
        """The view of an app that the policy gets."""
        book = self.active[app]
        self._account(book)
        spec, phase = self.apps[app], book.state.phase
        jobs = tuple(
            RunningJob(j.job, j.left_s, spec.cap(phase, j.job), spec.jobs[j.job].gang, j.gpus) for j in book.state.jobs
        )
        return AppView(
            app, spec, self.now_s, phase, jobs, tuple(sorted(book.gpus - self.lapsed)),
            tuple(sorted(book.gpus & self.lapsed)), book.attained_s, self._contention(book), self.cluster.n_gpus,
            self.world.convention, self._believed(book.state),
        )  # fmt: skip

    def _believed(self, state: State) -> Slowdown | None:
        """What an app's agent believes that distance costs: what it reported, where agents learn."""
        beliefs = self.world.beliefs
        if beliefs.slowdown == "known":
            return None
        told = state.slowdown if beliefs.slowdown == "learned" else None
        return beliefs.start if told is None else Slowdown(*told)
