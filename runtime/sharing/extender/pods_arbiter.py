"""`Extender`: an arbiter for pods. kube-scheduler asks it on which nodes a pod fits; agents tell it how apps stand.

It knows the books and the policies of `Ledger`, and no HTTP: `service` is its HTTP side. Time is given by its caller,
in seconds since it began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ....errors import InputError
from ....simulator.sharing.cluster import Machine, SharedCluster
from ....simulator.sharing.policy.agent import AppView
from ....simulator.sharing.policy.split import RunningJob, split
from ....simulator.sharing.workload.app import App
from ....simulator.sharing.world import SharingWorld
from ....wording import short
from ..arbiter.ledger import Ledger
from ..documents import from_document
from ..messages import JobState, Report, State
from ..tenants import Forbidden, Tenants, Unknown, check_arrival
from .pods import APP, read_question
from .task import ExtenderTask

__all__ = ["Extender", "PodUse"]

MOST_APPS = 1000
"""Most apps in the cluster at one time, so that a decision ends before kube-scheduler gives up. A guess."""


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod that was placed: of which app, on which node, with how many GPUs; `uid` tells it from one of its name."""

    app: str
    node: str
    gpus: int
    uid: str


class Extender:
    """The arbiter behind a kube-scheduler extender: which apps hold which GPUs until when, and which pods use them.

    Parameters
    ----------
    task : ExtenderTask
        Cluster, policy and lease.
    decides : bool
        Whether it is the arbiter; if not, another arbiter asks it for views.
    admin_key : str, optional
        Key of the cluster's administrator, valid for every app.

    Raises
    ------
    InputError
        If the policy or the cluster is invalid, or two nodes have the same name.
    """

    def __init__(self, task: ExtenderTask, *, decides: bool = True, admin_key: str | None = None) -> None:
        self.decides, self.tenants = decides, Tenants(admin_key)
        self.nodes = [m.node for m in task.machines]
        twice = [name for name, count in Counter(self.nodes).items() if count > 1]
        if twice:
            raise InputError(f"extender: two machines are node {twice[0]!r}; give each a name of its own")
        self.cluster = SharedCluster(tuple(Machine(m.slots, m.gpus_per_slot, m.rack) for m in task.machines))
        self.policy = task.choice.make()
        world = SharingWorld(self.cluster, (), lease_s=task.lease_s, lease_ends=task.lease_ends)
        self.ledger = Ledger(world, self.policy)
        self.numbers: dict[str, int] = {}  # apps in the cluster; numbers are not used again
        self.pods: dict[str, PodUse] = {}

    # ---- agents

    def register(self, document: Any, now_s: float, *, namespace: str = "default", key: str | None = None) -> int:
        """Register an arriving app; returns its number.

        Parameters
        ----------
        document : Any
            The fields of an `App`; it arrives now, whatever its arrival time says.
        now_s : float
            The present time, seconds.
        namespace : str
            Namespace of its pods.
        key : str, optional
            Secret that later calls for this app must show; by default one is drawn (`tenants.key`).

        Raises
        ------
        InputError
            If the document is no app, its name is taken, it is larger than the cluster, or there are too many apps.
        """
        if isinstance(document, dict):
            document = {**cast("dict[str, Any]", document), "arrival_s": now_s}
        app = from_document(App, document, "app")
        if app.name in self.numbers:
            raise InputError(f"app: there is one called {app.name!r}; end that one first, or take another name")
        if len(self.numbers) >= MOST_APPS:
            raise InputError(f"app: there are {MOST_APPS} apps, and no more at a time; end one first")
        check_arrival(app, self.cluster)
        self.tenants.add(app.name, namespace, key)
        number = len(self.ledger.apps)
        self.ledger.apps.append(app)
        self.numbers[app.name] = number
        first = app.phases[0]
        works = zip(first.jobs, first.iterations, strict=True)
        jobs = tuple(JobState(job=j, left_s=n * app.jobs[j].iteration_s) for j, n in works)
        self.ledger.arrive(number, State(at_s=now_s, phase=0, jobs=jobs))
        self.decide(now_s)
        return number

    def report(self, name: str, report: Report, now_s: float) -> None:
        """Take an agent's report: the app's phase, and the work that is left of each job.

        Raises
        ------
        InputError
            If there is no such app, phase or job, the phase is over, or more is left of a job than it had.
        """
        number = self._number(name)
        app = self.ledger.apps[number]
        before = self.ledger.active[number].state.phase
        if report.phase < before:
            raise InputError(f"app {name!r}: phase: {before} has begun (got {report.phase}); phases do not come again")
        if report.phase >= len(app.phases):
            raise InputError(f"app {name!r}: phase: there are {len(app.phases)} (got {report.phase})")
        known = app.phases[report.phase].jobs
        unknown = [j.job for j in report.jobs if j.job not in known]
        if unknown or len({j.job for j in report.jobs}) < len(report.jobs):
            raise InputError(
                f"app {name!r}: jobs: phase {report.phase} has {list(known)}, each once (got "
                f"{[j.job for j in report.jobs]})"
            )
        if not report.jobs:
            raise InputError(f"app {name!r}: jobs: expected what is left of at least one; an app that is done leaves")
        phase = app.phases[report.phase]
        for job in report.jobs:
            had = phase.iterations[known.index(job.job)] * app.jobs[job.job].iteration_s
            if job.left_s > had * (1 + 1e-6):  # agents may have rounded
                raise InputError(
                    f"app {name!r}: job {job.job}: it had {had:g} GPU seconds in phase {report.phase} (got "
                    f"{job.left_s:g} left)"
                )
        self.ledger.advance(now_s)
        left = tuple(JobState(job=j.job, left_s=j.left_s) for j in report.jobs)
        self._divide(number, State(at_s=now_s, phase=report.phase, jobs=left))
        self.decide(now_s)

    def leave(self, name: str, now_s: float, *, completed: bool = True) -> None:
        """Remove an app that is done or given up; its GPUs become free.

        Raises
        ------
        InputError
            If there is no such app.
        """
        number = self._number(name)
        self.ledger.advance(now_s)
        self.ledger.leave(number, completed=completed)
        del self.numbers[name]
        self.tenants.remove(name)
        self.pods = {pod: use for pod, use in self.pods.items() if use.app != name}
        self.decide(now_s)

    def standing(self, name: str) -> dict[str, Any]:
        """What an agent is told: the GPUs of each of its jobs, by node, and when the first lease ends.

        Raises
        ------
        InputError
            If there is no such app.
        """
        number = self._number(name)
        book = self.ledger.active[number]
        jobs = {str(j.job): dict(self._by_node(j.gpus)) for j in book.state.jobs if j.gpus}
        return {"nodes": dict(self._by_node(book.gpus)), "jobs": jobs, "until_s": self.ledger.leased_until(number)}

    def view(self, name: str, number: int, held: Sequence[int], lapsed: Sequence[int], now_s: float) -> AppView:
        """The view of an app for another arbiter's policy; that arbiter says which GPUs the app has.

        Raises
        ------
        InputError
            If there is no such app, or no such GPU, or GPUs are this arbiter's to give.
        """
        if self.decides:
            raise Forbidden("view: this service gives GPUs itself; ask one that was started with --views-only")
        mine = self._number(name)
        gpus = [*held, *lapsed]
        if len(set(gpus)) < len(gpus) or not all(0 <= g < self.cluster.n_gpus for g in gpus):
            raise InputError(f"app {name!r}: expected different GPUs below {self.cluster.n_gpus} (got {short(gpus)})")
        self.ledger.advance(now_s)
        self.ledger.mirror(mine, held, lapsed)
        self._divide(mine, self.ledger.active[mine].state)
        return replace(self.ledger.view(mine), index=number, held=tuple(held), lapsed=tuple(lapsed))

    # ---- decisions

    def decide(self, now_s: float) -> None:
        """Offer free GPUs, and those whose lease is over, to the apps."""
        ledger = self.ledger
        if self.decides:
            ledger.lapse(now_s)
        ledger.advance(now_s)
        if not self.decides or not ledger.active or not ledger.offered():
            return
        for number in ledger.decide().given:
            self._divide(number, ledger.active[number].state)

    def _divide(self, number: int, state: State) -> None:
        """An app's GPUs over its jobs, as the simulator divides them; what none can use goes back."""
        app, world = self.ledger.apps[number], self.ledger.world
        gpus = self.ledger.active[number].gpus
        jobs = [
            RunningJob(
                j.job, j.left_s, app.cap(state.phase, j.job), app.jobs[j.job].gang,
                tuple(g for g in j.gpus if g in gpus),
            )
            for j in state.jobs
        ]  # fmt: skip
        shares = split(self.cluster, sorted(gpus), jobs, app.slowdown, world.checkpoint_s + world.container_s)
        told = tuple(JobState(job=j.job, left_s=j.left_s, gpus=shares[j.job]) for j in state.jobs)
        self.ledger.update(number, State(at_s=self.ledger.now_s, phase=state.phase, jobs=told))

    # ---- pods

    def filter(self, arguments: Any, now_s: float) -> dict[str, Any]:
        """kube-scheduler's question on which nodes a pod fits (ExtenderArgs → ExtenderFilterResult).

        A pod fits on a node where its app holds enough GPUs that no other pod of the app uses. The answer names one
        node only, so that the extender knows where the pod will be.
        """
        try:
            pod, n, nodes = read_question(arguments)
        except InputError as error:
            return _error(str(error))
        if not self.decides:
            return _error("this service answers views only: ask the plugin")
        app, uid = pod.app, pod.metadata.uid
        if app is None:
            return _refused(nodes, f"the pod has no label {APP}")
        if app not in self.numbers:
            return _refused(nodes, f"no agent has registered app {short(app)}")
        if self.tenants.namespace(app) != pod.metadata.namespace:
            return _refused(nodes, f"app {app} is of another namespace than the pod")
        known = self.pods.get(pod.name)
        if known is not None and known.uid == uid and known.app != app:
            return _refused(nodes, f"the pod is app {known.app}'s: labels do not change whose GPUs it has")
        if n == 0:
            return {"nodenames": list(nodes), "failedNodes": {}, "error": ""}
        self.decide(now_s)
        free = self._by_node(self.ledger.active[self.numbers[app]].gpus)
        for other, use in self.pods.items():
            if use.app == app and other != pod.name:
                free[use.node] -= use.gpus
        fits = [node for node in nodes if free[node] >= n]
        if not fits:
            return _refused(nodes, f"app {app} holds too few GPUs here")
        best = max(fits, key=lambda node: free[node])  # the emptiest; of several the first that kube-scheduler names
        self.pods[pod.name] = PodUse(app, best, n, uid)
        others = [node for node in nodes if node != best]
        return _refused(others, f"app {app} is to use {best}") | {"nodenames": [best]}

    def pod_gone(self, name: str, uid: str, key: str | None = None) -> None:
        """Take note that a pod has ended.

        Parameters
        ----------
        name, uid : str
            The pod's namespace/name and uid. A pod that is created again has the same name and another uid.
        key : str, optional
            Key of the app on whose behalf the caller speaks; the pod must be of that app. The service that evicts pods
            speaks for no app, and gives none.

        Raises
        ------
        InputError
            If the pod was never placed, has another uid, or is not of the caller's app.
        """
        use = self.pods.get(name)
        if use is None:
            raise Unknown(f"pod {name!r}: was never placed, or has ended before")
        if use.uid != uid:
            raise Forbidden(f"pod {name!r}: another pod has this name now: its uid is not {short(uid)}")
        if key is not None:
            self.tenants.check(use.app, key)
        del self.pods[name]

    def lapsed(self, now_s: float) -> list[str]:
        """Pods that use more GPUs of a node than their app still holds there: to be checkpointed and deleted."""
        self.decide(now_s)
        used: Counter[tuple[str, str]] = Counter()
        found: list[str] = []
        for pod, use in self.pods.items():
            used[use.app, use.node] += use.gpus
            if used[use.app, use.node] > self._by_node(self.ledger.active[self.numbers[use.app]].gpus)[use.node]:
                found.append(pod)
        return found

    def _by_node(self, gpus: Sequence[int] | set[int]) -> Counter[str]:
        machine = self.cluster.machine_of
        return Counter(self.nodes[int(machine[g])] for g in sorted(gpus))

    def _number(self, name: str) -> int:
        if name not in self.numbers:
            there = ", ".join(list(self.numbers)[:20]) or "none"
            raise Unknown(f"app {name!r}: not registered; in the cluster: {there}")
        return self.numbers[name]


def _refused(nodes: Sequence[str], why: str) -> dict[str, Any]:
    return {"nodenames": [], "failedNodes": dict.fromkeys(nodes, why), "error": ""}


def _error(why: str) -> dict[str, Any]:
    return {"nodenames": [], "failedNodes": {}, "error": why}
