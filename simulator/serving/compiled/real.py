"""The compiled engine under conditions, without batching: what `reference` does with `Following`, as arithmetic.

Everything that a group is told or tells stays in its own clocks, so it may be worked off late: before a group takes
part in a decision (`_settle`), its answers of the meantime are heard in order. Requests on a group are a list that is
linked through ``after`` (request by request): each is in one group at a time, so that no memory is ever asked for.
Work per request is O(1) and one step for each group that holds its model, whatever fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ....jit import inner, kernel
from ...draws import Draws
from ...ratio import ratio, rested
from ..policy import TOLERANCE_S
from ..reality import Outcome, Reality, Rules
from ..tables import ServingTables
from .kernel import POLICY
from .scaling import SERVING, begins, evaluate, failed_group, hears_last, repaired, scaled_groups, uses_of

__all__ = ["run_real"]


@inner
def shift(g, seconds, clock, drift, stages):
    """Move all predictions of a group, as `Following._shift`."""
    drift[g] += seconds
    for k in range(stages[g]):
        clock[g, k] += seconds


@inner
def overdue(g, now, head, predicted, clock, drift, stages):
    """The oldest job of a group cannot end before now, as `Following._overdue`."""
    r = head[g]
    if r >= 0 and predicted[r] + drift[g] < now:
        shift(g, now - predicted[r] - drift[g], clock, drift, stages)


@inner(forceinline=True)
def settle(g, now, head, after, finish, size, predicted, ended, clock, drift, stages, outstanding, varies):
    """Hear the answers of a group up to now, as `Following.end`; when the last of them was there."""
    last = -np.inf
    while head[g] >= 0 and finish[head[g]] <= now:
        r = head[g]
        last = finish[r]
        head[g] = after[r]
        if varies:
            shift(g, ended[r] - predicted[r] - drift[g], clock, drift, stages)
        outstanding[g] -= size[r]
    return last


@inner
def predict(now, g, clock, latency, p, column, wire, stages):
    """When a job that enters at `now` leaves the last stage by the profile, as `Controller.predict`."""
    last = stages[g] - 1
    t = now
    for k in range(last):
        free = clock[g, k]
        t = (t if t > free else free) + latency[p, column, k] + wire
    free = clock[g, last]
    return (t if t > free else free) + latency[p, column, last]


@inner
def enter(now, g, clock, latency, p, column, wire, stages):
    """Note in the clocks that a job enters at `now`."""
    t = now
    for k in range(stages[g]):
        free = clock[g, k]
        t = (t if t > free else free) + latency[p, column, k]
        clock[g, k] = t
        t += wire


@inner(forceinline=True)
def slowest(slow, window, keys, quantiles, device, first, last, at, visited, job):
    """The largest factor of the devices of a stage."""
    most = 0.0
    for j in range(first, last):
        d = device[j]
        most = max(most, ratio(slow, window, keys, quantiles, d, at, visited[d] + job))
    return most


@inner
def best_of(now, low, high, pair_group, away, policy, outstanding, clock, latency, hop, stages):
    """The pair of a model whose group is there and has the smallest key; -1 if none is there."""
    best, best_key = -1, np.inf
    for p in range(low, high):
        g = pair_group[p]
        if away[g]:
            continue
        if policy == 0:
            key = float(outstanding[g])
        elif policy == 1:
            key = predict(now, g, clock, latency, p, 0, hop[p], stages)
        else:
            key = clock[g, stages[g] - 1]
        if key < best_key or best < 0:
            best, best_key = p, key
    return best


@inner
def _hear(g, now, scaled, scaler, uses, head, after, finish, size, predicted, ended, clock, drift, stages, outstanding,
          varies):  # fmt: skip
    """Hear the answers of a group up to now, and note when it had none left."""
    had = outstanding[g] > 0
    last = settle(g, now, head, after, finish, size, predicted, ended, clock, drift, stages, outstanding, varies)
    if scaled and had and outstanding[g] == 0:
        hears_last(scaler, g, last, uses)


@inner
def _next(c, k, change_at, arrival, scaler):
    """When the next group fails or is repaired, has loaded, and when the load is evaluated next; infinite if never."""
    evaluates = k * scaler.rule[5]
    if arrival.shape[0] == 0 or evaluates > arrival[-1]:  # it is evaluated as long as requests arrive
        evaluates = np.inf
    return change_at[c] if c < change_at.shape[0] else np.inf, scaler.ready.min(), evaluates


@inner
def _begin(g, now, clock, real, drift, heard, stages):
    """A group begins to serve, empty, as `Following.restore`."""
    drift[g], heard[g] = 0.0, -np.inf
    for k in range(stages[g]):
        clock[g, k] = real[g, k] = now


@kernel
def _serve(arrival, model, deadline, model_start, pair_group, latency, hop, stages, admission, overhead, policy,
           varies, retried, change_at, change_down, change_group, clock, real, first, device, visited, slow, window,
           keys, quantiles, rest_s, rest, hop_slow, hop_window, hop_keys, hop_quantiles, out_slow, out_window, out_keys,
           out_quantiles, scaler, uses, finish, start, group_of, batch_of, attempts, failed, stage_start,
           stage_s, sent):  # fmt: skip
    n, groups = arrival.shape[0], stages.shape[0]
    recorded, scaled = stage_s.shape[1] > 0, scaler.rule[5] < np.inf
    head, tail = np.full(groups, -1), np.full(groups, -1)
    after, size, again = np.empty(n, np.int64), np.ones(n, np.int64), np.empty(n, np.int64)
    predicted, ended = np.empty(n), np.empty(n)
    drift, heard, outstanding = np.zeros(groups), np.full(groups, -np.inf), np.zeros(groups, np.int64)
    away = scaler.state != SERVING
    waits = np.zeros(model_start.shape[0] - 1, np.int64)
    i = c = todo = lost = 0
    k_th = 1
    now = 0.0
    changes, ready, evaluates = _next(c, k_th, change_at, arrival, scaler)
    while True:
        event = min(changes, ready, evaluates)
        if todo < lost and event > now:  # second tries wait for all events of their instant
            r = again[todo]
            todo += 1
        elif event < np.inf and (i == n or event <= arrival[i]):
            if todo == lost:
                todo = lost = 0
            now = event
            if scaler.used[0] + 2 * groups + 2 > uses.shape[0]:  # until the next event each group can go off once more
                more = np.empty((2 * uses.shape[0], 4))
                more[: uses.shape[0]] = uses
                uses = more
            if changes == now and not change_down[c]:
                if scaled:
                    repaired(scaler, change_group[c], now)
                else:
                    away[change_group[c]] = False
                    _begin(change_group[c], now, clock, real, drift, heard, stages)
                c += 1
            elif ready == now:
                g = scaler.ready.argmin()
                begins(scaler, g, now)
                away[g] = False
                _begin(g, now, clock, real, drift, heard, stages)
            elif changes == now:
                g = change_group[c]
                c += 1
                _hear(g, now, scaled, scaler, uses, head, after, finish, size, predicted, ended, clock, drift, stages,
                      outstanding, varies)  # fmt: skip
                if scaled:
                    failed_group(scaler, g, now, outstanding[g] > 0, uses)
                r = head[g]
                while r >= 0:
                    finish[r] = start[r] = np.nan
                    group_of[r], batch_of[r], failed[r] = -1, 0, not retried
                    if recorded:
                        stage_start[r, :] = np.nan
                        stage_s[r, :] = np.nan
                    if retried:
                        again[lost] = r
                        lost += 1
                    r = after[r]
                away[g], head[g], outstanding[g] = True, -1, 0
                again[:lost].sort()
            else:
                for g in range(groups):
                    _hear(g, now, scaled, scaler, uses, head, after, finish, size, predicted, ended, clock, drift,
                          stages, outstanding, varies)  # fmt: skip
                evaluate(scaler, now, outstanding, waits, model_start, pair_group, away, uses)
                k_th += 1
            changes, ready, evaluates = _next(c, k_th, change_at, arrival, scaler)
            continue
        elif i < n:
            r = i
            now = arrival[i]
            i += 1
        else:
            break
        m = model[r]
        for p in range(model_start[m], model_start[m + 1]):
            g = pair_group[p]
            _hear(g, now, scaled, scaler, uses, head, after, finish, size, predicted, ended, clock, drift, stages,
                  outstanding, varies)  # fmt: skip
            if varies and not away[g]:
                overdue(g, now, head, predicted, clock, drift, stages)
        p = best_of(now, model_start[m], model_start[m + 1], pair_group, away, policy, outstanding, clock, latency,
                    hop, stages)  # fmt: skip
        if p < 0:
            continue
        g = pair_group[p]
        wire = hop[p]
        done = predict(now, g, clock, latency, p, 0, wire, stages) + overhead
        if admission and done > deadline[r] + TOLERANCE_S:
            continue
        enter(now, g, clock, latency, p, 0, wire, stages)
        predicted[r] = done - overhead - drift[g]
        t = now
        for k in range(stages[g]):
            idle = max(t - real[g, k], 0.0)
            t = max(t, real[g, k])
            took = latency[p, 0, k]
            if varies:
                took *= slowest(slow, window, keys, quantiles, device, first[g, k], first[g, k + 1], t, visited,
                                sent[g]) * rested(rest_s, rest, idle)  # fmt: skip
            if k == 0:
                start[r] = t
            if recorded:
                stage_start[r, k], stage_s[r, k] = t, took
            t += took
            real[g, k] = t
            if k + 1 < stages[g]:
                t += wire * ratio(hop_slow, hop_window, hop_keys, hop_quantiles, g, t, sent[g]) if varies else wire
        ended[r] = t
        extra = overhead * ratio(out_slow, out_window, out_keys, out_quantiles, g, t, sent[g]) if varies else overhead
        heard[g] = finish[r] = max(heard[g], t + extra)
        group_of[r], batch_of[r] = g, 1
        attempts[r] += 1
        sent[g] += 1
        if scaled and outstanding[g] == 0:
            scaler.since[g] = now
        outstanding[g] += 1
        after[r] = -1
        if head[g] < 0:
            head[g] = r
        else:
            after[tail[g]] = r
        tail[g] = r
    for g in range(groups):
        _hear(g, np.inf, scaled, scaler, uses, head, after, finish, size, predicted, ended, clock, drift, stages,
              outstanding, varies)  # fmt: skip
    return uses


def streams(draws: Draws) -> tuple[Any, ...]:
    """What the compiled `ratio` reads of them."""
    return draws.slow, draws.window_s, draws.keys, draws.visits


def lowered(reality: Reality, stages: int) -> tuple[Any, ...]:
    """What happens, as arrays: changes, devices by stage, visits made before."""
    changes = reality.changes
    first = np.zeros((len(reality.devices), stages + 1), dtype=np.int64)
    device: list[int] = []
    for g, parts in enumerate(reality.devices):
        for k, part in enumerate(parts):
            first[g, k] = len(device)
            device += part
            first[g, k + 1] = len(device)
    return (
        np.array([c.at for c in changes], dtype=np.float64), np.array([c.down for c in changes], dtype=np.bool_),
        np.array([c.group for c in changes], dtype=np.int64), first, np.array(device, dtype=np.int64), reality.visited,
    )  # fmt: skip


def run_real(
    requests: tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]],
    tables: ServingTables,
    rules: Rules,
    clock: npt.NDArray[np.float64],
    reality: Reality,
    *,
    recorded: bool = True,
) -> tuple[Outcome, list[int]]:
    """Serve a trace without batching; see `reference.run_reference`. Stages are recorded only if asked for."""
    arrival, model, slo = requests
    out = Outcome.empty(len(arrival), tables.latency.shape[2] if recorded else 0)
    sent = np.zeros(tables.n_groups, dtype=np.int64)
    at, down, group, first, device, visited = lowered(reality, tables.latency.shape[2])
    groups, room = scaled_groups(reality.scaling, tables)
    uses = _serve(
        arrival, model, arrival + slo, tables.model_start, tables.pair_group, tables.latency, tables.hop, tables.stages,
        rules.admission, rules.overhead, POLICY[rules.dispatch], reality.varies, reality.retried, at, down, group,
        clock.copy(), clock, first, device, visited, *streams(reality.stages), reality.stages.rest_s,
        reality.stages.rest, *streams(reality.hops), *streams(reality.answers), groups, room, out.finish, out.start,
        out.group, out.batch, out.attempts, out.failed, out.stage_start, out.stage_s, sent,
    )  # fmt: skip
    return out if reality.scaling is None else replace(out, uses=uses_of(groups, uses)), sent.tolist()
