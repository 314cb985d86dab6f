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
from .program.kernels import COMPUTE, MESSAGE, PAIR, PLAIN, SEND
from .timing import ActionTimes, Prepared

__all__ = ["run_compiled"]


def run_compiled(program: Program, costs: Prepared) -> ActionTimes:
    """Time a program.

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
    _run(messages.word, offsets, links, _fresh(len(offsets) - 1), at, finish, arrived)
    if np.any(at < offsets[1:]):
        raise deadlock(program, at)
    start = np.empty_like(finish)  # of the next action when the last one ends
    start[1:] = finish[:-1]
    start[offsets[:-1][offsets[:-1] < len(start)]] = 0.0
    sent = arrived - (costs.seconds if costs.each else np.repeat(costs.seconds, messages.units))
    return ActionTimes(start, finish, sent, arrived)


def _fresh(n: int) -> tuple[Any, ...]:
    """The state of all meshes at time 0: their clocks; the comparison tree of when each wants to send (mesh k at leaf
    ``leaves + k``), and whose time each node holds; the stack of meshes that can go on.

    They are made here: numba takes half as long again to compile a loop that also makes its arrays.
    """
    leaves = 1 << max(n - 1, 0).bit_length()
    first = np.zeros(2 * leaves, dtype=np.int64)
    first[leaves:] = np.arange(leaves)
    for node in range(leaves - 1, 0, -1):
        first[node] = first[2 * node]
    return np.zeros(n), np.full(2 * leaves, np.inf), first, np.arange(n + 1)


@kernel(plain=PLAIN)
def _run(word, offsets, links, meshes, at, finish, arrived):
    """`finish` holds durations at first. A message's arrival is NaN, then −1 − mesh while that mesh waits for it."""
    seconds, gather, each, resources, free, overlap = links
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
                if kind == COMPUTE:
                    now += finish[row]
                elif kind == SEND:
                    wish = now
                    break
                else:
                    m = (what >> 2) & MESSAGE
                    ready = arrived[m]
                    if not ready >= 0.0:
                        arrived[m] = -1.0 - mesh
                        break
                    g = gather[m if each else what >> PAIR]
                    now = max(now, ready + g) if overlap else max(now, ready) + g
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
        end = begin + seconds[m if each else pair]
        for k in range(resources.shape[1]):
            r = resources[pair, k]
            if r >= 0:
                free[r] = end
        waiting = arrived[m]
        arrived[m] = end
        after = now if overlap else end
        clock[mesh] = after
        finish[row] = after
        at[mesh] = row + 1
        if waiting < 0.0:
            stack[0] = int(-1.0 - waiting)
            top = 1
        stack[top] = mesh
        top += 1
