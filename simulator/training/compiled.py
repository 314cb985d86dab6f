"""The compiled engine of training programs: it visits every action once, and sends in order of time.

A mesh runs ahead by itself through its computations and the messages that have arrived, until it wants to send or must
wait. Of the meshes that want to send, the earliest goes next (at one instant the lowest mesh). No later send can ask
before it, so its place on every link is final, and with it the time of arrival. A comparison tree over the meshes
therefore replaces the event list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...jit import kernel
from .program.actions import Program
from .program.checks import deadlock
from .program.kernels import MESSAGE, PAIR, PLAIN, RECEIVE, SEND
from .timing import ActionTimes, Prepared
from .varying.drawn import STEADY, Drawn

__all__ = ["run_compiled"]


def run_compiled(program: Program, costs: Prepared, drawn: Drawn | None = None) -> ActionTimes:
    """Time a program; with `drawn`, by times that vary.

    Raises
    ------
    DeadlockError
        If meshes wait for each other for ever.
    """
    messages, offsets = costs.messages, program.columns.offsets
    finish = costs.duration.copy()
    arrived = np.full(messages.n_messages, np.nan)
    at = offsets[:-1].copy()
    links = (costs.seconds, costs.gather_s, costs.each, costs.resources, np.zeros(costs.n_resources), costs.overlap)
    scale = np.ones(0 if drawn is None else messages.n_messages)  # the factor of each message, once it is sent
    varying = STEADY if drawn is None else drawn.arrays(program)
    _run(messages.word, offsets, links, _fresh(costs.begin_s), varying, scale, at, finish, arrived)
    if np.any(at < offsets[1:]):
        raise deadlock(program, at)
    start = np.empty_like(finish)  # of the next action when the last one ends
    start[1:] = finish[:-1]
    some = offsets[:-1] < offsets[1:]
    start[offsets[:-1][some]] = costs.begin_s[some]
    took = costs.seconds if costs.each else np.repeat(costs.seconds, messages.units)
    sent = arrived - (took if drawn is None else took * scale)
    return ActionTimes(start, finish, sent, arrived)


def _fresh(begin_s: Any) -> tuple[Any, ...]:
    """The state of all meshes at the start: their clocks; the comparison tree of when each wants to send (mesh k at
    leaf ``leaves + k``), and whose time each node holds; the stack of meshes that can go on.

    They are made here: numba takes half as long again to compile a loop that also makes its arrays.
    """
    n = len(begin_s)
    leaves = 1 << max(n - 1, 0).bit_length()
    first = np.zeros(2 * leaves, dtype=np.int64)
    first[leaves:] = np.arange(leaves)
    for node in range(leaves - 1, 0, -1):
        first[node] = first[2 * node]
    return begin_s.copy(), np.full(2 * leaves, np.inf), first, np.arange(n + 1)


@kernel(plain=PLAIN)
def _run(word, offsets, links, meshes, varying, scale, at, finish, arrived):
    """`finish` holds durations at first. A message's arrival is NaN, then −1 − mesh while that mesh waits for it.

    `varying` are the factors of times that vary, as `Drawn.arrays` gives them: an action's is the largest of its mesh's
    devices', each the slow factor of the window in which it starts, times the device's own for this action.
    """
    seconds, gather, each, resources, free, overlap = links
    since, window, slow, devices, bounds, own, first_own, apart, wire_window, wire_slow, wire_own, wire_apart = varying
    varies = len(slow) > 0
    clock, asks, first, stack = meshes
    leaves, top = len(asks) // 2, len(stack) - 1
    while True:
        while top > 0:
            top -= 1
            mesh = stack[top]
            row, last = at[mesh], offsets[mesh + 1]
            now = clock[mesh]
            wish = np.inf
            while row < last:
                what = word[row]
                kind = what & 3
                if kind == RECEIVE:
                    m = (what >> 2) & MESSAGE
                    ready = arrived[m]
                    if not ready >= 0.0:
                        arrived[m] = -1.0 - mesh
                        break
                    g = gather[m if each else what >> PAIR]
                    if varies:
                        g *= scale[m]
                    now = max(now, ready + g) if overlap else max(now, ready) + g
                took = finish[row]
                if varies:
                    factor = 0.0
                    for j in range(bounds[mesh], bounds[mesh + 1]):
                        mine = own[(first_own[j] + row - offsets[mesh]) * apart]
                        d = devices[j]
                        factor = max(factor, slow[d, int((since + now) / window) % slow.shape[1]] * mine)
                    took *= factor
                if kind == SEND:
                    finish[row] = took
                    wish = now
                    break
                now += took
                finish[row] = now
                row += 1
            at[mesh] = row
            clock[mesh] = now
            node, best = leaves + mesh, mesh
            asks[node] = wish
            while node > 1:  # the earlier time goes up; at equal times the lower mesh, as the reference's heap has it
                beside = first[node ^ 1]
                other = asks[node ^ 1]
                ahead = other < wish or (other == wish and beside < best)
                best = beside if ahead else best
                wish = other if ahead else wish
                node >>= 1
                first[node] = best
                asks[node] = wish
        now = asks[1]
        if now == np.inf:
            return
        mesh = first[1]
        row = at[mesh]
        m = (word[row] >> 2) & MESSAGE
        pair = word[row] >> PAIR
        begin = now
        for k in range(resources.shape[1]):
            r = resources[pair, k]
            if r >= 0:
                begin = max(begin, free[r])
        flight = seconds[m if each else pair]
        if varies:
            factor = wire_slow[mesh, int((since + begin) / wire_window) % wire_slow.shape[1]]
            scale[m] = factor * wire_own[row * wire_apart]
            flight *= scale[m]
        end = begin + flight
        for k in range(resources.shape[1]):
            r = resources[pair, k]
            if r >= 0:
                free[r] = end
        waiting = arrived[m]
        arrived[m] = end
        hosted = now + finish[row]
        after = hosted if overlap else max(hosted, end)
        clock[mesh] = after
        finish[row] = after
        at[mesh] = row + 1
        if waiting < 0.0:
            stack[0] = int(-1.0 - waiting)
            top = 1
        stack[top] = mesh
        top += 1
