"""The compiled engine under conditions, with batching: `real` and `batching` together, as arithmetic.

A job is known by its first request: ``after`` links the jobs of a group, ``mate`` the requests of a job, and before
that the requests that wait for a model. A tournament tree over the groups knows whose first stage the controller hears
to be free next; it is asked only while something waits. What it was told in the meantime (`_catch_up`) a group works
off when it takes part in a decision.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ....jit import inner, kernel
from ...ratio import ratio, rested
from ..policy import TOLERANCE_S
from ..reality import Outcome, Reality, Rules
from ..tables import ServingTables
from .kernel import POLICY
from .real import best_of, enter, lowered, overdue, predict, settle, slowest, streams

__all__ = ["run_real_batching"]


@inner
def _free_at(g, time, ends, winner):
    """Note in the tournament when group `g` is free; ``ends[1]`` is the earliest, the lowest index wins a tie."""
    at = ends.shape[0] // 2 + g
    ends[at] = time
    at //= 2
    while at > 0:
        best = 2 * at if ends[2 * at] <= ends[2 * at + 1] else 2 * at + 1
        ends[at], winner[at] = ends[best], winner[best]
        at //= 2


@inner
def _catch_up(g, now, busy, free_at, head, after, finish, size, predicted, ended, clock, drift, stages, outstanding,
              varies):  # fmt: skip
    """Hear all that group `g` said up to now, as `Following.end` and `Following.stage_free` with nothing to take."""
    if busy[g] and free_at[g] <= now:
        settle(g, free_at[g], head, after, finish, size, predicted, ended, clock, drift, stages, outstanding, varies)
        if varies:
            overdue(g, free_at[g], head, predicted, clock, drift, stages)
            clock[g, 0] = free_at[g]
        busy[g] = False
    settle(g, now, head, after, finish, size, predicted, ended, clock, drift, stages, outstanding, varies)


@inner
def _enqueue(r, m, waits, mate, queue, queue_end):
    """Put a request among those that wait for its model, in order of arrival."""
    waits[m] += 1
    if queue[m] < 0 or queue_end[m] < r:
        mate[r] = -1
        if queue[m] < 0:
            queue[m] = r
        else:
            mate[queue_end[m]] = r
        queue_end[m] = r
    elif r < queue[m]:
        mate[r] = queue[m]
        queue[m] = r
    else:
        before = queue[m]
        while mate[before] < r:
            before = mate[before]
        mate[r] = mate[before]
        mate[before] = r


@inner
def _oldest(g, hosted_start, hosted, model_of_pair, queue):
    """The pair of group `g` whose model's first waiting request is the oldest; -1 if nothing waits."""
    best, oldest = -1, -1
    for j in range(hosted_start[g], hosted_start[g + 1]):
        r = queue[model_of_pair[hosted[j]]]
        if r >= 0 and (oldest < 0 or r < oldest):
            best, oldest = hosted[j], r
    return best


@inner
def _largest(now, g, p, r, most, overhead, admission, deadline, mate, clock, latency, wire, stages, sizes):
    """Column of the largest batch of those from `r` on that is in time for all; -1 if not even `r` alone is."""
    tightest = deadline[r]
    if admission and predict(now, g, clock, latency, p, 0, wire, stages) + overhead > tightest + TOLERANCE_S:
        return -1
    column, members, last = 0, 1, r
    for c in range(1, sizes.shape[0]):
        if sizes[c] > most:
            break
        while members < sizes[c]:
            last = mate[last]
            tightest = min(tightest, deadline[last])
            members += 1
        if latency[p, c, 0] == latency[p, c, 0] and (  # a size that was not profiled is NaN
            not admission or predict(now, g, clock, latency, p, c, wire, stages) + overhead <= tightest + TOLERANCE_S
        ):
            column = c
    return column


@kernel
def _serve(arrival, model, deadline, model_start, pair_group, latency, hop, stages, sizes, model_of_pair, hosted_start,
           hosted, admission, overhead, policy, varies, retried, change_at, change_down, change_group, clock, real,
           first, device, visited, slow, window, keys, quantiles, rest_s, rest, hop_slow, hop_window, hop_keys,
           hop_quantiles, out_slow, out_window, out_keys, out_quantiles, ends, winner, finish, start, group_of,
           batch_of, attempts, failed, stage_start, stage_s, sent):  # fmt: skip
    n, groups, models = arrival.shape[0], stages.shape[0], model_start.shape[0] - 1
    recorded = stage_s.shape[1] > 0
    head, tail = np.full(groups, -1), np.full(groups, -1)
    after, mate, again = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    size = np.ones(n, np.int64)
    predicted, ended = np.empty(n), np.empty(n)
    drift, heard, outstanding = np.zeros(groups), np.full(groups, -np.inf), np.zeros(groups, np.int64)
    away, busy, free_at = np.zeros(groups, np.bool_), np.zeros(groups, np.bool_), np.zeros(groups)
    closed = np.zeros(groups, np.bool_)  # away, or its first stage is busy
    queue, queue_end, waits = np.full(models, -1), np.full(models, -1), np.zeros(models, np.int64)
    waiting = 0
    i = c = todo = lost = 0
    now = 0.0
    while True:
        r = -1  # a request that is offered
        g = -1  # a group that takes what waits
        next_change = change_at[c] if c < change_at.shape[0] else np.inf
        next_arrival = arrival[i] if i < n else np.inf
        if todo < lost:
            r = again[todo]
            todo += 1
        elif waiting > 0 and ends[1] < np.inf and ends[1] <= min(next_change, next_arrival):
            now = ends[1]
            g = winner[1]
        elif next_change < np.inf and next_change <= next_arrival:
            now = next_change
            todo = lost = 0
            back = -1
            while c < change_at.shape[0] and change_at[c] == now and back < 0:
                q = change_group[c]
                away[q] = change_down[c]
                if away[q]:
                    _catch_up(q, now, busy, free_at, head, after, finish, size, predicted, ended, clock, drift, stages,
                              outstanding, varies)  # fmt: skip
                    j = head[q]
                    while j >= 0:
                        member = j
                        for _ in range(size[j]):
                            finish[member] = start[member] = np.nan
                            group_of[member], batch_of[member], failed[member] = -1, 0, not retried
                            if recorded:
                                stage_start[member, :] = np.nan
                                stage_s[member, :] = np.nan
                            if retried:
                                again[lost] = member
                                lost += 1
                            member = mate[member]
                        j = after[j]
                    head[q], outstanding[q], busy[q] = -1, 0, False
                    _free_at(q, np.inf, ends, winner)
                    for j in range(hosted_start[q], hosted_start[q + 1]):
                        m = model_of_pair[hosted[j]]
                        there = False
                        for p in range(model_start[m], model_start[m + 1]):
                            there = there or not away[pair_group[p]]
                        if there:
                            continue
                        member = queue[m]
                        while member >= 0:
                            failed[member] = not retried
                            if retried:
                                again[lost] = member
                                lost += 1
                            member = mate[member]
                        waiting -= waits[m]
                        queue[m], queue_end[m], waits[m] = -1, -1, 0
                else:
                    drift[q], heard[q], busy[q] = 0.0, -np.inf, False
                    for k in range(stages[q]):
                        clock[q, k] = real[q, k] = now
                    back = q
                c += 1
            again[:lost].sort()
            if back < 0:
                continue
            g = back  # and takes what waits, before anybody fails: comebacks are first among the changes of an instant
        elif i < n:
            r = i
            now = arrival[i]
            i += 1
        else:
            break
        if g >= 0:
            _catch_up(g, now, busy, free_at, head, after, finish, size, predicted, ended, clock, drift, stages,
                      outstanding, varies)  # fmt: skip
            column = p = -1
            while column < 0:
                p = _oldest(g, hosted_start, hosted, model_of_pair, queue)
                if p < 0:
                    break
                m = model_of_pair[p]
                r = queue[m]
                column = _largest(now, g, p, r, waits[m], overhead, admission, deadline, mate, clock, latency, hop[p],
                                  stages, sizes)  # fmt: skip
                taken = sizes[max(column, 0)]
                waits[m] -= taken
                waiting -= taken
                for _ in range(taken):
                    queue[m] = mate[queue[m]]
            if p < 0:  # out of the tournament until it is given work
                _free_at(g, np.inf, ends, winner)
                continue
        else:
            m = model[r]
            for p in range(model_start[m], model_start[m + 1]):
                q = pair_group[p]
                _catch_up(q, now, busy, free_at, head, after, finish, size, predicted, ended, clock, drift, stages,
                          outstanding, varies)  # fmt: skip
                if varies:
                    overdue(q, now, head, predicted, clock, drift, stages)
                closed[q] = busy[q] or away[q]
            p = best_of(now, model_start[m], model_start[m + 1], pair_group, closed, policy, outstanding, clock,
                        latency, hop, stages)  # fmt: skip
            if p < 0:
                for p in range(model_start[m], model_start[m + 1]):
                    if not away[pair_group[p]]:
                        _enqueue(r, m, waits, mate, queue, queue_end)
                        waiting += 1
                        break
                continue
            g = pair_group[p]
            column = 0
            done = predict(now, g, clock, latency, p, 0, hop[p], stages) + overhead
            if admission and done > deadline[r] + TOLERANCE_S:
                continue
        wire = hop[p]
        done = predict(now, g, clock, latency, p, column, wire, stages) + overhead
        enter(now, g, clock, latency, p, column, wire, stages)
        predicted[r] = done - overhead - drift[g]
        size[r] = sizes[column]
        t = now
        freed = now
        for k in range(stages[g]):
            idle = max(t - real[g, k], 0.0)
            t = max(t, real[g, k])
            took = latency[p, column, k]
            if varies:
                took *= slowest(slow, window, keys, quantiles, device, first[g, k], first[g, k + 1], t, visited,
                                sent[g]) * rested(rest_s, rest, idle)  # fmt: skip
            member = r
            for _ in range(size[r]):
                if k == 0:
                    start[member] = t
                if recorded:
                    stage_start[member, k], stage_s[member, k] = t, took
                member = mate[member]
            t += took
            real[g, k] = t
            if k == 0:
                freed = t
            if k + 1 < stages[g]:
                t += wire * ratio(hop_slow, hop_window, hop_keys, hop_quantiles, g, t, sent[g]) if varies else wire
        ended[r] = t
        extra = overhead * ratio(out_slow, out_window, out_keys, out_quantiles, g, t, sent[g]) if varies else overhead
        heard[g] = max(heard[g], t + extra)
        member = r
        for _ in range(size[r]):
            finish[member] = heard[g]
            group_of[member], batch_of[member] = g, size[r]
            attempts[member] += 1
            member = mate[member]
        busy[g], free_at[g] = True, heard[g] if varies and stages[g] == 1 else freed
        _free_at(g, free_at[g], ends, winner)
        sent[g] += 1
        outstanding[g] += size[r]
        after[r] = -1
        if head[g] < 0:
            head[g] = r
        else:
            after[tail[g]] = r
        tail[g] = r


def run_real_batching(
    requests: tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.float64]],
    tables: ServingTables,
    rules: Rules,
    clock: npt.NDArray[np.float64],
    reality: Reality,
    *,
    recorded: bool = True,
) -> tuple[Outcome, list[int]]:
    """Serve a trace with batching; see `reference.run_reference`. Stages are recorded only if asked for."""
    arrival, model, slo = requests
    out = Outcome.empty(len(arrival), tables.latency.shape[2] if recorded else 0)
    sent = np.zeros(tables.n_groups, dtype=np.int64)
    at, down, group, first, device, visited = lowered(reality, tables.latency.shape[2])
    hosted = np.argsort(tables.pair_group, kind="stable")  # pairs by group, and in each group by model
    hosted_start = np.searchsorted(tables.pair_group[hosted], np.arange(tables.n_groups + 1))
    model_of_pair = np.repeat(np.arange(tables.n_models), np.diff(tables.model_start))
    leaves = max(1 << (tables.n_groups - 1).bit_length(), 1)
    winner = np.zeros(2 * leaves, dtype=np.int64)
    winner[leaves:] = np.arange(leaves)
    _serve(
        arrival, model, arrival + slo, tables.model_start, tables.pair_group, tables.latency, tables.hop, tables.stages,
        tables.sizes, model_of_pair, hosted_start, hosted, rules.admission, rules.overhead, POLICY[rules.dispatch],
        reality.varies, reality.retried, at, down, group, clock.copy(), clock, first, device, visited,
        *streams(reality.stages), reality.stages.rest_s, reality.stages.rest, *streams(reality.hops),
        *streams(reality.answers), np.full(2 * leaves, np.inf),
        winner, out.finish, out.start, out.group, out.batch, out.attempts, out.failed, out.stage_start, out.stage_s,
        sent,
    )  # fmt: skip
    return out, sent.tolist()
