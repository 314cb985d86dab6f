"""The compiled loop of engines that take turns on devices: arrivals, decisions and ends in one order of time.

An event that would be the next one in any case never enters the heap. Where a group has one stage, its next decision is
due when its iteration ends: that end stands for both, and keeps the decision's place in the order of scheduling.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .....jit import inner, kernel
from ..fleet.events import ARRIVES, DECIDES, ENDS, pop, push
from ..fleet.loop import NOTHING_LEFT, STOPPED, TABLE_FULL, note_iteration
from ..fleet.sarathi import decide_sarathi
from ..fleet.tables import SARATHI, WAITS, Tables
from ..fleet.v1 import complete, decide
from ..fleet.waiting import enqueue
from ..rules import BARE, LOOP
from .prices import priced, through
from .routers import choose
from .tables import Turns, Ways

__all__ = ["TABLE_FULL", "serve_shared"]

_inline: Any = inner(**BARE)


@_inline
def _done(s: Tables, t: Turns, r: int, now: float) -> None:
    """A request is done: schedule the turns that follow it."""
    for k in range(t.behind[r], t.behind[r + 1]):
        f = t.followers[k]
        push(s, max(now + t.think[f], t.arrival[f]), ARRIVES, len(t.begin) - 1 + len(t.group) + len(t.came) + f)


@_inline
def _arrive(rules: Any, s: Tables, t: Turns, w: Ways, r: int, now: float) -> None:
    """A request is sent to a scheduler of its model, unless none can take it."""
    s.times[0, r] = now
    if t.dropped[r]:
        s.counts[3, r] = 1
        _done(s, t, r, now)
        return
    m = t.owner[r]
    e = choose(rules, s, w, m, r)
    g, q = s.engine[e], s.request[r]
    s.counts[2, r], q.engine = e - t.engines[m], e
    g.outstanding += 1
    g.tokens += q.prompt
    q.order, q.state, q.target = g.fresh, WAITS, min(q.target, rules[e].max_len)
    if not rules[e].priority:
        q.priority = 0
    g.fresh += 1
    enqueue(s.request, s.engine, e, r)
    h = t.group[e]
    if t.idle[h]:
        t.idle[h] = 0
        push(s, now, DECIDES, h)


@_inline
def _leave(s: Tables, t: Turns, e: int, now: float) -> None:
    """Those whose last token the iteration gave that just ended leave their scheduler."""
    g = s.engine[e]
    final = s.final[e, g.completed & 1]
    for i in range(1, final[0] + 1):
        g.outstanding -= 1
        g.tokens -= s.request[final[i]].prompt
        _done(s, t, final[i], now)


@_inline
def _next(s: Tables, t: Turns, h: int) -> int:
    """The scheduler whose turn it is; -1: none of the group's may decide."""
    begin, count, at = t.begin[h], t.begin[h + 1] - t.begin[h], t.last[h]
    for _ in range(count):
        at = at + 1 if at + 1 < count else 0
        e = t.members[begin + at]
        g = s.engine[e]
        if g.flying == 0 and g.running + g.waiting > 0:
            t.last[h] = at
            return e
    return -1


@_inline
def _due(s: Tables, t: Turns, h: int, now: float) -> None:
    """A decision that was scheduled before: it keeps its place in the order."""
    scheduled = s.tally[1]
    s.tally[1] = t.order[h]
    push(s, now, DECIDES, h)
    s.tally[1] = scheduled


@kernel(**LOOP)
def serve_shared(
    rules: Any, prices: Any, s: Any, t: Any, w: Any, until: float, clock: Any, state: Any, runs: Any, counters: Any
) -> Any:
    """Serve requests until nothing is left or a table is full.

    Events are numbers: groups that decide, schedulers whose iterations end, models whose next request arrives, requests
    that follow others. `clock`, `state` and `runs` are those of `fleet.loop`. `counters`: iterations, runs.

    Returns
    -------
    status, *counters : int
    """
    n, n_runs = counters
    groups, engines, models = len(t.begin) - 1, len(t.group), len(t.came)
    room, rows = runs.shape[1] - 2 * s.looked.shape[1] - 4, clock.shape[1]  # what one more step may need
    status = NOTHING_LEFT
    while status == NOTHING_LEFT and s.tally[0]:
        if n_runs > room or n == rows:
            status = TABLE_FULL
            break
        now = s.time[0]
        if now >= until:
            break
        h, ending = pop(s), -1
        if h >= groups + engines:
            m = h - groups - engines
            _arrive(rules, s, t, w, t.first[t.came[m]] if m < models else m - models, now)
            if m < models:
                t.came[m] += 1
                if t.came[m] < t.gone[m]:
                    push(s, t.arrival[t.first[t.came[m]]], ARRIVES, h)
            continue
        if h >= groups:
            ending = h - groups
            h = t.group[ending]
        while True:
            if ending >= 0:
                g = s.engine[ending]
                g.flying = 0
                n_runs = complete(rules[ending], s, ending, now, runs, n_runs)
                _leave(s, t, ending, now)
                ending = -1
                if t.stages[h] > 1:
                    if t.idle[h]:
                        t.idle[h] = 0
                        push(s, now, DECIDES, h)
                    break
                if (s.tally[0] and s.time[0] <= now) or n_runs > room or n == rows:
                    _due(s, t, h, now)
                    break
            e = _next(s, t, h)
            if e < 0:
                t.idle[h] = 1
                break
            x, g = rules[e], s.engine[e]
            if x.kind == SARATHI:
                tokens, chunks, decodes, context, outputs, preempted, n_runs = decide_sarathi(
                    x, s, e, now, runs, n_runs
                )
            else:
                tokens, chunks, decodes, context, outputs, preempted, n_runs = decide(x, s, e, now, runs, n_runs)
            g.carried += preempted
            if tokens:
                seconds = priced(prices, e, decodes, context, s.new, s.old, chunks, outputs)
                if not (seconds > 0 and seconds < np.inf):
                    status = STOPPED
                    break
                end = through(prices, e, t.free[h], t.stages[h], seconds, outputs, now)
                s.busy[e], g.stalled, g.flying, t.decider[t.model[e]] = end, 0, 1, e
                note_iteration(x, s, e, now, clock, state, n, chunks, decodes)
                g.iteration += 1
                n += 1
                if t.stages[h] > 1:
                    push(s, end, ENDS, groups + e)
                    push(s, max(now, t.free[h, 0]), DECIDES, h)
                    break
                t.order[h] = s.tally[1] + 1
                # Nothing comes before an event that is put off only because a table is full: it is the next.
                if end >= until or (s.tally[0] and s.time[0] <= end) or n_runs > room or n == rows:
                    push(s, end, ENDS, groups + e)
                    s.tally[1] += 1
                    break
                s.tally[1] += 2
                now, ending = end, e
                continue
            if g.stalled or preempted == 0:
                status = STOPPED
                break
            g.stalled = 1
            again = max(now, t.free[h, 0])
            if again > now or (s.tally[0] and s.time[0] <= now) or n_runs > room or n == rows:
                push(s, again, DECIDES, h)
                break
    return status, n, n_runs
