"""Sarathi-Serve compiled: `sarathi.SarathiScheduler` over the tables of the compiled fleet, step for step.

Every step looks at all that run, as its rules for memory do.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .blocks import take
from .tables import FleetRules, Tables
from .v1_states import note_run, preempt, starts
from .waiting import dequeue

__all__ = ["decide_sarathi"]

_inline: Any = inner(**BARE)


@_inline
def _by_arrival(s: Tables, e: int) -> int:
    """All that run, in order of arrival: their number. `span` is their place in that order."""
    r, n = s.engine[e].first, 0
    while r >= 0:
        q = s.request[r]
        i = n
        while i > 0 and s.request[s.todo[i - 1]].span > q.span:
            s.todo[i] = s.todo[i - 1]
            i -= 1
        s.todo[i] = r
        n += 1
        r = q.behind
    return n


@_inline
def _serve_decodes(x: FleetRules, s: Tables, e: int) -> tuple[int, int, int]:
    """A token for each request whose prompt is processed: those chosen, those set aside, those preempted."""
    g, n = s.engine[e], _by_arrival(s, e)
    i = m = aside = preempted = 0
    while i < n:
        r = s.todo[i]
        q = s.request[r]
        i += 1
        if q.computed < q.output:
            s.looked[e, aside] = r
            aside += 1
            continue
        while g.free == 0 and i < n:
            n -= 1
            preempt(x, s, e, s.todo[n])
            preempted += 1
        if g.free == 0:
            preempt(x, s, e, r)
            preempted += 1
            continue
        if q.computed + 1 > q.blocks * x.size:
            take(x, s, e, r, 1)
            g.held += 1
        s.chosen[0, m], s.chosen[1, m] = r, 1
        m += 1
    return m, aside, preempted


@_inline
def decide_sarathi(
    x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Decide a step of an engine; returns what `v1.decide` does. `output` is what counts as a prompt: of who
    was preempted, the tokens that it had generated too."""
    g = s.engine[e]
    m, aside, preempted = _serve_decodes(x, s, e)
    left = x.budget - m
    for i in range(aside):
        q = s.request[s.looked[e, i]]
        part = max(0, min(q.output - q.computed, left))  # decodes alone may be above the budget: `left` can be negative
        if part:
            s.chosen[0, m], s.chosen[1, m] = s.looked[e, i], part
            m += 1
            left -= part
    while g.root >= 0 and left > 0 and g.running < x.max_seqs:
        r = g.root
        q = s.request[r]
        need = -(-q.length // x.size)
        if g.free - need < x.watermark:
            break
        dequeue(s.request, s.engine, e, r)
        if not q.resumed:
            q.span, s.times[1, r] = q.order, now
        take(x, s, e, r, need)
        g.held += need
        q.output = q.length
        starts(s, e, r)
        s.chosen[0, m], s.chosen[1, m] = r, min(q.length, left)
        left -= s.chosen[1, m]
        m += 1
    tokens = chunks = decodes = context = outputs = 0
    if m:
        g.decided += 1
        final, owe = s.final[e, g.decided & 1], s.owe[e, g.decided & 1]
        final[0] = owe[0] = 0
        for i in range(m):
            r, part = s.chosen[0, i], s.chosen[1, i]
            q = s.request[r]
            before = q.computed
            q.computed += part
            g.computed += part
            tokens += part
            if part == 1 and q.computed > 1:
                decodes += 1
                context += q.computed
            else:
                s.new[chunks], s.old[chunks] = part, before
                chunks += 1
            if q.computed == q.length:
                outputs += 1
                if q.begin < 0 or q.last + 1 < g.iteration:
                    n_runs = note_run(q, r, runs, n_runs)
                    q.begin = g.iteration
                q.last = g.iteration
                given = final if q.length + 1 >= q.target else owe
                given[0] += 1
                given[given[0]] = r
                q.awaited, q.owed = 1, 1
    return tokens, chunks, decodes, context, outputs, preempted, n_runs
