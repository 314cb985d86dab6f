"""Speculative decoding compiled: `speculative.SpeculativeScheduler` over the fleet's tables, step for step.

Every step looks at all that run, as each gets another number of tokens. Of a request, `span` are the drafts that are
verified with its next token, `output` those that the step under way keeps. Of an engine, `looks` and `joined` are the
requests for which drafts are made after the step and their tokens, `context` the chunks that verify. Runs are told as
request, iteration and tokens in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .....jit import inner
from ..rules import BARE, seconds_of
from ..streams import STEP_LOW, seeded, uniform
from ..times import in_service
from .blocks import publish, take
from .tables import DONE, FleetRules, Tables
from .v1 import admit
from .v1_states import preempt, stops, victim

__all__ = ["DraftedPrice", "complete_drafted", "decide_drafted", "drafted_cost"]

_inline: Any = inner(**BARE)


class DraftedPrice(NamedTuple):
    """The cost of a step with drafts; `top` holds what varies by draws alone."""

    target: Any  # `rules.Price`
    draft: Any
    top: Any
    modelled: bool  # whether there is a draft model
    tokens: int  # of a draft
    draft_s: float


@_inline
def _seconds(price: Any, s: Tables, decodes: int, context: int, chunks: int, outputs: int) -> float:
    """Seconds of an iteration of one of the two models."""
    seconds = seconds_of(price.kind, price.line, price.grid, decodes, context, s.new, s.old, chunks, outputs)
    return in_service(price.top, seconds, decodes, chunks)


@_inline
def drafted_cost(price: Any, s: Tables, e: int, decodes: int, context: int, chunks: int, outputs: int) -> float:
    """Seconds of a step, proposals included."""
    g = s.engine[e]
    seconds, n = _seconds(price.target, s, decodes, context, chunks, outputs), g.looks
    if n:
        seconds += price.draft_s
    if price.modelled:
        drafted = 0.0
        for i in range(-1, price.tokens):  # its prompts, then a decode each: one call, as every one is inlined
            first = i < 0
            some = chunks - g.context if first else 0
            if some or (n and not first):
                more = _seconds(price.draft, s, 0 if first else n, 0 if first else g.joined + i * n, some, n)
                if first:
                    seconds += more
                else:
                    drafted += more
        seconds += drafted
    return seconds


@_inline
def _serve_running(x: FleetRules, s: Tables, e: int) -> tuple[int, int, int]:
    """Tokens for those that run, in order: requests chosen, what is left of the budget, requests preempted."""
    g, size = s.engine[e], x.size
    most = g.most if g.most else x.budget
    m, left, preempted, r = 0, x.budget, 0, g.first
    while r >= 0 and left > 0:
        q = s.request[r]
        tokens = q.length + q.span - q.computed
        if tokens > 1:
            tokens = min(tokens, most, left, x.max_len - 1 - q.computed)
        end, fits = q.computed + tokens, True
        if tokens > 1 or (q.computed + 1) % size == 0 or q.computed >= q.blocks * size:
            ahead = x.ahead if end >= q.length else 0
            need = max(0, -(-min(end + ahead, x.max_len) // size) - q.blocks)
            while need > g.free and fits:
                v = victim(x, s, e)
                p = s.request[v]
                if p.mark >= 0:
                    left += s.chosen[1, p.mark]
                    s.chosen[1, p.mark] = 0
                    p.mark = -1
                preempt(x, s, e, v)
                p.span = 0
                preempted += 1
                fits = v != r
            if fits:
                take(x, s, e, r, need)
                g.held += need
                publish(x, s, e, r, min(end, q.length))
            elif not x.priority:
                break
        if fits:
            q.mark, s.chosen[0, m], s.chosen[1, m] = m, r, tokens
            m += 1
            left -= tokens
        r = q.behind
    return m, left, preempted


@_inline
def _kept(x: FleetRules, s: Tables, r: int, drafts: int) -> int:
    """Drafts of a request before the first that is rejected, as its stream says, none beyond its end."""
    d, q = s.drafts, s.request[r]
    stream = d.stream[r]
    if stream[STEP_LOW] == 0:  # it is odd once the stream has begun
        seeded(stream, d.entropy, d.keys[r])
    kept = 0
    for i in range(x.drafts):  # always all of them: a step with fewer drafts moves no other draws
        if uniform(stream) < d.chances[i] and kept == i and i < drafts:
            kept += 1
    return min(kept, q.target - q.length - 1)


@_inline
def decide_drafted(
    x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Decide a step of an engine; returns what `v1.decide` does."""
    g = s.engine[e]
    g.most = x.threshold if x.alone or g.running + g.waiting > 1 else 0
    m, left, preempted = _serve_running(x, s, e)
    if preempted == 0:
        m = admit(x, s, e, m, left, now)
    tokens = chunks = decodes = context = outputs = verified = 0
    g.looks = g.joined = 0
    samples = s.owe[e, (g.decided + 1) & 1]
    samples[0] = 0
    for i in range(m):
        r, part = s.chosen[0, i], s.chosen[1, i]
        if part == 0:  # preempted
            continue
        q = s.request[r]
        q.mark = -1
        q.computed += part
        g.computed += part
        tokens += part
        drafts = q.computed - q.length
        if part == 1 and q.computed > 1:
            decodes += 1
            context += q.computed
        elif drafts > 0:
            s.todo[verified] = i
            verified += 1
        else:
            s.new[chunks], s.old[chunks] = part, q.computed - part
            chunks += 1
        if drafts >= 0:
            q.output = _kept(x, s, r, drafts) if drafts else 0
            outputs += 1 + drafts
            g.looks += 1
            g.joined += q.length
            samples[0] += 1
            samples[samples[0]] = r
    for i in range(verified):  # after the prompts
        r, part = s.chosen[0, s.todo[i]], s.chosen[1, s.todo[i]]
        s.new[chunks], s.old[chunks] = part, s.request[r].computed - part
        chunks += 1
    g.context = verified
    if tokens:
        g.decided += 1
    return tokens, chunks, decodes, context, outputs, preempted, n_runs


@_inline
def complete_drafted(x: FleetRules, s: Tables, e: int, now: float, runs: Any, n_runs: int) -> int:
    """The step under way ends: its tokens appear, what was rejected is to be computed again. Who is done is in
    ``s.final``; returns the runs noted."""
    g = s.engine[e]
    g.completed += 1
    samples, final = s.owe[e, g.completed & 1], s.final[e, g.completed & 1]
    final[0] = 0
    for i in range(1, samples[0] + 1):
        r = samples[i]
        q = s.request[r]
        more = q.output + 1
        runs[0, n_runs], runs[1, n_runs], runs[2, n_runs] = r, g.iteration - 1, more
        n_runs += 1
        q.length += more
        if q.length >= q.target:
            stops(x, s, e, r)
            q.state, s.times[2, r] = DONE, now
            final[0] += 1
            final[final[0]] = r
        else:
            g.computed += q.length - 1 - q.computed
            q.computed, q.span = q.length - 1, x.drafts
    return n_runs
