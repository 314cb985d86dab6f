"""The event loop, compiled: see `reference` for what happens in an instant and in which order."""

from __future__ import annotations

import numpy as np
from numba import njit

from .borrow import borrowed
from .policies import assign
from .queue import next_end, next_expiry, schedule, unlease
from .split import account, divide, give, take
from .view import contention, size_up

__all__ = ["advance", "book", "run", "settle"]


@njit(cache=True)
def _leave(w, s, a, now, completed, out):  # type: ignore[no-untyped-def]
    account(s.attained, s.n_gpus, s.since, a, now)
    take(s, np.flatnonzero(s.owner == a))
    p = w.phases[a] + s.phase[a]
    for e in range(w.entries[p], w.entries[p + 1]):
        s.alive[e] = False
        schedule(s.finish, s.queue, s.queued, s.number, e, np.inf)
    s.active[a] = False
    s.clock[2] -= 1
    s.number[1] += 1
    out[a, 0], out[a, 1], out[a, 2] = s.started[a], now, 1.0 if completed else 0.0
    out[a, 3], out[a, 4] = s.attained[a], contention(w, s, a, now)
    out[a, 5:9] = s.placed[a]


@njit(cache=True)
def _next_phase(w, s, a):  # type: ignore[no-untyped-def]
    s.phase[a] += 1
    p = w.phases[a] + s.phase[a]
    for e in range(w.entries[p], w.entries[p + 1]):
        s.alive[e] = True
        s.left[e] = w.work[e]
    size_up(w, s, a)


@njit(cache=True)
def advance(c, w, s, events, max_s, out, ended, changed, cursor, upcoming, offered, present):  # type: ignore[no-untyped-def]
    """Go on to the next instant at which GPUs are on offer to someone.

    Parameters
    ----------
    ended, changed : arrays of bool
        Per app.
    cursor : array of int
        Apps that have arrived, failures that have happened, grants so far, apps in the cluster.
    upcoming : array of float
        When the next app arrives.
    offered : array of bool
        Filled: GPUs on offer.
    present : array of int
        Apps in the cluster, ascending; kept up to date.

    Returns
    -------
    (float, int)
        The instant and the number of apps; −1 where nothing can happen any more.
    """
    size, n_apps = s.owner.shape[0], w.arrival.shape[0]
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
        changed[:] = False
        # jobs that are done, by app and number: entries stand in that order
        due = np.empty(s.number[0], np.int64)
        n_due = 0
        while s.number[0] > 0 and s.finish[next_end(s)] == now:
            due[n_due] = next_end(s)
            schedule(s.finish, s.queue, s.queued, s.number, due[n_due], np.inf)
            n_due += 1
        for e in np.sort(due[:n_due]):
            a = w.app_of[e]
            s.alive[e] = False
            changed[a] = True
            if s.jobs[a] > 1:
                size_up(w, s, a)
            elif w.phases[a] + s.phase[a] + 1 == w.phases[a + 1]:
                _leave(w, s, a, now, True, out)
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
                            take(s, np.full(1, g))
                            changed[a] = True
            event += 1
        for i in range(first_event, event):
            a = int(events[i, 2])
            if events[i, 1] == 2 and s.active[a]:
                _leave(w, s, a, now, False, out)
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
        return now, count
    return 0.0, -1


@njit(cache=True)
def book():  # type: ignore[no-untyped-def]
    """No grants yet: seconds, app, first GPU of each in the last, GPUs."""
    return np.empty(1024), np.empty(1024, np.int64), np.zeros(1025, np.int64), np.empty(8192, np.int64)


@njit(cache=True)
def settle(c, w, s, preempts, now, apps, given, changed, cursor, book):  # type: ignore[no-untyped-def]
    """Do as the policy says (`given`: app of each GPU on offer, or −1); returns the book with the grants added."""
    owner, lapsed, ready, place, size, grants = s.owner, s.lapsed, s.ready, s.place, s.owner.shape[0], cursor[2]
    grant_s, grant_app, grant_first, grant_gpus = book
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
    give(s, given, now + w.lease if preempts else np.inf)
    total = grant_first[grants]
    if total + size > grant_gpus.shape[0]:
        grant_gpus = np.concatenate((grant_gpus, np.empty(total + size, np.int64)))
    for a in apps:
        if not won[a]:
            continue
        if np.isnan(s.started[a]):
            s.started[a] = now
        if grants == grant_s.shape[0]:
            grant_s = np.concatenate((grant_s, np.empty(grants)))
            grant_app = np.concatenate((grant_app, np.empty(grants, np.int64)))
            grant_first = np.concatenate((grant_first, np.zeros(grants, np.int64)))
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
    cursor[2] = grants
    return grant_s, grant_app, grant_first, grant_gpus


@njit(cache=True)
def run(c, w, s, code, preempts, lease_s, blind, seed, events, max_s, out):  # type: ignore[no-untyped-def]
    """Simulate until all apps have ended, nothing can happen, or `max_s` is past.

    Parameters
    ----------
    blind, seed : bool, int
        Whether GPUs are drawn instead of chosen by nearness, and the seed of the lots.
    events : array, shape (n, 3)
        Failures: seconds, kind (0: machine down, 1: machine up, 2: app), which; by time.
    out : array, shape (apps, 9)
        Start, end, whether completed, GPU seconds, N_avg, allocations by level.

    Returns
    -------
    (array, array, array, array, array)
        Grants: seconds, app, first of its GPUs in the last, GPUs; and whether each app has ended.
    """
    c, w, s = borrowed(c), borrowed(w), borrowed(s)
    size, n_apps = s.owner.shape[0], w.arrival.shape[0]
    ended, changed = np.zeros(n_apps, np.bool_), np.zeros(n_apps, np.bool_)
    offered, given = np.zeros(size, np.bool_), np.full(size, -1, np.int64)
    present, cursor = np.empty(n_apps, np.int64), np.zeros(4, np.int64)
    upcoming = np.full(1, w.arrival[0] if n_apps else np.inf)
    grants = book()
    decision = 0
    while True:
        now, count = advance(c, w, s, events, max_s, out, ended, changed, cursor, upcoming, offered, present)
        if count < 0:
            break
        decision += 1
        assign(c, w, s, code, now, offered, present[:count], lease_s, blind, seed, decision, given)
        grants = settle(c, w, s, preempts, now, present[:count], given, changed, cursor, grants)
    n = cursor[2]
    return grants[0][:n], grants[1][:n], grants[2][: n + 1], grants[3][: grants[2][n]], ended
