"""Engines that are added and taken away, compiled: `fleet.growth.Growth` with `TargetTracking`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner
from ..fleet.tables import FleetRules, Tables
from ..rules import BARE, CALL
from .events import FAILS, STARTED, schedule
from .members import become, join
from .tables import DRAINING, GONE, STARTING, ZERO, Handoff, Ledger

__all__ = ["METRICS", "add", "missing", "remove"]

METRICS = ("outstanding", "outstanding_tokens", "waiting", "running", "kv_use")
"""Loads that are compiled, by their numbers."""

OLDEST, YOUNGEST = np.bool_(True), np.bool_(False)

_inline: Any = inner(**BARE)


@_inline
def _loads(x: FleetRules, s: Tables, up: Any, metric: int) -> float:
    """The sum of the loads of the engines that serve."""
    total = 0.0
    for i in range(1, up[0] + 1):
        g = s.engine[up[i]]
        if metric == 0:
            total += g.outstanding
        elif metric == 1:
            total += g.tokens
        elif metric == 2:
            total += g.waiting
        elif metric == 3:
            total += g.running
        elif g.outstanding:
            total += g.used / (x.pool * x.size)
    return total


@inner(**CALL)
def _counted(number: Any, member: Any, role: int, state: int, oldest: bool) -> tuple[int, int]:
    many, found = 0, -1
    for e in range(len(number)):
        k = number[e]
        if k >= 0 and member[k].state == state and member[k].role == role:
            many += 1
            if found < 0 or (k < found) == oldest:
                found = k
    return many, found


@_inline
def _in_state(d: Ledger, role: int, state: int, oldest: bool) -> tuple[int, int]:
    """How many engines of a role are in a state, and of these the one that came first, or last; -1: none."""
    return _counted(d.number, d.member, role, state, oldest)


@_inline
def _wanted(x: FleetRules, s: Tables, d: Ledger, i: int, there: int) -> int:
    """How many engines a rule wants: `TargetTracking`."""
    rule = d.rule[i]
    total = _loads(x, s, d.up[rule.role], rule.metric)
    answer = np.int64(np.ceil(total / rule.target))
    if there and abs(total / there / rule.target - 1) <= rule.tolerance:
        answer = there
    d.answer[i, rule.asked % rule.patience] = answer
    rule.asked += 1
    if answer < there:
        most = answer
        for j in range(min(rule.asked, rule.patience)):
            most = max(most, d.answer[i, j])
        answer = min(there, most)
    return min(max(answer, rule.least), rule.most)


@_inline
def add(x: FleetRules, s: Tables, d: Ledger, h: Handoff | None, i: int, now: float) -> int:
    """Add an engine for a rule. One that is being drained is taken back first, as it serves at once; -1: none is."""
    role = d.rule[i].role
    _, drained = _in_state(d, role, DRAINING, OLDEST)
    if drained < 0:
        k = join(x, s, d, h, role, STARTING, now)
        schedule(s, now + d.rule[i].start, FAILS, STARTED, k, ZERO)
    return drained


@_inline
def remove(s: Tables, d: Ledger, role: int, now: float) -> None:
    """Take an engine away: one that still starts, or else the one with the fewest requests, of several the youngest."""
    up = d.up[role]
    _, starts = _in_state(d, role, STARTING, YOUNGEST)
    k, state = starts, GONE
    if starts < 0:
        least = up[up[0]]
        for i in range(up[0] - 1, 0, -1):
            if s.engine[up[i]].outstanding < s.engine[least].outstanding:
                least = up[i]
        k = d.number[least]
        if d.member[k].first >= 0:
            state = DRAINING
    become(d, k, state, now)


@_inline
def missing(x: FleetRules, s: Tables, d: Ledger, i: int) -> int:
    """Ask a rule how many engines there should be: how many more than there are, or fewer."""
    role = d.rule[i].role
    starting, _ = _in_state(d, role, STARTING, OLDEST)
    there = d.up[role, 0] + starting
    return _wanted(x, s, d, i, there) - there
