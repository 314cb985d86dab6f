"""What the compiled fleet works on: one record for each request, engine and block, and the lists between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "BLOCK", "CHUNK", "CLOSING", "DECODES", "DONE", "ENGINE", "FASTERTRANSFORMER", "NO_DRAFTS", "ORCA", "REQUEST",
    "RUNS", "SARATHI", "SPECULATIVE", "V1", "WAITS", "Drafts", "FleetRules", "Tables",
]  # fmt: skip

WAITS, RUNS, DECODES, CLOSING, DONE = range(5)
"""States of a request: it waits; it runs and is looked at in every step; it decodes and advances with its engine's
counter; its last token is under way; it is gone."""


def _record(wide: str, narrow: str = "") -> np.dtype[Any]:
    fields = [(name, np.int64) for name in wide.split()] + [(name, np.int32) for name in narrow.split()]
    return np.dtype(fields, align=True)


REQUEST = _record(
    "state base joined slot after ahead target prompt computed length awaited blocks gone table published owed mark "
    "before behind stamp begin last priority order child sibling parent engine resumed own nodes shared "
    "junction copies span output"
)
"""A request. It has `length` tokens, `computed` of them in the cache, and `awaited` are under way. While it decodes,
all three follow from `base`: with g decided and c completed steps of its engine it has ``base + g`` tokens, those under
way included, all but one of them computed, and ``g - max(c, joined - 1)`` of them under way.

slot, after, ahead: its place in the ring of steps that must look at it (-1: none); blocks, gone, table, published: its
blocks (of several groups of layers those that each has had), those that groups with a window gave back, where the list
of its blocks begins, and how many can be found; owed: whether the step under way owes it a token; mark: its
place in the step being decided; before, behind, stamp: neighbours among those that run, and their order; begin, last:
its run of iterations with tokens; priority, order: what the policy sorts by; child, sibling, parent: the heap of those
that wait; own, nodes, shared: contents of its blocks (`contents`). Of contiguous memory: copies, span, output:
its sequences, and of each the slots and the tokens that it generates."""

ENGINE = _record(
    "free decided completed decoding context waiting running root first last stamps fresh back held computed looks "
    "most iteration flying stalled carried ending idle outstanding tokens used slots "
    "gone joined"
)
"""An engine: free blocks; steps decided and completed; sequences that decode and the sum of their tokens; requests that
wait (their heap's root) and run (first and last of the list); counters of order; blocks held and tokens computed of
those that run; length of the list of those looked at in every step; a request's tokens in this step (0: no
limit); iterations; steps under way; whether nothing went
on; preemptions of steps without an iteration; what it waits for; its load, and tokens held after its last decision, of
so many slots; blocks that groups with a window gave back, of those that run."""

CHUNK = np.dtype([("below", np.int32), ("above", np.int32), ("order", np.int32)], align=True)
"""A slot where a free chunk of 2^order slots begins (-1: none does), and its neighbours among those of its size."""

BLOCK = _record("content", "shares earlier later previous following")
"""A block: what it holds (-1: nothing known), who shares it, its neighbours in the free queue and in its bucket."""


V1, ORCA, FASTERTRANSFORMER, SARATHI, SPECULATIVE = range(5)
"""Kinds of policies."""


class FleetRules(NamedTuple):
    """Options of the policy and of the run, in numbers; what each means is said where they come from."""

    kind: int
    pool: int  # usable blocks
    size: int
    budget: int
    max_seqs: int
    max_len: int
    watermark: int
    threshold: int
    alone: bool  # it holds for a request that is alone, too
    chunked: bool
    whole: bool  # admit only what fits in full
    caching: bool
    priority: bool
    deep: int  # steps under way at most
    concurrency: int  # 0: open loop
    until: float
    groups: int = 1  # of layers with blocks of their own
    near: int = 0  # those of them whose layers have a window
    window: int = 0  # its tokens
    most: int = 0  # blocks of such a group that admission in full asks for at most
    drafts: int = 0  # tokens that a draft proposes for each sequence and step
    ahead: int = 0  # of them those that slots are kept for


class Drafts(NamedTuple):
    """Which draft tokens are accepted."""

    chances: Any  # (drafts,): of each position
    entropy: Any  # the seed of the streams
    keys: Any  # (n, 4): of each request's stream
    stream: Any  # (n, 5): see `streams`


NO_DRAFTS = Drafts(
    np.zeros(1), np.zeros(4, dtype=np.uint64), np.zeros((1, 4), dtype=np.uint64), np.zeros((1, 5), dtype=np.uint64)
)


class Tables(NamedTuple):
    """All arrays of a run; n requests, E engines, at most c requests that run on one."""

    request: Any  # (n,) REQUEST
    engine: Any  # (E,) ENGINE
    ring: Any  # (E, size): first request that the step of this remainder must look at
    block: Any  # (E, blocks) BLOCK; block 0 stands before the head and after the tail of the free queue
    bucket: Any  # (E, power of two, 2): first and last block of each hash
    chunk: Any  # (E, slots) CHUNK, of contiguous memory
    top: Any  # (E, orders): the chunk of each size that was freed last
    table: Any  # blocks or chunks of every request, one after the other
    nodes: Any  # contents of prompts that are shared, see `contents`
    per: int
    looked: Any  # (E, c): requests that run and do not decode, in order
    final: Any  # (E, 2, c + 1): number, then requests whose last token an odd or even step gives
    owe: Any  # (E, 2, c + 1): number, then requests that it owes a token otherwise
    todo: Any  # (c,): whom a step looks at, in order
    chosen: Any  # (2, c): requests that a step computes one by one, and their tokens
    new: Any  # (c,): tokens of its chunks, and the tokens before each
    old: Any
    event: Any  # (events, 2): order and what happens, a heap by time and order; see `events`
    time: Any  # (events,): seconds
    tally: Any  # (3,): events in the heap, events so far, requests sent
    ends: Any  # (E, 2): ends of the steps under way, odd and even
    busy: Any  # (E,): end of the last step decided
    counts: Any  # (4, n): preemptions, cached tokens, engine, ignored
    times: Any  # (3, n): arrival, scheduled, finish
    drafts: Any = NO_DRAFTS
