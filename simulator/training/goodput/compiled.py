"""The compiled engine: from one thing that matters (a failure, a repair that is waited for, the end) to the next.

Between two of them a run goes round in equal steps, of which it counts the whole ones; `reference` takes every step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....jit import inner, kernel
from .checkpoints import Checkpoints
from .lives import life, repair
from .machines import Machines
from .record import CHECKPOINTING, COMPUTING, GROWS, RESTARTING, WAITING, Record

__all__ = ["run_compiled"]

STANDS_BY, USED, AWAY = 0, 1, 2


def run_compiled(
    work_s: float, machines: Machines, checkpoints: Checkpoints, keys: np.ndarray[Any, Any], most: int
) -> Record:
    """One run.

    Parameters
    ----------
    work_s : float
        Seconds of computing that it takes without failures.
    machines, checkpoints : Machines, Checkpoints
        What fails; what is saved.
    keys : array of uint64
        Of each node (`lives.keys_of`).
    most : int
        Failures after which it is given up.
    """
    c, strikes = checkpoints, sorted(machines.strikes)
    struck = np.array([s.at_s for s in strikes] + [np.inf]), np.array([s.node for s in strikes] + [0], dtype=np.int64)
    scale = machines.mtbf_s / math.gamma(1 + 1 / machines.shape)
    nodes = (machines.nodes, machines.replicas, machines.least, scale, float(machines.shape))
    costs = (float(c.interval_s), float(c.stall_s), float(c.background_s), float(c.restart_s))
    room = 64 + len(strikes)
    while True:
        rows, spent = np.empty((room, 6)), np.zeros(6)
        count, wall, done = _run(float(work_s), nodes, float(machines.mttr_s), costs, struck, keys, rows, spent, most)
        if count < room or count >= most:
            return Record(wall, bool(done), *map(float, spent), rows=rows[:count])
        room *= 8


@inner
def _next(state, when, what):
    """The first of the nodes in a state whose time comes, and that time; of equal times the lowest node."""
    first, at = -1, np.inf
    for node in range(len(state)):
        if state[node] == what and when[node] < at:
            first, at = node, when[node]
    return first, at


@inner
def _settle(now, nodes, state, when, visits, keys):
    """Nodes repaired by now stand by; the run takes or leaves some. Returns its replicas, 0 if it waits."""
    n, replicas, least, scale, shape = nodes
    up = used = 0
    for node in range(len(state)):
        if state[node] == AWAY and when[node] <= now:
            state[node] = STANDS_BY
        up += state[node] != AWAY
        used += state[node] == USED
    each = n // replicas
    going = min(replicas, up // each)
    if going < least:
        going = 0
    wanted = going * each if going else up
    for node in range(len(state)):
        if used < wanted and state[node] == STANDS_BY:
            state[node] = USED
            when[node] = now + life(keys[node], visits[node], scale, shape)
            used += 1
    for node in range(len(state) - 1, -1, -1):
        if used > wanted and state[node] == USED:
            state[node] = STANDS_BY
            visits[node] += 1
            used -= 1
    return going


@inner
def _enough(each, replicas, going, state, when):
    """The first time at which one more replica, of `each` nodes, could run; infinite if it never can."""
    if going == replicas:
        return np.inf
    up = 0
    for node in range(len(state)):
        up += state[node] != AWAY
    missing = (going + 1) * each - up
    at = 0.0
    for _ in range(missing):
        later = np.inf
        for node in range(len(state)):
            if state[node] == AWAY and when[node] > at and when[node] < later:
                later = when[node]
        at = later
    return at


@kernel
def _run(work, nodes, mttr, costs, struck, keys, rows, spent, most):
    replicas, each = nodes[1], nodes[0] // nodes[1]
    interval, stall, background, restart = costs
    strike_at, strike_node = struck
    total = len(keys)
    state, when, visits = np.zeros(total, np.int64), np.full(total, np.inf), np.zeros(total, np.int64)
    now = saved = pause = 0.0
    count = strike = 0
    going = _settle(now, nodes, state, when, visits, keys)
    step = interval + stall
    while True:
        failing, fails_at = _next(state, when, USED)
        while strike_at[strike] < now:
            strike += 1
        hit = strike  # of those to come, the first on a node that the run has
        while strike_at[hit] <= fails_at and strike_at[hit] < np.inf and state[strike_node[hit]] != USED:
            hit += 1
        by_script = strike_at[hit] <= fails_at and strike_at[hit] < np.inf
        if by_script:
            failing, fails_at = strike_node[hit], strike_at[hit]
        lost, phase = 0.0, WAITING
        if going == 0:
            back_at = _next(state, when, AWAY)[1]
            if back_at <= fails_at:
                spent[4] += back_at - now
                now = back_at
                going = _settle(now, nodes, state, when, visits, keys)
                pause = restart
                continue
            spent[4] += fails_at - now
        else:
            speed = going / replicas
            first, left = now + pause, work - saved
            stretch = left / speed
            parts = max(1, math.ceil(stretch / interval * (1 - 1e-12)))
            finish = first + stretch + parts * stall + background
            grows_at, k = np.inf, 0
            enough = _enough(each, replicas, going, state, when)
            if enough < np.inf:
                k = max(1, math.ceil((enough - first - background) / step * (1 - 1e-12)))
                if k < parts:
                    grows_at = first + k * step + background
            if finish <= fails_at and finish <= grows_at:
                spent[0] += stretch * speed
                spent[1] += stretch * (1 - speed)
                spent[2] += parts * stall + background
                spent[5] += pause
                return count, finish, True
            if grows_at <= fails_at:
                kept = k
                lost, phase, failing = background, GROWS, -1
                spent[5] += pause
                fails_at = grows_at
            elif fails_at - now < pause:
                kept, phase = 0, RESTARTING
                spent[5] += fails_at - now
            else:
                over = fails_at - first
                kept = min(max(0, math.floor((over - background) / step * (1 + 1e-12))), parts - 1)
                lost = over - kept * step
                spent[5] += pause
                place = min(math.floor(over / step * (1 + 1e-12)), parts - 1)
                part = interval if place < parts - 1 else stretch - (parts - 1) * interval
                phase = COMPUTING if over - place * step < part else CHECKPOINTING
            saved += kept * interval * speed
            spent[0] += kept * interval * speed
            spent[1] += kept * interval * (1 - speed)
            spent[2] += kept * stall
            spent[3] += lost
        row = rows[count]
        row[0], row[1], row[2], row[3], row[4], row[5] = fails_at, failing, phase, lost, saved, going
        count += 1
        now, pause = fails_at, restart
        if failing >= 0:
            took = repair(keys[failing], visits[failing], mttr) if mttr > 0 else 0.0
            visits[failing] += 1
            state[failing], when[failing] = AWAY, now + took
            if by_script:
                strike = hit + 1
        going = _settle(now, nodes, state, when, visits, keys)
        if count == len(rows) or count >= most:
            return count, now, False
