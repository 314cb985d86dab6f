"""The compiled fleet's tables filled from a world, and what came of them in the terms of the reference."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...memory.contiguous import ContiguousConfig
from ...policy.catalogue import Policy
from ...policy.fastertransformer import FasterTransformerScheduler
from ...policy.orca import RESERVES, OrcaScheduler
from ...policy.sarathi import SarathiConfig
from ...result.iterations import Iterations, TokenRuns
from ...world import Records, World
from ..contents import Contents, contents
from ..lists import wider
from .drafts import drafts_of, streams_of
from .routing import Routing, routing
from .tables import (
    BLOCK,
    CHUNK,
    DECODES,
    DONE,
    ENGINE,
    FASTERTRANSFORMER,
    ORCA,
    REQUEST,
    SARATHI,
    SPECULATIVE,
    V1,
    FleetRules,
    Tables,
)

__all__ = ["COLUMNS", "calls_of", "open_runs", "outcome", "reserve_of", "rules_of", "run_fleet", "tables_of"]

COLUMNS = (
    "running", "waiting", "prefill", "decodes", "preempted", "used_tokens", "wasted_tokens", "shared_tokens", "engine",
)  # fmt: skip
"""Of `Iterations`, the columns that the loops fill with integers."""


def run_fleet(world: World, price: Any, until: float | None = None) -> tuple[Records, Iterations, TokenRuns] | None:
    """Serve the requests; None where the reference must say what is wrong."""
    rules = rules_of(world, until)
    tables, calls = tables_of(world, rules), calls_of(world, routing(world))
    served = _served(rules, price, tables, calls)
    if served is None:
        return None
    clock, state, runs = served
    records = Records(len(world.trace))
    records.arrival[:], records.scheduled[:], records.finish[:] = tables.times
    records.preemptions[:], records.cached_tokens[:], records.engine[:], ignored = tables.counts
    records.ignored[:] = ignored > 0
    return outcome(world, rules, records, clock, state, runs)


def _served(x: FleetRules, price: Any, s: Tables, calls: Any) -> tuple[Any, Any, Any] | None:
    """Clocks and states of all iterations, and the runs of tokens; None where the reference must say what is wrong."""
    from .blocks import fresh_pools
    from .buddy import fresh_chunks
    from .events import first_arrivals
    from .loop import LOOPS, TABLE_FULL

    first, sent, arrival = calls[:3]
    if x.caching:
        fresh_pools(s)
    if x.kind == ORCA:
        fresh_chunks(s)
    if x.concurrency:
        sent[0] = min(x.concurrency, len(first))
        first_arrivals(s, 0.0, len(s.engine) + 1 + first[: sent[0]])
    elif len(first):
        first_arrivals(s, arrival[first[0]], np.array([len(s.engine)]))
    # 4096 iterations at first: a guess, as tables that are full are widened.
    clock, state, runs = np.empty((2, 4096)), np.empty((9, 4096), np.int64), np.empty((3, 4096), np.int64)
    status, counters = TABLE_FULL, (0, 0, 0)
    while status == TABLE_FULL:
        n, n_runs, _ = counters
        clock, state, runs = wider(clock, n, 1), wider(state, n, 1), wider(runs, n_runs, 2 * s.looked.shape[1] + 5)
        status, *counters = LOOPS[x.kind](x, price, s, calls, clock, state, runs, tuple(counters))
    if status:
        return None
    n, n_runs, _ = counters
    if x.kind == SPECULATIVE:
        from .emitted import runs_of

        return clock[:, :n], state[:, :n], runs_of(runs[:, :n_runs], len(s.request))
    return clock[:, :n], state[:, :n], np.concatenate((runs[:, :n_runs], open_runs(s)), axis=1)


def open_runs(s: Tables) -> Any:
    """Runs of tokens that had not ended: rows of request, first, last."""
    q = s.request
    open_ = np.flatnonzero((q["begin"] >= 0) & (q["state"] != DONE))
    last = np.where(q["state"][open_] == DECODES, s.engine["iteration"][q["engine"][open_]] - 1, q["last"][open_])
    return np.stack((open_, q["begin"][open_], last))


def outcome(
    world: World, rules: FleetRules, records: Records, clock: Any, state: Any, runs: Any
) -> tuple[Records, Iterations, TokenRuns]:
    """Iterations by engine, and the runs of tokens in them; what had not ended by the horizon has given no tokens."""
    ended = np.flatnonzero(clock[1] < rules.until)
    order = ended[np.argsort(state[8, ended], kind="stable")]
    nothing = np.zeros(len(order), dtype=np.int64)
    iterations = Iterations(
        **dict(zip(COLUMNS, state[:, order], strict=True)),
        start=clock[0, order],
        end=clock[1, order],
        swap_out=nothing,
        swap_in=nothing,
        capacity_tokens=rules.pool * rules.size if clock.shape[1] else 0,
        engines=world.engines,
    )
    upto = np.searchsorted(iterations.engine, np.arange(world.engines + 1))  # an engine's iterations stand together
    whose = records.engine[runs[0]]
    first, last = upto[whose] + runs[1], np.minimum(upto[whose] + runs[2], upto[whose + 1] - 1)
    kept = np.flatnonzero(first <= last)
    kept = kept[np.argsort(runs[0, kept], kind="stable")]
    told = TokenRuns(runs[0, kept], first[kept], last[kept])
    at = np.flatnonzero(np.diff(told.request, prepend=-1))
    records.first_token[told.request[at]] = iterations.end[told.first[at]]
    tokens = np.bincount(told.request, weights=told.last - told.first + 1, minlength=len(world.trace))
    records.generated += tokens.astype(np.int64)
    return records, iterations, told


def rules_of(world: World, until: float | None) -> FleetRules:
    """The options in numbers."""
    c, rest = world.config, (world.concurrency or 0, float("inf") if until is None else float(until))
    if isinstance(c, SarathiConfig):
        low = int(c.watermark * c.num_gpu_blocks)
        return FleetRules(
            SARATHI, c.num_gpu_blocks, c.block_size, c.chunk_size, c.max_num_seqs, c.max_model_len, low, 0, False, True,
            True, False, False, 1, *rest,
        )  # fmt: skip
    if isinstance(c, ContiguousConfig):
        kind = FASTERTRANSFORMER if world.policy.scheduler is FasterTransformerScheduler else ORCA
        most = c.max_num_seqs if kind == ORCA else min(c.num_slots // c.max_model_len, c.max_num_seqs)
        return FleetRules(
            kind, c.num_slots, 1, 0, most, c.max_model_len, 0, 0, False, False, False, False, False, 1, *rest
        )
    drafts = drafts_of(world.policy)
    return FleetRules(
        kind=V1 if drafts is None else SPECULATIVE,
        pool=c.num_blocks - 1,
        size=c.block_size,
        budget=c.max_num_batched_tokens,
        max_seqs=c.max_num_seqs,
        max_len=c.max_model_len,
        watermark=int(c.watermark * c.num_blocks),
        threshold=c.long_prefill_token_threshold,
        alone=c.limit_alone,
        chunked=c.enable_chunked_prefill,
        whole=c.scheduler_reserve_full_isl,
        caching=c.enable_prefix_caching,
        priority=c.policy == "priority",
        deep=2 if c.async_scheduling else 1,
        concurrency=rest[0],
        until=rest[1],
        groups=c.groups,
        near=c.window_groups,
        window=c.sliding_window,
        most=c.window_most,
        drafts=0 if drafts is None else drafts.tokens,
        ahead=drafts.tokens if drafts is not None and drafts.lookahead else 0,
    )


def reserve_of(policy: Policy) -> Any:
    """The rule by which a contiguous policy reserves slots for a request; None for a policy without a compiled form."""
    scheduler: Any = policy.scheduler
    if scheduler is FasterTransformerScheduler:
        return RESERVES["max"]
    if isinstance(scheduler, partial) and scheduler.func is OrcaScheduler:
        return RESERVES.get(scheduler.keywords.get("reserve", "max"))
    return None


def calls_of(world: World, route: Routing) -> Any:
    """Arrivals and follow-up requests, in the form that `serve_fleet` takes."""
    trace, n = world.trace, len(world.trace)
    after = np.full(n, -1, dtype=np.int64) if trace.after is None else trace.after
    following = np.flatnonzero(after >= 0)
    following = following[np.argsort(after[following], kind="stable")]
    begin = np.searchsorted(after[following], np.arange(n + 1))
    dropped = np.zeros(n, dtype=np.bool_)
    dropped[list(world.dropped)] = True
    think = np.zeros(n) if trace.think_s is None else trace.think_s.copy()
    first = np.flatnonzero(after < 0)
    return first, np.zeros(1, dtype=np.int64), trace.arrival.copy(), think, begin, following, dropped, route


def tables_of(world: World, x: FleetRules) -> Tables:
    """Tables in which nobody has come yet."""
    trace, n, engines, c = world.trace, len(world.trace), world.engines, world.config
    seqs = min(x.max_seqs, n) + 1
    request, engine = np.zeros(n, dtype=REQUEST), np.zeros(engines, dtype=ENGINE)
    for name in ("slot", "after", "ahead", "mark", "before", "behind", "begin", "child", "sibling", "parent", "engine"):
        request[name] = -1
    request["prompt"] = request["length"] = trace.prompt_tokens
    request["target"] = np.minimum(trace.prompt_tokens + trace.output_tokens, x.max_len)
    if x.priority and trace.priority is not None:
        request["priority"] = trace.priority
    for name in ("root", "first", "last"):
        engine[name] = -1
    engine["free"], engine["slots"], engine["idle"] = x.pool, x.pool * x.size, 1
    blocks, buckets, slots, ring, table = 1, 1, 1, x.size, np.zeros(1, dtype=np.int32)
    room = seqs
    if x.kind in (ORCA, FASTERTRANSFORMER):
        copies = np.ones(n, dtype=np.int64) if trace.best_of is None else trace.best_of
        reserve = reserve_of(world.policy)
        request["copies"], request["output"], ring = copies, trace.output_tokens, int(trace.output_tokens.max()) + 1
        request["span"] = [
            reserve(prompt, output, x.max_len)
            for prompt, output in zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
        ]
        request["table"] = np.cumsum(copies) - copies
        table, room = np.empty(int(copies.sum()), dtype=np.int32), min(x.max_seqs, int(copies.sum())) + 1
        slots = x.pool if x.kind == ORCA else 1
    zero = np.zeros(1, dtype=np.int64)
    given = Contents(zero, zero, zero, zero, 1)
    if x.caching:
        given = contents(trace, x.size)
        # Drafts, and slots for those to come, may lie behind the last token.
        most = x.groups * -(-np.minimum(request["target"] + 2 * x.drafts, x.max_len) // x.size)
        request["table"] = np.cumsum(most) - most
        request["own"], request["nodes"], request["shared"] = given.own, given.begin, given.shared
        table = np.empty(int(most.sum()), dtype=np.int32)
        blocks, buckets = c.num_blocks, 1 << c.num_blocks.bit_length()  # one for each block or more; masked
    return Tables(
        request=request,
        engine=engine,
        ring=np.full((engines, ring), -1, dtype=np.int64),
        block=np.empty((engines, blocks), dtype=BLOCK),
        bucket=np.empty((engines, buckets, 2), dtype=np.int32),
        chunk=np.empty((engines, slots), dtype=CHUNK),
        top=np.empty((engines, slots.bit_length()), dtype=np.int32),
        table=table,
        nodes=given.nodes,
        per=given.per,
        looked=np.empty((engines, seqs), dtype=np.int64),
        final=np.zeros((engines, 2, seqs + 1), dtype=np.int64),
        owe=np.zeros((engines, 2, seqs + 1), dtype=np.int64),
        todo=np.empty(seqs, dtype=np.int64),
        chosen=np.empty((2, 2 * seqs), dtype=np.int64),
        new=np.empty(room, dtype=np.int64),
        old=np.empty(room, dtype=np.int64),
        event=np.empty((n + engines + 2, 2), dtype=np.int64),
        time=np.empty(n + engines + 2),
        tally=np.zeros(3, dtype=np.int64),
        ends=np.zeros((engines, 2)),
        busy=np.zeros(engines),
        counts=_start_of_counts(n),
        times=np.full((3, n), np.nan),
        drafts=streams_of(world.policy, n),
    )


def _start_of_counts(n: int) -> Any:
    counts = np.zeros((4, n), dtype=np.int64)
    counts[2] = -1
    return counts
