"""The compiled engine of training programs whose links are shared: from one end of a flow to the next.

Slots: what each mesh does (first), the bucket of gradients that each mesh reduces, and the message under way of each
pair of stages. A mesh that waits for a message or for its gradients has nothing in its slot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....jit import inner, kernel
from ..program.actions import Program
from ..program.checks import deadlock
from ..program.kernels import MESSAGE, PAIR, RECEIVE, SEND
from ..timing import ActionTimes, Prepared
from ..varying.drawn import STEADY, Drawn
from .kernels import begin_flow, end_flow
from .loads import Loaded

__all__ = ["run_compiled"]


def run_compiled(program: Program, costs: Prepared, loads: Loaded, drawn: Drawn | None = None) -> ActionTimes:
    """Time a program; with `drawn`, by times that vary.

    Raises
    ------
    DeadlockError
        If meshes wait for each other for ever.
    """
    columns, n_messages, pairs = program.columns, costs.messages.n_messages, len(costs.messages.pairs)
    finish, sent, arrived = np.full(len(program), np.nan), np.full(n_messages, np.nan), np.full(n_messages, np.nan)
    at = columns.offsets[:-1].copy()
    actions = (costs.messages.word, columns.offsets, columns.stage, costs.duration, costs.begin_s)
    wires = (costs.seconds, costs.gather_s, costs.each, costs.overlap)
    marks = (loads.of_row, loads.parts, loads.reduces, loads.buckets, len(loads.links) - pairs)
    flows, net = _empty(2 * program.n_meshes + pairs, loads)
    varying = STEADY if drawn is None else drawn.arrays(program)
    queues = _queues(program, costs, loads)
    _run(actions, wires, marks, flows, net, queues, varying, at, finish, sent, arrived)
    if np.any(at < columns.offsets[1:]):
        raise deadlock(program, at)
    start = np.empty_like(finish)  # of the next action when the last one ends
    start[1:] = finish[:-1]
    some = columns.offsets[:-1] < columns.offsets[1:]
    start[columns.offsets[:-1][some]] = costs.begin_s[some]
    return ActionTimes(start, finish, sent, arrived)


def _empty(slots: int, loads: Loaded) -> tuple[Any, Any]:
    """Slots without flows, and links without load."""
    links, zeros = loads.n_links, np.zeros(slots)
    flows = np.full(slots, np.inf), zeros, zeros.copy(), zeros.copy(), np.full(slots, -1, np.int32)
    scratch = np.zeros(links, np.int8), np.zeros(links), np.zeros(links)
    return flows, (
        loads.links, loads.shares, np.zeros(links), *scratch, np.zeros(slots, np.int8), np.zeros(slots + 1, np.int64),
    )  # fmt: skip


def _queues(program: Program, costs: Prepared, loads: Loaded) -> tuple[Any, ...]:
    """Who waits for what, and in what order: nobody, for nothing."""
    n, n_messages, pairs = program.n_meshes, costs.messages.n_messages, len(costs.messages.pairs)
    nobody = np.full(n_messages, -1, np.int32)
    return (
        nobody, nobody.copy(),  # meshes that wait for a message: who receives it, who sends it
        np.full(n_messages, -1, np.int64), np.zeros((pairs, 2), np.int64) - 1,  # the next of a pair; its first and last
        nobody.copy(), np.full(n_messages, -1, np.int64), np.ones(n_messages),  # sender, its action, factor
        np.full(program.n_stages, -1, np.int32), loads.buckets.copy(),  # who waits for gradients; buckets to come
        np.zeros((n, int(loads.buckets.sum())), np.int32), np.zeros((n, 2), np.int64),  # a mesh's buckets, in order
        np.full(n, -1, np.int32), np.zeros(n),  # parts of its action that are left (−1: it begins), seconds of each
    )  # fmt: skip


@inner
def _factor(varying, mesh, action, now):
    """The factor of a mesh's action that starts now: the largest of its devices'."""
    since, window, slow, devices, bounds, own, first_own, apart = varying[:8]
    if len(slow) == 0:
        return 1.0
    factor = 0.0
    for j in range(bounds[mesh], bounds[mesh + 1]):
        mine = own[(first_own[j] + action) * apart]
        factor = max(factor, slow[devices[j], int((since + now) / window) % slow.shape[1]] * mine)
    return factor


@inner
def _bucket(mesh, now, actions, marks, flows, net, queues, varying):
    """Begin the first bucket of a mesh's queue."""
    waiting, ends = queues[9], queues[10]
    if ends[mesh, 0] < ends[mesh, 1]:
        stage = waiting[mesh, ends[mesh, 0]]
        row = marks[2][stage]
        seconds = actions[3][row] * _factor(varying, mesh, row - actions[1][mesh], now) / marks[3][stage]
        begin_flow(len(actions[4]) + mesh, seconds, marks[0][row], now, flows, net)


@inner
def _message(pair, now, actions, wires, marks, flows, net, queues, varying, sent):
    """Begin the first message of a pair's queue."""
    m = queues[3][pair, 0]
    if m < 0:
        return
    if len(varying[2]) > 0:
        slow, mesh, row = varying[9], queues[4][m], queues[5][m]
        queues[6][m] = slow[mesh, int((varying[0] + now) / varying[8]) % slow.shape[1]] * varying[10][row * varying[11]]
    sent[m] = now
    seconds = wires[0][m if wires[2] else pair] * queues[6][m]
    begin_flow(2 * len(actions[4]) + pair, seconds, marks[4] + pair, now, flows, net)


@kernel
def _run(actions, wires, marks, flows, net, queues, varying, at, finish, sent, arrived):
    word, offsets, stage_of, duration, begin_s = actions
    of_row, parts_of, buckets = marks[0], marks[1], marks[3]
    receiver, sender, after, line, asker, asked_at, scale, wanting, to_come, pending, ends, parts, each = queues
    n, end = len(begin_s), flows[0]
    for mesh in range(n):
        begin_flow(mesh, begin_s[mesh], -1, 0.0, flows, net)
    while True:
        slot = np.argmin(end)
        now = end[slot]
        if now == np.inf:
            return
        end_flow(slot, now, flows, net)
        mesh = slot  # the mesh that may go on; −1: none
        second = -1
        if slot >= 2 * n:  # a message is there
            pair = slot - 2 * n
            m = line[pair, 0]
            arrived[m] = now
            line[pair, 0] = after[m]
            _message(pair, now, actions, wires, marks, flows, net, queues, varying, sent)
            mesh, second = receiver[m], sender[m]
        elif slot >= n:  # a bucket is reduced
            owner = slot - n
            stage = pending[owner, ends[owner, 0]]
            ends[owner, 0] += 1
            to_come[stage] -= 1
            _bucket(owner, now, actions, marks, flows, net, queues, varying)
            mesh = -1
            if to_come[stage] == 0 and wanting[stage] >= 0:
                mesh = wanting[stage]
                finish[at[mesh]] = now
                at[mesh] += 1
        elif parts[mesh] >= 0:
            row = at[mesh]
            stage = stage_of[row]
            if parts_of[row] > 0:
                pending[mesh, ends[mesh, 1]] = stage
                ends[mesh, 1] += 1
                if end[n + mesh] == np.inf:
                    _bucket(mesh, now, actions, marks, flows, net, queues, varying)
            parts[mesh] -= 1
            if parts[mesh] > 0:
                begin_flow(mesh, each[mesh], of_row[row], now, flows, net)
                mesh = -1
            else:
                finish[row] = now
                at[mesh] += 1
        if second >= 0:  # it sent what has arrived, and was kept by it; its host may be kept longer
            parts[second] = 1
            begin_flow(second, max(0.0, finish[at[second]] - now), -1, now, flows, net)
        while mesh >= 0 and at[mesh] < offsets[mesh + 1]:
            row = at[mesh]
            kind = word[row] & 3
            m = (word[row] >> 2) & MESSAGE
            pair = word[row] >> PAIR
            parts[mesh] = 1
            if kind == RECEIVE:
                if not arrived[m] >= 0.0:
                    receiver[m] = mesh
                    break
                gather = wires[1][m if wires[2] else pair] * scale[m]
                ready = max(now, arrived[m] + gather) if wires[3] else now + gather
                took = ready + duration[row] * _factor(varying, mesh, row - offsets[mesh], ready) - now
                if took > 0.0:
                    begin_flow(mesh, took, -1, now, flows, net)
                    break
                finish[row] = now
            elif kind == SEND:
                asker[m], asked_at[m] = mesh, row
                if line[pair, 0] < 0:
                    line[pair, 0] = m
                    _message(pair, now, actions, wires, marks, flows, net, queues, varying, sent)
                else:
                    after[line[pair, 1]] = m
                line[pair, 1] = m
                took = duration[row] * _factor(varying, mesh, row - offsets[mesh], now)
                if not wires[3]:
                    finish[row] = now + took  # at the earliest
                    sender[m] = mesh
                    break
                if took > 0.0:
                    begin_flow(mesh, took, -1, now, flows, net)
                    break
                finish[row] = now
            elif parts_of[row] == 0 and buckets[stage_of[row]] > 0 and row == marks[2][stage_of[row]]:
                if to_come[stage_of[row]] > 0:
                    wanting[stage_of[row]] = mesh
                    break
                finish[row] = now
            else:
                took = duration[row] * _factor(varying, mesh, row - offsets[mesh], now)
                parts[mesh] = max(parts_of[row], 1)
                each[mesh] = took / parts[mesh]
                if took > 0.0 or parts_of[row] > 0:
                    begin_flow(mesh, each[mesh], of_row[row], now, flows, net)
                    break
                finish[row] = now
            at[mesh] += 1
