"""The event loop, compiled: see `reference` for what happens in an instant and in which order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner, kernel
from .learning import measure
from .plain import fill_with, rising
from .queue import next_end, next_expiry, schedule, unlease
from .split import account, divide, give, take
from .varying import catch_up
from .view import contention, size_up

__all__ = ["Progress", "go_on"]


class Progress(NamedTuple):
    """Where a simulation stands, and what it has noted down."""

    preempts: bool
    max_s: float
    events: np.ndarray  # (n, 3) failures: seconds, kind (0: machine down, 1: machine up, 2: app), which; by time
    out: np.ndarray  # (apps, 9): start, end, whether completed, GPU seconds, N_avg, allocations by level
    ended: np.ndarray  # per app
    changed: np.ndarray  # per app, within an instant
    cursor: np.ndarray  # apps that have arrived, failures that have happened, grants, apps in the cluster, GPUs granted
    instant: np.ndarray  # when the next app arrives; of the last decision
    offered: np.ndarray  # per GPU: whether it is on offer
    given: np.ndarray  # per GPU: the app that is given it, or −1
    present: np.ndarray  # apps in the cluster, ascending
    grant_s: np.ndarray  # grants: seconds, app, first of its GPUs in the last, GPUs
    grant_app: np.ndarray
    grant_first: np.ndarray
    grant_gpus: np.ndarray


@inner
def _leave(w, s, a, now, completed, out):  # type: ignore[no-untyped-def]
    account(s.attained, s.n_gpus, s.since, a, now)
    mine, n = np.empty(s.n_gpus[a], np.int64), 0
    for g in range(s.owner.shape[0]):
        if s.owner[g] == a:
            mine[n] = g
            n += 1
    take(s, mine)
    p = w.phases[a] + s.phase[a]
    for e in range(w.entries[p], w.entries[p + 1]):
        s.alive[e] = False
        schedule(s.finish, s.queue, s.queued, s.number, e, np.inf)
    s.active[a] = False
    s.clock[2] -= 1
    s.number[1] += 1
    out[a, 0], out[a, 1], out[a, 2] = s.started[a], now, 1.0 if completed else 0.0
    out[a, 3], out[a, 4] = s.attained[a], contention(w, s, a, now)
    for level in range(4):
        out[a, 5 + level] = s.placed[a, level]


@inner
def _next_phase(w, s, a):  # type: ignore[no-untyped-def]
    s.phase[a] += 1
    p = w.phases[a] + s.phase[a]
    for e in range(w.entries[p], w.entries[p + 1]):
        s.alive[e] = True
        s.left[e] = w.work[e]
    size_up(w, s, a)


@inner
def _advance(c, w, s, p):  # type: ignore[no-untyped-def]
    """Go on to the next instant at which GPUs are on offer to someone: the instant and the number of apps, or −1."""
    events, max_s, out, ended, changed = p.events, p.max_s, p.out, p.ended, p.changed
    cursor, upcoming, offered, present = p.cursor, p.instant, p.offered, p.present
    size, n_apps = s.owner.shape[0], w.arrival.shape[0]
    one = np.empty(1, np.int64)
    while s.number[1] < n_apps:
        arriving, event, count, next_arrival = cursor[0], cursor[1], cursor[3], upcoming[0]
        now, before = next_arrival, s.number[1]
        e, g = next_end(s), next_expiry(s.after)
        if e >= 0 and s.finish[e] < now:
            now = s.finish[e]
        if g >= 0 and s.expiry[g] < now:
            now = s.expiry[g]
        if event < events.shape[0] and events[event, 0] < now:
            now = events[event, 0]
        if now > max_s or now == np.inf:
            return now, -1
        s.clock[0] += s.clock[2] * (now - s.clock[1])
        s.clock[1] = now
        if w.varies:
            catch_up(w, s, now)
        fill_with(changed, False)
        # jobs that are done, by app and number: entries stand in that order
        due = np.empty(s.number[0], np.int64)
        n_due = 0
        while s.number[0] > 0 and s.finish[next_end(s)] == now:
            due[n_due] = next_end(s)
            schedule(s.finish, s.queue, s.queued, s.number, due[n_due], np.inf)
            n_due += 1
        rising(due, n_due)
        for k in range(n_due):
            e = due[k]
            a = w.app_of[e]
            if w.learns:
                measure(w, s, a, now)
            s.alive[e] = False
            changed[a] = True
            if s.jobs[a] > 1:
                size_up(w, s, a)
            elif w.phases[a] + s.phase[a] + 1 == w.phases[a + 1]:
                _leave(w, s, a, now, np.bool_(True), out)
                ended[a] = True
            else:
                _next_phase(w, s, a)
        first_event = event
        while event < events.shape[0] and events[event, 0] == now:
            if events[event, 1] < 2:
                for g in range(size):
                    if c.machine[g] == int(events[event, 2]):
                        s.down[g] = events[event, 1] == 0
                        a = s.owner[g]
                        if s.down[g] and a >= 0:
                            account(s.attained, s.n_gpus, s.since, a, now)
                            one[0] = g
                            take(s, one)
                            changed[a] = True
            event += 1
        for i in range(first_event, event):
            a = int(events[i, 2])
            if events[i, 1] == 2 and s.active[a]:
                _leave(w, s, a, now, np.bool_(False), out)
                ended[a] = True
        while arriving < n_apps and next_arrival == now:
            s.active[arriving] = True
            s.clock[2] += 1
            s.integral_at[arriving] = s.clock[0]
            s.since[arriving] = now
            _next_phase(w, s, arriving)
            present[count] = arriving
            count += 1
            arriving += 1
            next_arrival = w.arrival[arriving] if arriving < n_apps else np.inf
        g = next_expiry(s.after)
        while g >= 0 and s.expiry[g] == now:
            unlease(s.expiry, s.after, s.before, g)
            s.lapsed[g] = True
            s.over[s.owner[g]] += 1
            g = next_expiry(s.after)
        if s.number[1] > before:
            here = 0
            for i in range(count):
                if s.active[present[i]]:
                    present[here] = present[i]
                    here += 1
            count = here
        for i in range(count):
            if changed[present[i]]:
                divide(c, w, s, present[i], now)
        cursor[0], cursor[1], cursor[3], upcoming[0] = arriving, event, count, next_arrival
        owner, lapsed, down, n_offered = s.owner, s.lapsed, s.down, 0
        for g in range(size):
            offered[g] = lapsed[g] | ((owner[g] < 0) & (not down[g]))
            n_offered += offered[g]
        if count == 0 or n_offered == 0:
            continue
        attained, n_gpus, since = s.attained, s.n_gpus, s.since
        for i in range(count):
            account(attained, n_gpus, since, present[i], now)
            if w.learns:
                measure(w, s, present[i], now)
        return now, count
    return 0.0, -1


@inner
def _lease_end(w, now):  # type: ignore[no-untyped-def]
    """`SharingWorld.lease_end_s`."""
    if not w.together or w.lease == np.inf:
        return now + w.lease
    number = np.floor(now / w.lease) + 1.0
    if number * w.lease <= now:
        number += 1.0
    return number * w.lease


@inner
def _settle(c, w, s, p, now, apps):  # type: ignore[no-untyped-def]
    """Do as the policy says (`given`), and note it down."""
    given, changed, cursor, preempts = p.given, p.changed, p.cursor, p.preempts
    grant_s, grant_app, grant_first, grant_gpus = p.grant_s, p.grant_app, p.grant_first, p.grant_gpus
    owner, lapsed, ready, place, size, grants = s.owner, s.lapsed, s.ready, s.place, s.owner.shape[0], cursor[2]
    for a in apps:
        changed[a] = False
    gone, n_gone = np.empty(size, np.int64), 0
    for g in range(size):
        if lapsed[g] and given[g] != owner[g]:
            gone[n_gone] = g
            n_gone += 1
    for g in gone[:n_gone]:
        changed[owner[g]] = True
        account(s.attained, s.n_gpus, s.since, s.owner[g], now)
    take(s, gone[:n_gone])
    won, container = np.zeros(s.active.shape[0], np.bool_), w.container
    for g in range(size):
        a = given[g]
        if a >= 0:
            won[a] = True
            if owner[g] != a:
                changed[a] = True
                ready[g] = now + container
    give(s, given, _lease_end(w, now) if preempts else np.inf)
    total = grant_first[grants]
    for a in apps:
        if not won[a]:
            continue
        if np.isnan(s.started[a]):
            s.started[a] = now
        grant_s[grants], grant_app[grants], place[a] = now, a, total
        total += s.n_gpus[a]
        grants += 1
        grant_first[grants] = total
    for g in range(size):
        a = owner[g]
        if a >= 0 and won[a]:
            grant_gpus[place[a]] = g
            place[a] += 1
    for a in apps:
        if changed[a]:
            divide(c, w, s, a, now)
    cursor[2], cursor[4] = grants, total


@kernel(rolled=True)
def go_on(c, w, s, p, count):  # type: ignore[no-untyped-def]
    """Carry out what was decided for the `count` apps in the cluster (0: nothing was), and go on to the next decision.

    Returns
    -------
    (float, int)
        The instant and the number of apps in the cluster; −1 where nothing can happen any more, or `max_s` is past.
    """
    if count > 0:
        _settle(c, w, s, p, p.instant[1], p.present[:count])
    now, count = _advance(c, w, s, p)
    p.instant[1] = now
    return now, count
