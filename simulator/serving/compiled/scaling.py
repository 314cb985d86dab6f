"""`Scaler` compiled: which groups are started and drained, as arithmetic on the arrays of a `Groups`.

Its decisions are those of `policy/scaling.py`, in the same order of additions. Groups, models and pairs are few beside
requests, and the load is evaluated rarely: an evaluation may look at all of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ....jit import inner
from ..policy.scaling import Scaler, Scaling, Use
from ..tables import ServingTables

__all__ = [
    "Groups",
    "begins",
    "evaluate",
    "failed_group",
    "hears_last",
    "loads",
    "repaired",
    "scaled_groups",
    "uses_of",
]

OFF, LOADING, SERVING, DRAINING, DOWN = range(5)
STATES = ("off", "loading", "serving", "draining", "down")
CHUNK = 64
"""Uses that are first made room for; a guess, and doubled as needed."""


class Groups(NamedTuple):
    """The state of a `Scaler`: a value for each group, but where said otherwise.

    Parameters
    ----------
    state : ndarray of int8
        One of `STATES`.
    wanted : ndarray of bool
        Is down, and loads when it is repaired.
    since, had : ndarray of float64
        From when on it has had requests; seconds with requests since the last evaluation.
    begun, serves : ndarray of float64
        When the group was started, and when it served; of those that are in use.
    ready : ndarray of float64
        When it will have loaded; infinite if it does not load.
    load_s : ndarray of float64
        Seconds that it takes to load.
    held_start, held : ndarray of int64, shapes (n_groups + 1,) and (n_pairs,)
        Its models: ``held[held_start[g]:held_start[g + 1]]``.
    last : ndarray of float64, shape (2,)
        The last evaluation, and since when the load is low (NaN if it is not), seconds.
    used : ndarray of int64, shape (1,)
        Uses that are noted.
    rule : ndarray of float64, shape (6,)
        Up, down, `hold_s`, `least`, 1 if the load is the utilization, `every_s` (infinite without a rule).
    """

    state: npt.NDArray[np.int8]
    wanted: npt.NDArray[np.bool_]
    since: npt.NDArray[np.float64]
    had: npt.NDArray[np.float64]
    begun: npt.NDArray[np.float64]
    serves: npt.NDArray[np.float64]
    ready: npt.NDArray[np.float64]
    load_s: npt.NDArray[np.float64]
    held_start: npt.NDArray[np.int64]
    held: npt.NDArray[np.int64]
    last: npt.NDArray[np.float64]
    used: npt.NDArray[np.int64]
    rule: npt.NDArray[np.float64]


@inner
def _off(s, g, now, uses):
    """A group's devices are in use no more, as `Scaler._off`."""
    row = s.used[0]
    uses[row, 0], uses[row, 1], uses[row, 2], uses[row, 3] = g, s.begun[g], s.serves[g], now
    s.used[0] += 1
    s.state[g] = OFF


@inner
def hears_last(s, g, now, uses):
    """A group has answered all that it was sent, as `Scaler.answered`."""
    s.had[g] += now - s.since[g]
    if s.state[g] == DRAINING:
        _off(s, g, now, uses)


@inner
def loads(s, g, now):
    """A group begins to load."""
    s.state[g] = LOADING
    s.begun[g], s.serves[g], s.ready[g] = now, np.inf, now + s.load_s[g]


@inner
def begins(s, g, now):
    """A group has loaded, and serves."""
    s.state[g] = SERVING
    s.serves[g], s.ready[g] = now, np.inf


@inner
def failed_group(s, g, now, had_requests, uses):
    """A group went down, as `Scaler.failed`."""
    if had_requests:
        s.had[g] += now - s.since[g]
    s.wanted[g] = s.state[g] == SERVING or s.state[g] == LOADING
    if s.state[g] != OFF:
        _off(s, g, now, uses)
    s.state[g], s.ready[g] = DOWN, np.inf


@inner
def repaired(s, g, now):
    """A group that was down can run again, as `Scaler.repaired`."""
    if s.wanted[g]:
        s.wanted[g] = False
        loads(s, g, now)
    else:
        s.state[g] = OFF


@inner
def _there(s):
    there = 0
    for g in range(s.state.shape[0]):
        there += s.state[g] == SERVING or s.state[g] == LOADING
    return there


@inner
def _load(s, now, outstanding, waiting):
    """The load, whose window begins anew, as `Scaler._load`."""
    requests, had = waiting, 0.0
    for g in range(s.state.shape[0]):
        if outstanding[g] > 0:
            s.had[g] += now - s.since[g]
            s.since[g] = now
        if s.state[g] == SERVING:
            requests += outstanding[g]
            had += s.had[g]
        s.had[g] = 0.0
    before, s.last[0] = s.last[0], now
    there = max(_there(s), 1)
    return had / (now - before) / there if s.rule[4] else requests / there


@inner
def _start(s, now, outstanding, waits, model_start, pair_group, needed, away):
    """Start a group, or take one back, as `Scaler._start`; -1 if there is none."""
    best, best_off, best_relieves = -1, False, -1
    counted = np.full(s.state.shape[0], -1)  # the last group whose relief a group was counted in
    for g in range(s.state.shape[0]):
        off = s.state[g] == OFF
        if not (off or s.state[g] == DRAINING):
            continue
        free, relieves = False, 0
        for j in range(s.held_start[g], s.held_start[g + 1]):
            m = s.held[j]
            free = free or needed[m]
            relieves += waits[m]
            for p in range(model_start[m], model_start[m + 1]):
                h = pair_group[p]
                if s.state[h] == SERVING and counted[h] != g:
                    counted[h] = g
                    relieves += outstanding[h]
        if free and (best < 0 or (best_off and not off) or (best_off == off and relieves > best_relieves)):
            best, best_off, best_relieves = g, off, relieves
    if best < 0:
        return -1
    s.last[1] = np.nan
    if best_off:
        loads(s, best, now)
    else:
        s.state[best] = SERVING
        away[best] = False
    return best


@inner
def _drain(s, now, outstanding, model_start, pair_group, away, uses):
    """Drain a group, as `Scaler._drain`."""
    if _there(s) <= s.rule[3]:
        return
    best = -1
    for g in range(s.state.shape[0]):
        free = s.state[g] == SERVING and (best < 0 or outstanding[g] <= outstanding[best])
        for j in range(s.held_start[g], s.held_start[g + 1]):
            if not free:
                break
            holders = 0
            for p in range(model_start[s.held[j]], model_start[s.held[j] + 1]):
                holders += s.state[pair_group[p]] == SERVING
            free = holders > 1
        if free:
            best = g
    if best < 0:
        return
    s.state[best], s.last[1], away[best] = DRAINING, np.nan, True
    if outstanding[best] == 0:
        _off(s, best, now, uses)


@inner
def evaluate(s, now, outstanding, waits, model_start, pair_group, away, uses):
    """Evaluate the load, as `Scaler.evaluate`; the group that was started or taken back, else -1.

    Answers of all groups up to now must have been heard.
    """
    load = _load(s, now, outstanding, waits.sum())
    models = model_start.shape[0] - 1
    unheld, lacking = np.zeros(models, np.bool_), False
    for m in range(models):
        there = False
        for p in range(model_start[m], model_start[m + 1]):
            there = there or s.state[pair_group[p]] == SERVING or s.state[pair_group[p]] == LOADING
        unheld[m] = not there and model_start[m + 1] > model_start[m]
        lacking = lacking or unheld[m]
    group = _start(s, now, outstanding, waits, model_start, pair_group, unheld, away) if lacking else -1
    every = np.ones(models, np.bool_)
    if group < 0 and _there(s) < s.rule[3]:
        group = _start(s, now, outstanding, waits, model_start, pair_group, every, away)
    if group >= 0:
        return group
    if load > s.rule[0]:
        s.last[1] = np.nan
        return _start(s, now, outstanding, waits, model_start, pair_group, every, away)
    if not load < s.rule[1]:
        s.last[1] = np.nan
        return -1
    if np.isnan(s.last[1]):
        s.last[1] = now
    if now - s.last[1] >= s.rule[2]:
        _drain(s, now, outstanding, model_start, pair_group, away, uses)
    return -1


def scaled_groups(rule: Scaling | None, tables: ServingTables) -> tuple[Groups, npt.NDArray[np.float64]]:
    """The groups of a placement at time 0, and room for their uses; all serve if there is no rule."""
    n, infinite = tables.n_groups, math.inf
    held = np.argsort(tables.pair_group, kind="stable")  # pairs by group, and in each group by model
    held_start = np.searchsorted(tables.pair_group[held], np.arange(n + 1))
    models = np.repeat(np.arange(tables.n_models), np.diff(tables.model_start))[held]
    state, load_s = np.full(n, SERVING, dtype=np.int8), np.zeros(n)
    figures: tuple[float, ...] = (infinite, 0.0, infinite, 0.0, 0.0, infinite)
    if rule is not None:
        parts = [models[held_start[g] : held_start[g + 1]].tolist() for g in range(n)]
        state[:] = [STATES.index(name) for name in Scaler(rule, parts).state]
        load_s[:] = rule.load_s
        figures = (rule.up, rule.down, rule.hold_s, rule.least, rule.by == "utilization", rule.every_s)
    return Groups(
        state, np.zeros(n, dtype=np.bool_), np.zeros(n), np.zeros(n), np.zeros(n),
        np.where(state == LOADING, infinite, 0.0), np.where(state == LOADING, load_s, infinite), load_s,
        held_start.astype(np.int64), models.astype(np.int64), np.array([0.0, math.nan]), np.zeros(1, dtype=np.int64),
        np.array(figures, dtype=np.float64),
    ), np.empty((CHUNK + 3 * n, 4))  # fmt: skip


def uses_of(groups: Groups, uses: npt.NDArray[np.float64]) -> tuple[Use, ...]:
    """When each group was in use, as `Scaler.uses`."""
    found = [Use(int(g), begun, serves, until) for g, begun, serves, until in uses[: groups.used[0]].tolist()]
    found += [
        Use(int(g), float(groups.begun[g]), float(groups.serves[g]), math.inf)
        for g in np.flatnonzero((groups.state != OFF) & (groups.state != DOWN))
    ]
    return tuple(sorted(found, key=lambda use: (use.from_s, use.group)))
