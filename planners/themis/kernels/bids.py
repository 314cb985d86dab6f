"""Bids from the simulator's state, compiled: see `bidding.bid_of`, `bids.Bid.undominated` and `agent.AppView`."""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import largest, stable_order
from ....simulator.sharing.compiled.view import contention, job_works, last_job, phase_jobs, phase_left, phases_ahead
from ..bids import GRAIN, STARVED

__all__ = ["agent_of", "best_first", "most_rows", "rho_of", "table_of", "whole_jobs", "worth_of"]

ANYWHERE, MACHINES, RACK = 0, 1, 2


@inner
def worth_of(rho):  # type: ignore[no-untyped-def]
    """`bids.log_worth`."""
    return np.rint(-np.log(rho) * GRAIN) / GRAIN if rho < np.inf else STARVED


@inner
def agent_of(w, s, a, now):  # type: ignore[no-untyped-def]
    """What an app's estimates need, once for all rows: work, jobs and GPUs of a job in each phase, work of each job of
    the present one, seconds since arrival, T_id, GPUs of all jobs in each phase, and of each of the present one."""
    phases = phases_ahead(w, s, a)
    work, jobs, cap = np.empty(phases), np.empty(phases, np.int64), np.empty(phases, np.int64)
    room = np.empty(phases, np.int64)
    for k in range(phases):
        work[k] = phase_left(w, s, a, k, now)
        jobs[k], cap[k], room[k] = phase_jobs(w, s, a, k)
    left, caps = job_works(w, s, a, now)
    return work, jobs, cap, left, now - w.arrival[a], contention(w, s, a, now) * w.alone[a], room, caps


@inner
def whole_jobs(agent, counts):  # type: ignore[no-untyped-def]
    """For each number of GPUs that a job may take, how many such jobs machines with `counts` GPUs hold whole."""
    most = largest(agent[2])
    hold = np.zeros(most + 1, np.int64)
    for m in range(counts.shape[0]):
        for each in range(2, min(most, counts[m]) + 1):
            hold[each] += counts[m] // each
    return hold


@inner
def rho_of(w, s, a, agent, n, hold, racks, whole, group, rest, beside):  # type: ignore[no-untyped-def]
    """`AppView.rho` with `n` GPUs: those counted in `hold`, beside them on machines of their own `whole` times `group`
    and once `rest`, or with `beside` ≥ 0 so many on a machine that has `beside` of them already; the others alone."""
    work, jobs, cap, left, elapsed, ideal, room, caps = agent
    gang = s.least[a]
    if n < gang:
        return np.inf
    total = 0.0
    for k in range(work.shape[0]):
        running = min(jobs[k], max(n // max(gang, 1), 1))
        each = min(cap[k], max(n // running, 1))
        level = 0
        if each > 1:
            held = hold[each]
            if beside >= 0:
                held += (beside + group) // each - beside // each
            else:
                held += whole * (group // each) + rest // each
            level = 1 if held >= running else 2 if racks <= 1 else 3
        if w.convention == 0:
            seconds = work[k] / min(n, room[k])
        elif k == 0:
            seconds = last_job(left, caps, n, gang)
        else:
            seconds = last_job(np.full(jobs[k], work[k] / jobs[k]), np.full(jobs[k], cap[k]), n, gang)
        total += seconds * w.believed_slowdown[a, level]
    return (elapsed + w.believed_work[a] * total) / ideal


@inner
def most_rows(s, a, offered, held_machines, held_racks):  # type: ignore[no-untyped-def]
    """Rows that `table_of` may write."""
    n = min(max(0, s.room[a] - (s.n_gpus[a] - s.over[a])), offered)
    return 2 + n * (4 + held_machines + held_racks)


@inner
def table_of(c, w, s, a, agent, free, free_rack, held, held_rack, offered, n_racks, rows, value):  # type: ignore[no-untyped-def]
    """Rows of an app's bid, without those that are worth no more than as many GPUs anywhere.

    Parameters
    ----------
    free, free_rack, held, held_rack : arrays of int
        GPUs on offer, and those that the app keeps, on each machine and in each rack.
    offered, n_racks : int
        GPUs on offer; racks of the cluster.
    rows : array, shape (most, 4)
        Filled: GPUs, place, group, region.
    value : array
        Filled: log 1/ρ.

    Returns
    -------
    int
        How many.
    """
    jobs, cap = agent[1][0], agent[2][0]
    gang = s.least[a]
    kept = s.n_gpus[a] - s.over[a]
    # literals would have `rho_of` compiled once for each mix of them
    none, one, nowhere, in_racks = np.int64(0), np.int64(1), np.int64(-1), np.int64(0)
    for r in range(c.n_racks):
        in_racks += held_rack[r] > 0
    hold = whole_jobs(agent, held)
    most = largest(free)
    most_rack = largest(free_rack)
    rows[0, 0], rows[0, 1], rows[0, 2], rows[0, 3] = 0, ANYWHERE, 0, -1
    value[0] = worth_of(rho_of(w, s, a, agent, kept, hold, in_racks, none, one, none, nowhere))
    k = 1
    for n in range(1, min(max(0, s.room[a] - kept), offered) + 1):
        total = kept + n
        if total < gang:
            continue  # nothing runs
        running = max(1, min(jobs, total // max(gang, 1)))
        each = min(cap, total // running)
        rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = n, ANYWHERE, 0, -1
        anywhere = worth_of(rho_of(w, s, a, agent, total, hold, n_racks, none, one, none, nowhere))
        value[k] = anywhere
        k += 1
        if each <= 1:
            continue
        for second in range(2):
            group = n if second == 0 else min(each, n)
            if group <= 1 or group > most or (second == 1 and group == n):
                continue
            racks = n_racks if kept > 0 or group < n else one
            rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = n, MACHINES, group, -1
            value[k] = worth_of(rho_of(w, s, a, agent, total, hold, racks, n // group, group, n % group, nowhere))
            k += value[k] > anywhere
        if kept == 0:
            if n <= most_rack:
                rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = n, RACK, 0, -1
                value[k] = worth_of(rho_of(w, s, a, agent, total, hold, one, none, one, none, nowhere))
                k += value[k] > anywhere
            continue
        for m in range(c.n_machines):
            if held[m] > 0 and n <= free[m]:
                rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = n, MACHINES, n, m
                value[k] = worth_of(rho_of(w, s, a, agent, total, hold, in_racks, none, n, none, held[m]))
                k += value[k] > anywhere
        for r in range(c.n_racks):
            if held_rack[r] > 0 and n <= free_rack[r]:
                rows[k, 0], rows[k, 1], rows[k, 2], rows[k, 3] = n, RACK, 0, r
                value[k] = worth_of(rho_of(w, s, a, agent, total, hold, in_racks, none, one, none, nowhere))
                k += value[k] > anywhere
    return k


@inner
def _as_easy(a, b):  # type: ignore[no-untyped-def]
    """Whether wherever row `b` fits row `a` does too: `bids._as_easy`."""
    if a[0] > b[0]:
        return False
    if a[0] == 0 or a[1] == ANYWHERE:
        return True
    if a[1] == RACK:
        return (b[1] == RACK and (a[3] < 0 or a[3] == b[3])) or (b[1] == MACHINES and b[2] >= a[0] and a[3] < 0)
    if b[1] != MACHINES or (a[3] >= 0 and a[3] != b[3]):
        return False
    held = b[0] // b[2] * (b[2] // a[2]) + b[0] % b[2] // a[2]
    return held >= a[0] // a[2] + (1 if a[0] % a[2] else 0)


@inner
def best_first(rows, value, n):  # type: ignore[no-untyped-def]
    """Rows among the first `n` that some optimal allocation may use, best first: `Bid.undominated`."""
    size = 2
    for k in range(n):
        size = max(size, max(max(rows[k, 0], rows[k, 1]), max(rows[k, 2], rows[k, 3])) + 2)
    key = np.empty(n, np.int64)
    for k in range(n):
        key[k] = (rows[k, 0] * 4 + rows[k, 1]) * size + rows[k, 2]
    by_key = stable_order(key)
    less = np.empty(n)
    for k in range(n):
        less[k] = -value[by_key[k]]
    then = stable_order(less)
    kept = np.empty(n, np.int64)
    count = 0
    for x in range(n):
        k, beaten = by_key[then[x]], False
        for i in range(count):
            if _as_easy(rows[kept[i]], rows[k]):
                beaten = True
                break
        if not beaten:
            kept[count] = k
            count += 1
    return kept[:count]
