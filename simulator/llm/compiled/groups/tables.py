"""What the loop over groups of sequences works on: a record for each request, one for the engine, and lists."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["ENGINE", "GROUP", "GroupRules", "GroupTables"]

GROUP = np.dtype(
    [
        (name, np.int64)
        for name in (
            "wide", "there", "beam", "length", "start", "target", "columns", "solid", "last", "held", "prefix",
            "before", "full", "table", "drawn", "key", "first", "final", "mark",
        )
    ]
)  # fmt: skip
"""A request of `wide` sequences, of which `there` are there: one before its prompt is processed, all of them after it.
All have `length` tokens, begin with `start` and end with `target` of them.

Blocks: each sequence has `columns` of them. The first `solid` ones are shared by all; of the last there are `last`
different ones. `held`: different blocks in all, without those that are reserved for its prefix: which one (-1: none),
its tokens `before` those that are the request's own, its `full` blocks. Of beams: where its `table` and the parents
that were `drawn` begin, and the `key` of the first stream. first, final: its run of iterations with tokens;
mark: the iteration that processes its prompt."""

ENGINE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "free", "host", "rows", "runs", "steps", "arrived", "known", "head", "back", "running", "swapped", "wide",
            "carried", "stalled",
        )
    ]
)  # fmt: skip
"""Free blocks, on the device and on the host; iterations and runs noted; iterations that computed something; requests
that have arrived, are known, and were taken from the front; preempted ones that wait; those that run and that are
swapped, and the sequences of those that run; preemptions of steps without an iteration; whether nothing went on."""


class GroupRules(NamedTuple):
    """Options of the policy and of the run, in numbers; what each means is said where they come from."""

    pool: int
    reserved: int  # blocks of prefixes
    size: int
    budget: int
    max_seqs: int
    limit: int  # longest prompt
    paddings: int
    mixed: bool  # the rules of the paper's vLLM: prompts and decodes in one step; else 0.2's
    watermark: int
    padded: bool
    swap: bool  # single sequences, too, when they are preempted
    copies: int  # of a block that is moved between device and host
    copy_s: float
    survival: float
    concurrency: int  # 0: open loop
    until: float


class GroupTables(NamedTuple):
    """All arrays of a run of n requests, of which at most c run."""

    group: Any  # (n,) GROUP
    engine: Any  # (1,) ENGINE
    arrival: Any  # (n,): in order; of a closed loop it is written
    times: Any  # (3, n): scheduled, first token, finish
    counts: Any  # (3, n): preemptions, ignored, cached tokens
    running: Any  # (c,): in order of arrival
    swapped: Any  # (c,): in order of arrival
    back: Any  # (n,): preempted requests that are computed again, the first to go last
    users: Any  # requests that use each prefix
    blocks: Any  # full blocks of each prefix
    new: Any  # (c,): prompts of a step: their tokens, and the tokens before them
    old: Any
    row: Any  # (most sequences,): one column of a table, while it changes
    table: Any  # of beams: for each block of their sequences, which of the different ones it is
    parent: Any  # of beams: 64 steps of parents for each request
    stays: Any  # (64, most sequences): draws
    entropy: Any  # the seed of the streams, and their keys
    keys: Any
    stream: Any
