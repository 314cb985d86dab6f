"""A world laid out in arrays, for the compiled engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..cluster import Level, SharedCluster
from ..policy.agent import usual_iteration_s
from ..varying import Speeds
from ..workload.app import Slowdown
from ..world import SharingWorld
from .learning import FIELDS
from .near import ClusterArrays
from .view import State, WorldArrays

__all__ = ["cluster_arrays", "failure_events", "first_state", "world_arrays"]

KINDS = {"jobs": 0, "halving": 1, "curve": 2}


def cluster_arrays(cluster: SharedCluster) -> ClusterArrays:
    """Units of each GPU; racks by rank, whatever their numbers."""
    slot, machine = (x.astype(np.int64) for x in (cluster.slot_of, cluster.machine_of))
    rack = np.unique(cluster.rack_of, return_inverse=True)[1].reshape(-1).astype(np.int64)
    first = np.concatenate(([0], np.cumsum([m.gpus for m in cluster.machines]))).astype(np.int64)
    return ClusterArrays(
        slot, machine, rack, int(slot.max()) + 1, len(cluster.machines), int(rack.max()) + 1, first, rack[first[:-1]]
    )


def world_arrays(world: SharingWorld) -> WorldArrays:
    """What does not change: entries are the jobs of each phase, by app, phase and number."""
    apps, beliefs = world.apps, world.beliefs
    phases, entries = [0], [0]
    per_phase: list[tuple[float, float, int, int]] = []
    rows: list[tuple[int, float, int, int, float, float, float, float, float]] = []
    for a, app in enumerate(apps):
        for k, phase in enumerate(app.phases):
            usual = sorted(app.jobs[j].gpus for j in phase.jobs)[(len(phase.jobs) - 1) // 2]
            median = usual_iteration_s(app, k, world.convention)
            per_phase.append((median, float(sum(phase.iterations)), phase.gpus, usual))
            for j, iterations in sorted(zip(phase.jobs, phase.iterations, strict=True)):
                job = app.jobs[j]
                work = iterations * job.iteration_s
                loss = job.loss
                rows.append(
                    (a, work, app.cap(k, j), job.gang, job.optimism, loss.start, loss.end, loss.rate, job.iteration_s)
                )
            entries.append(len(rows))
        phases.append(len(per_phase))
    table = np.array(rows, dtype=np.float64).reshape(-1, 9)
    each = np.array(per_phase, dtype=np.float64).reshape(-1, 4)
    n = world.cluster.n_gpus
    slowdown = _levels([app.slowdown for app in apps])
    known = beliefs.slowdown == "known"
    believed = _levels([app.estimated_slowdown if known else beliefs.start for app in apps])
    return WorldArrays(
        arrival=np.array([app.arrival_s for app in apps], dtype=np.float64),
        kind=np.array([KINDS[app.kind] for app in apps], dtype=np.int64),
        slowdown=slowdown,
        believed_slowdown=believed,
        split_slowdown=slowdown if known else believed,
        believed_work=np.array([app.believed_work for app in apps], dtype=np.float64),
        alone=np.array([app.believed_work * app.total_work_s / min(n, app.max_gpus) for app in apps], dtype=np.float64),
        phases=np.array(phases, dtype=np.int64),
        entries=np.array(entries, dtype=np.int64),
        median=each[:, 0].copy(),
        iterations=each[:, 1].copy(),
        limit=each[:, 2].astype(np.int64),
        usual=each[:, 3].astype(np.int64),
        app_of=table[:, 0].astype(np.int64),
        work=table[:, 1].copy(),
        iteration_s=table[:, 8].copy(),
        cap=table[:, 2].astype(np.int64),
        gang=table[:, 3].astype(np.int64),
        optimism=table[:, 4].copy(),
        loss=table[:, 5:8].copy(),
        lease=float(world.lease_s),
        together=world.lease_ends == "together",
        checkpoint=float(world.checkpoint_s),
        container=float(world.container_s),
        kept=world.containers == "app",
        convention=1 if world.convention == "slowest" else 0,
        learns=beliefs.slowdown == "learned",
        least=float(beliefs.least),
        noise=float(beliefs.spread),
        noise_seed=int(beliefs.seed),
        **_speeds(world.speeds),
    )


def _speeds(speeds: Speeds | None) -> dict[str, Any]:
    if speeds is None:
        return {
            "varies": False, "slow": np.ones((1, 1)), "window": 1.0, "low": 1.0, "step": 0.0, "share": np.ones(1),
        }  # fmt: skip
    return {
        "varies": True, "slow": speeds.draws.slow, "window": float(speeds.draws.window_s), "low": speeds.low,
        "step": speeds.step, "share": speeds.share,
    }  # fmt: skip


def _levels(slowdowns: Sequence[Slowdown]) -> npt.NDArray[np.float64]:
    return np.array([s.levels for s in slowdowns], dtype=np.float64).reshape(-1, 4)


def first_state(world: SharingWorld) -> State:
    """Before anything has happened."""
    n, gpus = len(world.apps), world.cluster.n_gpus
    jobs = sum(len(p.jobs) for app in world.apps for p in app.phases)
    learned = np.zeros((n, len(Level), FIELDS))
    learned[:, :, -1] = world.beliefs.start.levels
    marked = 0 if world.speeds is None else jobs
    widest = max((app.cap(k, j) for app in world.apps for k, p in enumerate(app.phases) for j in p.jobs), default=1)
    return State(
        owner=np.full(gpus, -1, dtype=np.int64),
        entry=np.full(gpus, -1, dtype=np.int64),
        lapsed=np.zeros(gpus, dtype=np.bool_),
        down=np.zeros(gpus, dtype=np.bool_),
        expiry=np.full(gpus, np.inf),
        ready=np.zeros(gpus),
        active=np.zeros(n, dtype=np.bool_),
        phase=np.full(n, -1, dtype=np.int64),
        integral_at=np.zeros(n),
        attained=np.zeros(n),
        since=np.zeros(n),
        started=np.full(n, np.nan),
        n_gpus=np.zeros(n, dtype=np.int64),
        over=np.zeros(n, dtype=np.int64),
        room=np.zeros(n, dtype=np.int64),
        least=np.zeros(n, dtype=np.int64),
        jobs=np.zeros(n, dtype=np.int64),
        top=np.zeros(n, dtype=np.int64),
        gangs=np.zeros(n, dtype=np.bool_),
        place=np.zeros(n, dtype=np.int64),
        left=np.zeros(jobs),
        rate=np.zeros(jobs),
        resumes=np.zeros(jobs),
        finish=np.full(jobs, np.inf),
        begun=np.full(jobs, np.inf),
        given=np.full(jobs, -1.0),
        near=np.zeros(jobs, dtype=np.int64),
        alive=np.zeros(jobs, dtype=np.bool_),
        gpus=np.zeros(jobs, dtype=np.int64),
        placed=np.zeros((n, 4), dtype=np.int64),
        clock=np.zeros(3),
        queue=np.zeros(2 * gpus, dtype=np.int64),  # those that lose GPUs may still be there when others win them
        queued=np.full(jobs, -1, dtype=np.int64),
        after=np.full(gpus + 1, gpus, dtype=np.int64),
        before=np.full(gpus + 1, gpus, dtype=np.int64),
        number=np.zeros(2, dtype=np.int64),
        learned=learned,
        batches=np.zeros(n, dtype=np.int64),
        timed=np.zeros(jobs),
        members=np.zeros((marked, min(widest, gpus)), dtype=np.int64),
        nominal=np.zeros(marked),
        window=np.zeros(marked, dtype=np.int64),
        until=np.full(marked, np.inf),
        whole=np.zeros(marked),
        timed_at=np.zeros(marked),
        timed_left=np.zeros(marked),
    )


def failure_events(world: SharingWorld) -> npt.NDArray[np.float64]:
    """Failures and repairs by time: seconds, kind (0 machine down, 1 up, 2 app), which."""
    rows = [(start, 0.0, float(machine)) for machine, start, _ in world.outages]
    # as the clock of the model goes: by differences
    rows += [(start + (end - start), 1.0, float(machine)) for machine, start, end in world.outages]
    rows += [(f.at_s, 2.0, float(f.app)) for f in world.app_failures]
    return np.array(sorted(rows, key=lambda row: row[0]), dtype=np.float64).reshape(-1, 3)
