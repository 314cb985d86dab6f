"""What agents say, compiled: see `agent.AppView`. Entries are jobs in phases, by app, phase and number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner
from .plain import falling_order, largest

__all__ = [
    "State", "WorldArrays", "contention", "left_at", "left_of", "left_work", "phase_left", "remaining", "shape_of",
    "size_up", "speed",
]  # fmt: skip

CURVE = 2
SLOWEST = 1


class WorldArrays(NamedTuple):
    """What does not change."""

    arrival: np.ndarray  # per app, seconds
    kind: np.ndarray  # 0 jobs, 1 halving, 2 curve
    slowdown: np.ndarray  # (apps, 4)
    believed_slowdown: np.ndarray  # (apps, 4): what agents reckon with; changes where they learn
    split_slowdown: np.ndarray  # (apps, 4): by which they divide GPUs over jobs: the truth, or what they believe
    believed_work: np.ndarray  # per app: estimated over true iterations
    alone: np.ndarray  # B / min(R_C, demand) as believed: T_id without contention
    phases: np.ndarray  # first phase of each app, and their number
    entries: np.ndarray  # first entry of each phase, and their number
    median: np.ndarray  # per phase: median seconds of an iteration of its jobs
    iterations: np.ndarray  # per phase: sum over its jobs
    limit: np.ndarray  # per phase: GPUs that it lets a job use, or 0
    usual: np.ndarray  # per phase: GPUs that the median of its jobs can use
    app_of: np.ndarray  # per entry
    work: np.ndarray  # per entry: GPU seconds
    iteration_s: np.ndarray
    cap: np.ndarray
    gang: np.ndarray
    optimism: np.ndarray
    loss: np.ndarray  # (entries, 3): start, end, rate
    lease: float
    together: bool  # leases end at multiples of it
    checkpoint: float
    container: float
    kept: bool  # containers stay while the app has the GPU
    convention: int  # 0 fluid, 1 slowest
    learns: bool  # whether agents time iterations
    least: float  # iterations before what was measured is believed
    noise: float  # standard deviation of an iteration's time over its mean
    noise_seed: int
    varies: bool  # whether GPUs do, see `varying`
    slow: np.ndarray  # (GPUs, windows): factors
    window: float  # seconds of one
    low: float  # the least factor that an iteration draws; width of a cell; shares at the edges of cells
    step: float
    share: np.ndarray


class State(NamedTuple):
    """What changes."""

    owner: np.ndarray  # per GPU: app, or −1
    entry: np.ndarray  # per GPU: the entry that it works for
    lapsed: np.ndarray
    down: np.ndarray
    expiry: np.ndarray  # per GPU: when its lease is over
    ready: np.ndarray  # per GPU: when its owner's container is up
    active: np.ndarray  # per app
    phase: np.ndarray
    integral_at: np.ndarray  # per app: integral of the number of apps at its arrival
    attained: np.ndarray
    since: np.ndarray
    started: np.ndarray
    n_gpus: np.ndarray  # per app: GPUs that it has
    over: np.ndarray  # per app: those of them whose lease is over
    room: np.ndarray  # per app: GPUs that the jobs of its phase can use
    least: np.ndarray  # per app: the smallest gang of them
    jobs: np.ndarray  # per app: how many jobs of its phase are not done
    top: np.ndarray  # per app: the most GPUs that one of them can use
    gangs: np.ndarray  # per app: whether any of them needs more than one
    place: np.ndarray  # per app: its position among those in the cluster, within a decision
    left: np.ndarray  # per entry, at `resumes`
    rate: np.ndarray
    resumes: np.ndarray
    finish: np.ndarray
    begun: np.ndarray  # per entry: when it first was given GPUs
    given: np.ndarray  # per entry: when it was given those that it has
    near: np.ndarray  # per entry: how far apart they are
    alive: np.ndarray
    gpus: np.ndarray  # per entry: GPUs that it was given
    placed: np.ndarray  # (apps, 4): allocations of its jobs, by how far apart their GPUs are
    clock: np.ndarray  # integral, counted at, number of active apps
    queue: np.ndarray  # heap of the entries that run, by `finish`
    queued: np.ndarray  # per entry: where in the heap, or −1
    after: np.ndarray  # per GPU and at the end: the one whose lease is over next (`queue`)
    before: np.ndarray
    number: np.ndarray  # entries in the heap; apps that have ended
    learned: np.ndarray  # (apps, 4, 6): what agents have learned of each level, see `learning`
    batches: np.ndarray  # per app: how often they timed iterations
    timed: np.ndarray  # per entry: iterations on its GPUs that were timed
    # where GPUs vary:
    members: np.ndarray  # (entries, widest): GPUs that it was given
    nominal: np.ndarray  # per entry: rate by the profile
    window: np.ndarray  # per entry: in which it is, and when that is over
    until: np.ndarray
    whole: np.ndarray  # per entry: what was left when it set off on its GPUs; when it was last timed, and left then
    timed_at: np.ndarray
    timed_left: np.ndarray


@inner
def left_at(left, resumes, rate, e, now):  # type: ignore[no-untyped-def]
    """GPU seconds that are left of an entry; for loops: a call with all of the state takes longer than the answer."""
    if now <= resumes[e]:
        return left[e]
    return max(left[e] - (now - resumes[e]) * rate[e], 0.0)


@inner
def left_of(s, e, now):  # type: ignore[no-untyped-def]
    """GPU seconds that are left of an entry."""
    return left_at(s.left, s.resumes, s.rate, e, now)


@inner
def contention(w, s, a, now):  # type: ignore[no-untyped-def]
    """N_avg of an app."""
    lived = now - w.arrival[a]
    if lived > 0:
        return max((s.clock[0] - s.integral_at[a]) / lived, 1.0)
    return max(s.clock[2], 1.0)


@inner
def size_up(w, s, a):  # type: ignore[no-untyped-def]
    """Count what the jobs of an app's phase can use and need at least; after every change of them."""
    p = w.phases[a] + s.phase[a]
    room, least, jobs, top, gangs = 0, 1 << 30, 0, 0, False
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            room += w.cap[e]
            least = min(least, w.gang[e])
            jobs += 1
            top = max(top, w.cap[e])
            gangs = gangs or w.gang[e] > 1
    s.room[a], s.least[a], s.jobs[a], s.top[a], s.gangs[a] = room, least, jobs, top, gangs


@inner
def shape_of(c, gpus, counts, groups):  # type: ignore[no-untyped-def]
    """GPUs of a list on each machine that has any, into `groups`; returns how many machines and racks.

    `counts`, of all machines, is zero before and after.
    """
    n, racks = 0, 0
    for g in gpus:
        m = c.machine[g]
        if counts[m] == 0:
            groups[n] = m
            n += 1
        counts[m] += 1
    for i in range(n):
        known = False
        for k in range(i):
            known = known or c.rack_of[groups[k]] == c.rack_of[groups[i]]
        racks += not known
    for i in range(n):
        m = groups[i]
        groups[i] = counts[m]
        counts[m] = 0
    return n, racks


@inner
def shape_level(groups, racks, each, jobs):  # type: ignore[no-untyped-def]
    """`Shape.level`; `groups`: GPUs on each machine that has any."""
    if each <= 1:
        return 0
    hold = 0
    for n in groups:
        hold += n // each
    if hold >= jobs:
        return 1
    return 2 if racks <= 1 else 3


@inner
def _believed(optimism, work, kind, left, e):  # type: ignore[no-untyped-def]
    """GPU seconds that an app's agent believes are left of an entry, before its error, by those that are."""
    return left * (1.0 + (optimism[e] - 1.0) * left / work[e]) if kind == CURVE else left


@inner
def phase_left(w, s, a, ahead, now):  # type: ignore[no-untyped-def]
    """GPU seconds left of the phase `ahead` of the present one, before the agent's error."""
    p = w.phases[a] + s.phase[a]
    if ahead > 0:
        return w.iterations[p + ahead] * w.median[p]
    alive, left, resumes, rate, kind, total = s.alive, s.left, s.resumes, s.rate, w.kind[a], 0.0
    optimism, work = w.optimism, w.work
    for e in range(w.entries[p], w.entries[p + 1]):
        if alive[e]:
            total += _believed(optimism, work, kind, left_at(left, resumes, rate, e, now), e)
    return total


@inner
def phases_ahead(w, s, a):  # type: ignore[no-untyped-def]
    """Phases that the agent counts, the present one included."""
    if w.kind[a] == CURVE:
        return 1
    return w.phases[a + 1] - w.phases[a] - s.phase[a]


@inner
def left_work(w, s, a, now):  # type: ignore[no-untyped-def]
    """`AppView.left_s`."""
    total = 0.0
    for k in range(phases_ahead(w, s, a)):
        total += phase_left(w, s, a, k, now)
    return w.believed_work[a] * total


@inner
def phase_jobs(w, s, a, ahead):  # type: ignore[no-untyped-def]
    """Jobs of a phase, the most GPUs that one of them can use, and GPUs that all of them can: `AppView._phase_caps`."""
    p = w.phases[a] + s.phase[a]
    if ahead > 0:
        jobs = w.entries[p + ahead + 1] - w.entries[p + ahead]
        cap = w.limit[p + ahead] if w.limit[p + ahead] > 0 else w.usual[p]
        return jobs, cap, jobs * cap
    return s.jobs[a], s.top[a], s.room[a]


@inner
def job_works(w, s, a, now):  # type: ignore[no-untyped-def]
    """Work and caps of an app's jobs: `AppView._job_works` and `_phase_caps`."""
    p = w.phases[a] + s.phase[a]
    works, caps = np.empty(s.jobs[a]), np.empty(s.jobs[a], np.int64)
    jobs = 0
    for e in range(w.entries[p], w.entries[p + 1]):
        if s.alive[e]:
            works[jobs], caps[jobs] = _believed(w.optimism, w.work, w.kind[a], left_of(s, e, now), e), w.cap[e]
            jobs += 1
    return works, caps


@inner
def speed(w, s, a, n, groups, racks, gang):  # type: ignore[no-untyped-def]
    """`AppView.speed`."""
    if n < gang:
        return 0.0
    jobs, cap, room = phase_jobs(w, s, a, np.int64(0))
    running = min(jobs, max(n // gang, 1))
    each = min(cap, max(n // running, 1))
    return min(n, room) / w.believed_slowdown[a, shape_level(groups, racks, each, running)]


@inner
def last_job(works, caps, n, gang):  # type: ignore[no-untyped-def]
    """`agent._last_job`."""
    jobs = works.shape[0]
    order = falling_order(works)
    running = min(jobs, n // gang)
    spare, level = n - running * gang, gang
    while True:
        able = 0
        for i in range(running):
            able += caps[order[i]] > level
        if able == 0 or spare < able:
            break
        spare -= able
        level += 1
    ends, counts = np.empty(running), np.empty(running, np.int64)
    for i in range(running):
        k = order[i]
        counts[i] = min(level, caps[k])
        if caps[k] > level and spare > 0:
            counts[i] += 1
            spare -= 1
        ends[i] = works[k] / counts[i]
    for i in range(running, jobs):
        k, first = order[i], 0
        for r in range(1, running):
            if ends[r] < ends[first] or (ends[r] == ends[first] and counts[r] < counts[first]):
                first = r
        ends[first] += works[k] / min(counts[first], caps[k])
    return largest(ends)


@inner
def remaining(w, s, a, now, present_s, n, groups, racks, gang):  # type: ignore[no-untyped-def]
    """`AppView.remaining_s`, with GPU seconds left of the present phase (`phase_left`)."""
    if n < gang:
        return np.inf
    total = 0.0
    for k in range(phases_ahead(w, s, a)):
        work = present_s if k == 0 else phase_left(w, s, a, k, now)
        jobs, cap, room = phase_jobs(w, s, a, k)
        running = min(jobs, max(n // gang, 1))
        each = min(cap, max(n // running, 1))
        slow = w.believed_slowdown[a, shape_level(groups, racks, each, running)]
        if w.convention != SLOWEST:
            seconds = work / min(n, room)
        elif k == 0:
            works, caps = job_works(w, s, a, now)
            seconds = last_job(works, caps, n, gang)
        else:
            seconds = last_job(np.full(jobs, work / jobs), np.full(jobs, cap), n, gang)
        total += seconds * slow
    return w.believed_work[a] * total
