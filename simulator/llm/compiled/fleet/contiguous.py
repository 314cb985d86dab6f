"""Orca and FasterTransformer compiled, step for step as `orca` and `fastertransformer` have them.

A request that runs gets a token in every step and is never preempted, so the step that ends it is known when it starts.
A ring of steps holds which requests end when.
"""

from __future__ import annotations

from typing import Any

from .....jit import inner
from ..rules import BARE
from .buddy import allocate, free_chunk, order_of
from .tables import DECODES, DONE, ORCA, FleetRules, Tables
from .v1_states import note_run, starts, unlink
from .waiting import dequeue

__all__ = ["complete_batch", "decide_batch"]

_inline: Any = inner(**BARE)


@_inline
def _chunks_for(s: Tables, e: int, r: int) -> bool:
    """A chunk for every sequence of a request, or none at all."""
    q = s.request[r]
    order = order_of(q.span)
    for k in range(q.copies):
        start = allocate(s, e, order)
        if start < 0:
            for j in range(k - 1, -1, -1):  # in reverse, as the reference: the free chunks keep their order
                free_chunk(s, e, s.table[q.table + j], order)
            return False
        s.table[q.table + k] = start
    q.blocks = q.copies << order
    return True


@_inline
def _begins(s: Tables, e: int, r: int, now: float) -> None:
    """A request runs from the step on that is being decided."""
    g, q = s.engine[e], s.request[r]
    dequeue(s.request, s.engine, e, r)
    starts(s, e, r)
    s.times[1, r] = now
    q.begin = g.iteration
    g.held += q.blocks
    g.free -= q.blocks
    slot = (g.decided + q.output) % s.ring.shape[1]  # the step being decided is the next one
    q.after, s.ring[e, slot] = s.ring[e, slot], r


@_inline
def decide_batch(
    x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Decide a step of an engine; returns what `v1.decide` does."""
    g = s.engine[e]
    chunks, decodes, context, tokens = 0, g.decoding, g.context, 0
    g.computed = context
    if x.kind == ORCA:
        while g.root >= 0:
            r = g.root
            q = s.request[r]
            if decodes + chunks + q.copies > x.max_seqs or not _chunks_for(s, e, r):
                break
            _begins(s, e, r, now)
            q.state = DECODES
            for _ in range(q.copies):
                s.new[chunks], s.old[chunks] = q.prompt, 0
                chunks += 1
            tokens += q.copies * q.prompt
        g.computed += tokens
        g.decoding += chunks
        g.context += decodes + tokens + chunks
    elif g.running == 0:
        longest = 0
        g.looks = g.joined = 0
        while g.root >= 0 and chunks + s.request[g.root].copies <= x.max_seqs:
            r = g.root
            q = s.request[r]
            q.blocks = q.copies * q.span
            _begins(s, e, r, now)
            q.last = q.begin + q.output - 1
            longest = max(longest, q.prompt)
            chunks += q.copies
            g.joined += q.copies * q.prompt
        for k in range(chunks):
            s.new[k], s.old[k] = longest, 0
        tokens = chunks * longest
        # All rows are as long as the longest; `looks` and `joined` are of those that are not done.
        g.decoding, g.context, g.looks, g.computed = chunks, chunks * (longest + 1), chunks, g.joined
        g.joined += chunks
    else:
        g.computed = g.joined
        g.context += g.decoding
        g.joined += g.looks
    tokens += decodes
    if tokens:
        g.decided += 1
        s.final[e, g.decided & 1, 0] = 0
    return tokens, chunks, decodes, context, decodes + chunks, 0, n_runs


@_inline
def complete_batch(x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int) -> int:
    """The step under way ends. Who is done is in ``s.final``; returns the runs noted."""
    g = s.engine[e]
    g.completed += 1
    final, slot = s.final[e, g.completed & 1], g.completed % s.ring.shape[1]
    r, n = s.ring[e, slot], 0
    s.ring[e, slot] = -1
    while r >= 0:
        q = s.request[r]
        if x.kind == ORCA:  # in the order of those that run
            i = n
            while i > 0 and s.request[final[i]].stamp > q.stamp:
                final[i + 1] = final[i]
                i -= 1
            final[i + 1] = r
            n += 1
        else:
            g.looks -= q.copies
            g.joined -= q.copies * (q.prompt + q.output)
        r = q.after
    if x.kind == ORCA:
        for i in range(1, n + 1):
            q = s.request[final[i]]
            q.last = g.iteration - 1
            g.decoding -= q.copies
            g.context -= q.copies * (q.prompt + q.output)
            order = order_of(q.span)
            for k in range(q.copies):
                free_chunk(s, e, s.table[q.table + k], order)
    elif g.looks == 0:
        r = g.first
        while r >= 0:
            n += 1
            final[n] = r
            r = s.request[r].behind
        g.decoding = g.context = 0
    final[0] = n
    for i in range(1, n + 1):
        r = final[i]
        q = s.request[r]
        unlink(s, e, r)
        g.held -= q.blocks
        g.free += q.blocks
        n_runs = note_run(q, r, runs, n_runs)
        q.state, s.times[2, r] = DONE, now
    return n_runs
