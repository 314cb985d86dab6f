"""From a case of the sharing world to what is simulated: the cluster, the apps, the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...simulator.sharing import (
    App,
    AppFailure,
    Beliefs,
    Job,
    Machine,
    MachineFailure,
    Phase,
    Policy,
    SharedCluster,
    SharingWorld,
    Slowdown,
    WorkloadOptions,
    contended,
    themis_168,
    themis_256,
    themis_testbed,
    trained_model,
    workload1,
    workload2,
)  # fmt: skip
from ...simulator.sharing.world import SHORTEST_LEASE_S
from .case import AppCase, PolicyCase, SharedClusterCase, SharingCase, SharingWorkloadCase
from .logs import Logs, logged_apps, read_log
from .policies import make

__all__ = ["apps_of", "cluster_of", "complaints", "in_file_words", "policy_of", "world_of"]

Location = tuple[str | int, ...]
PRESETS = {"themis-testbed": themis_testbed, "themis-168": themis_168, "themis-256": themis_256}


def cluster_of(case: SharedClusterCase) -> SharedCluster:
    """The GPUs that a case says."""
    if case.preset is not None:
        whole = PRESETS[case.preset](case.racks)
    elif case.devices is not None:
        each = min(case.devices, case.devices_per_node)
        whole = SharedCluster(tuple(Machine(each, 1, m % case.racks) for m in range(case.devices // each)))
    else:
        made: list[Machine] = []
        for kind in case.machines:
            slots = kind.gpus // kind.gpus_per_slot
            racks = (k % case.racks if kind.rack is None else kind.rack for k in range(kind.count))
            made += [Machine(slots, kind.gpus_per_slot, rack) for rack in racks]
        whole = SharedCluster(tuple(made))
    return contended(whole, case.contention)


def apps_of(case: SharingCase, folder: Path, logs: Logs | None = None) -> tuple[App, ...]:
    """The apps of a case, by arrival. Logs that are not among `logs` are read.

    Raises
    ------
    InputError
        If an app is not right, or a trace cannot be read.
    """
    if case.workload is None:
        made = [_app(app) for app in case.apps]
    else:
        rate = case.workload.rate_scale
        drawn = _workload(case.workload, case.seed, folder, logs)
        made = [replace(app, arrival_s=app.arrival_s / rate) for app in drawn]
    return tuple(sorted(made, key=lambda app: app.arrival_s))


def world_of(case: SharingCase, apps: Sequence[App]) -> SharingWorld:
    """What is simulated, whatever the policy.

    Raises
    ------
    InputError
        If something in it cannot be, such as a gang larger than the cluster.
    """
    numbers = {app.name: number for number, app in enumerate(apps)}
    unknown = [f.app for f in case.failures.apps if f.app not in numbers]
    if unknown:
        raise InputError(f"failures.apps: no app is called {unknown[0]!r}")
    ending: dict[str, Any] = {} if case.max_time is None else {"max_s": case.max_time}
    return SharingWorld(
        cluster_of(case.cluster), tuple(apps), case.lease, case.overheads.checkpoint, case.overheads.container,
        case.estimates, tuple(MachineFailure(f.machine, f.at, f.repair) for f in case.failures.machines),
        tuple(AppFailure(numbers[f.app], f.at) for f in case.failures.apps), containers=case.overheads.containers,
        beliefs=Beliefs(case.beliefs.slowdown, least=case.beliefs.least, spread=case.beliefs.spread, seed=case.seed),
        lease_ends=case.lease_ends, **ending,
    )  # fmt: skip


def policy_of(case: SharingCase, planner: PolicyCase | None = None) -> Policy:
    """A policy, by default the case's own. Lots are drawn by the case's seed."""
    said = planner or case.planner
    return make(said.name, said.options, lease_s=case.lease, seed=case.seed)


def in_file_words(error: InputError) -> InputError:
    """An error of a simulation, of an app that never ends, that names the field to change, and begins with it."""
    said = str(error).removeprefix("run_sharing: ")
    return InputError(f"max_time: {said.replace('raise max_s', 'raise max_time')}" if "raise max_s" in said else said)


def complaints(case: SharingCase) -> Iterator[tuple[Location, str]]:
    """What no field alone can tell is wrong: where, and what."""
    try:
        cluster = cluster_of(case.cluster)
    except InputError as error:
        yield ("cluster",), str(error)
        return
    if case.lease < SHORTEST_LEASE_S:
        yield ("lease",), f"expected {SHORTEST_LEASE_S:g} s or more (got {case.lease:g} s)"
    seen: set[str] = set()
    for a, app in enumerate(case.apps):
        if app.name in seen:
            yield ("apps", a, "name"), f"two apps are called {app.name!r}; give each a name of its own"
        seen.add(app.name)
        right = True
        for j, job in enumerate(app.jobs):
            if job.gang > cluster.n_gpus:
                right = False
                what = f"a gang of {job.gang} tasks is larger than the cluster of {cluster.n_gpus} GPUs"
                yield ("apps", a, "jobs", j, "gang"), f"{what}; make the gang smaller or the cluster larger"
        if right:
            try:
                _app(app)
            except InputError as error:
                yield ("apps", a), str(error)
    for k, broken in enumerate(case.failures.machines):
        if broken.machine >= len(cluster.machines):
            what = f"there are machines 0 … {len(cluster.machines) - 1} (got {broken.machine})"
            yield ("failures", "machines", k, "machine"), what
    for k, failed in enumerate(case.failures.apps):
        if case.workload is None and failed.app not in seen:
            yield ("failures", "apps", k, "app"), f"no app is called {failed.app!r}"


def _app(case: AppCase) -> App:
    slowdown = Slowdown()
    if case.model is not None:
        slowdown = trained_model(case.model).slowdown
    if case.slowdown is not None:
        s = case.slowdown
        slowdown = Slowdown(s.slot, s.machine, s.rack, s.cluster)
    jobs = tuple(
        Job(j.iteration, j.gpus, j.gang, optimism=j.optimism) for j in case.jobs for _ in range(j.count)
    )  # fmt: skip
    model = case.model or ""
    if case.kind == "halving":
        return App.halving(
            case.name, case.arrival, jobs, case.budget or 0.0, slowdown=slowdown, model=model, doubling=case.doubling
        )
    iterations = tuple((j.work or 0.0) / j.iteration for j in case.jobs for _ in range(j.count))
    return App(case.name, case.arrival, jobs, (Phase(tuple(range(len(jobs))), iterations),), case.kind, slowdown, model)


def _workload(case: SharingWorkloadCase, seed: int, folder: Path, logs: Logs | None) -> tuple[App, ...]:
    if case.kind.startswith("themis"):
        said: dict[str, Any] = {
            "apps": case.apps, "span_s": case.span, "burstiness": case.burstiness, "tasks": case.tasks,
            "network_intensive": case.network_intensive,
        }  # fmt: skip
        options = WorkloadOptions(
            seed=seed, scale=case.scale, error=case.error, rigid=case.rigid, doubling=case.doubling,
            **{name: value for name, value in said.items() if value is not None},
        )  # fmt: skip
        return (workload1 if case.kind == "themis-1" else workload2)(options)
    return logged_apps(case, read_log(case, folder, logs), seed)
