"""What came of a fleet that changes, in the terms of the reference: records, iterations, tokens, and the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...fleet.member import STATES
from ...fleet.report import FleetReport, Journal, report
from ...result.iterations import Iterations, TokenRuns
from ...world import Records, World
from ..fleet.run import COLUMNS
from ..fleet.tables import DECODES, DONE, FleetRules, Tables
from .tables import LEFT, MEMBERS, SPANS, Ledger

__all__ = ["outcome"]


@dataclass(frozen=True)
class _Life:
    """An engine as the report wants it: number, role, and the spans of its life, the last one open."""

    index: int
    role: str
    state: str
    since: float
    spans: list[tuple[str, float, float]]


def outcome(
    world: World, x: FleetRules, s: Tables, d: Ledger, told: tuple[Any, Any, Any], end: float
) -> tuple[Records, Iterations, TokenRuns, FleetReport]:
    """Everything from the tables after the last event, which was at `end`."""
    clock, state, runs = told
    records = Records(len(world.trace))
    records.arrival[:], scheduled, records.finish[:] = s.times
    records.scheduled[:] = np.where(np.isnan(d.scheduled), scheduled, d.scheduled)
    records.preemptions[:], records.cached_tokens[:], records.engine[:], ignored = s.counts
    records.ignored[:] = ignored > 0
    many = int(d.tally[MEMBERS])
    iterations = _iterations(x, many, bool(d.member["began"].any()), clock, state)
    runs = _runs(s, d, runs, iterations)
    seen, at = np.unique(runs.request, return_index=True)
    records.first_token[seen] = iterations.end[runs.first[at]]
    np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
    journal = Journal(len(world.trace))
    journal.first_engine[:], journal.retries[:] = d.trip["first"], d.trip["retries"]
    journal.lost_tokens[:], journal.failed[:], journal.begun[:] = d.trip["lost"], d.trip["failed"] > 0, d.begun
    journal.deaths = dict(enumerate(d.member["deaths"][:many].tolist()))
    stopped = x.until if np.isfinite(x.until) and d.tally[LEFT] else end
    return records, iterations, runs, report(journal, _lives(d, many), iterations, runs, float(stopped))


def _iterations(x: FleetRules, many: int, began: bool, clock: Any, state: Any) -> Iterations:
    """Iterations by engine; what had not ended by the horizon is none, nor what a failure kept from beginning."""
    ended = np.flatnonzero((clock[1] < x.until) & (state[8] >= 0))
    order = ended[np.argsort(state[8, ended], kind="stable")]
    nothing = np.zeros(len(order), dtype=np.int64)
    return Iterations(
        **dict(zip(COLUMNS, state[:, order], strict=True)),
        start=clock[0, order],
        end=clock[1, order],
        swap_out=nothing,
        swap_in=nothing,
        capacity_tokens=x.pool * x.size if began else 0,
        engines=many,
    )


def _runs(s: Tables, d: Ledger, noted: Any, iterations: Iterations) -> TokenRuns:
    """The runs of tokens that count: not those of tries whose tokens were lost."""
    q, m = s.request, d.member
    open_ = np.flatnonzero((q["begin"] >= 0) & (q["state"] != DONE))
    whose = q["engine"][open_]
    decoded = s.engine["iteration"][m["slot"][whose]] - 1
    last = np.where(q["state"][open_] == DECODES, decoded, q["last"][open_])
    row, first, last, whose = np.concatenate((noted, np.stack((open_, q["begin"][open_], last, whose))), axis=1)
    # An engine's iterations stand together.
    upto = np.searchsorted(iterations.engine, np.arange(iterations.engines + 1))
    first, last = upto[whose] + first, np.minimum(upto[whose] + last, upto[whose + 1] - 1)
    kept = np.flatnonzero(first <= last)
    kept = kept[iterations.end[last[kept]] > d.begun[row[kept]]]
    kept = kept[np.argsort(row[kept], kind="stable")]
    row, first, last = row[kept], first[kept], last[kept]
    # Runs of two tries are one where the iterations happen to be neighbours, as `TokenRuns.of_tokens` has it.
    apart = np.ones(len(row) + 1, dtype=np.bool_)
    apart[1:-1] = (row[1:] != row[:-1]) | (first[1:] != last[:-1] + 1)
    return TokenRuns(row[apart[:-1]], first[apart[:-1]], last[apart[1:]])


def _lives(d: Ledger, many: int) -> list[_Life]:
    """The engines' lives."""
    spans: list[list[tuple[str, float, float]]] = [[] for _ in range(many)]
    n = int(d.tally[SPANS])
    for k, state, begin, end in zip(*d.span[:, :n].tolist(), *d.at[:, :n].tolist(), strict=True):
        spans[k].append((STATES[state], begin, end))
    states, since = d.member["state"].tolist(), d.since.tolist()
    return [_Life(k, "both", STATES[states[k]], since[k], spans[k]) for k in range(many)]
