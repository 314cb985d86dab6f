"""The tables of the compiled loop of one engine, and the loop run over them to its end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .kernel import FULL, advance
from .lists import wider
from .log import Log
from .rules import Rules

__all__ = ["Desk", "serve"]


class Desk(NamedTuple):
    """All arrays of a run of n requests, of which at most `seqs` run."""

    arrival: Any  # (n,): in order; of a closed loop it is written
    target: Any  # (n,): tokens at the end
    times: Any  # (3, n): scheduled, first token, finish
    counts: Any  # (2, n): preemptions, ignored
    count: Any  # (size,)
    due: Any  # (longest target + 2,)
    after: Any  # (n,): neighbours in the lists of `due`
    ahead: Any
    bases: Any
    links: Any  # (2, n): neighbours among those that run, and the first and last of them
    ends: Any
    length: Any  # (n,): tokens, those computed, and the iteration with which a request's run of tokens began
    computed: Any
    first: Any
    decoding: Any
    back: Any  # (n,): preempted requests, the first to go again last
    new: Any  # (seqs + 1,): tokens of the chunks, tokens before each, and whose prompts end
    before: Any
    joins: Any
    clock: Any  # (2, iterations) of the log: start and end
    state: Any  # (7, iterations) of the log: running, waiting, prefill, decodes, preempted, used, wasted
    runs: Any  # (3, runs): request, first and last iteration

    @classmethod
    def of(cls, x: Rules, arrival: Any, prompt: Any, target: Any, log: Log) -> Desk:
        """Tables of a run in which nothing has happened yet."""
        n = len(arrival)
        seqs = min(x.max_seqs, n) + 1

        def filled(shape: Any, value: int) -> Any:
            return np.full(shape, value, dtype=np.int64)

        return cls(
            arrival, target, np.full((3, n), np.nan), filled((2, n), 0),
            filled(x.size, 0), filled(int(target.max()) + 2, -1), filled(n, -1), filled(n, -1), filled(n, 0),
            filled((2, n), -1), filled(2, -1), prompt.astype(np.int64), filled(n, 0), filled(n, 0),
            np.zeros(n, dtype=np.bool_), filled(n, 0), filled(seqs, 0), filled(seqs, 0), filled(seqs, 0),
            log.clock, log.state, filled((3, 4096), 0),
        )  # fmt: skip


def serve(x: Rules, price: Any, arrival: Any, prompt: Any, target: Any, log: Log) -> tuple[int, Desk, int]:
    """Serve requests in order of arrival on one engine.

    Returns
    -------
    status : int
        0; 1 where the policy stands still or a cost is no time, 2 where what happens is not compiled.
    desk : Desk
        What came of it. Its iterations follow those that the log had, by whose rows its runs name them.
    runs : int
        How many columns of its runs are used.
    """
    d = Desk.of(x, arrival, prompt, target, log)
    n = len(arrival)
    known = n if x.concurrency == 0 else min(x.concurrency, n)
    now, counters = 0.0, (log.rows, *(0,) * 13, x.pool, 0, known, log.rows)
    while True:
        status, now, counters = advance(x, price, d, now, counters)
        it, n_runs = counters[:2]
        if status != FULL:
            log.end(it)
            return status, d, n_runs
        if it == log.clock.shape[1]:
            log.widen(it)
        d = d._replace(clock=log.clock, state=log.state, runs=wider(d.runs, n_runs, 3 * len(d.new) + 4))
