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
from .tables import FIRST, LEFT, MEMBERS, SPANS, Handoff, Ledger

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
    world: World,
    xs: tuple[FleetRules, ...],
    s: Tables,
    d: Ledger,
    h: Handoff | None,
    told: tuple[Any, Any, Any],
    end: float,
) -> tuple[Records, Iterations, TokenRuns, FleetReport]:
    """Everything from the tables after the last event, which was at `end`."""
    n, x = len(world.trace), xs[FIRST]
    clock, state, runs = told
    records = Records(n)
    records.arrival[:], scheduled, records.finish[:] = s.times[:, :n]
    records.scheduled[:] = np.where(np.isnan(d.scheduled), scheduled, d.scheduled)
    preemptions, records.cached_tokens[:], records.engine[:], ignored = s.counts[:, :n]
    records.preemptions[:] = preemptions + (s.counts[0, n:] if h is not None else 0)
    records.ignored[:] = ignored > 0
    many = int(d.tally[MEMBERS])
    iterations = _iterations(x, many, _capacity(xs, d), clock, state)
    runs = _runs_of_drafts(d, runs, iterations) if x.drafts else _runs(s, d, runs, iterations)
    seen, at = np.unique(runs.request, return_index=True)
    records.first_token[seen] = iterations.end[runs.first[at]]
    np.add.at(records.generated, runs.request, runs.last - runs.first + 1)
    journal, trip = Journal(n), d.trip[:n]
    journal.first_engine[:], journal.retries[:] = trip["first"], trip["retries"]
    journal.lost_tokens[:], journal.failed[:], journal.begun[:] = trip["lost"], trip["failed"] > 0, d.begun
    if h is not None:
        (journal.transfer_start[:], journal.transfer_end[:]), journal.transfer_bytes[:] = h.time, h.size
    journal.deaths = dict(enumerate(d.member["deaths"][:many].tolist()))
    stopped = x.until if np.isfinite(x.until) and d.tally[LEFT] else end
    return records, iterations, runs, report(journal, _lives(world, d, many), iterations, runs, float(stopped))


def _capacity(xs: tuple[FleetRules, ...], d: Ledger) -> int:
    """Token slots of an engine, on average of those that ever computed."""
    began = d.member[d.member["began"] > 0]
    slots = np.array([x.pool * x.size for x in xs])[began["role"]].tolist()
    return round(sum(slots) / len(slots)) if slots else 0


def _iterations(x: FleetRules, many: int, capacity: int, clock: Any, state: Any) -> Iterations:
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
        capacity_tokens=capacity,
        engines=many,
    )


def _runs(s: Tables, d: Ledger, noted: Any, iterations: Iterations) -> TokenRuns:
    """The runs of tokens that count: not those of tries whose tokens were lost."""
    q, m = s.request, d.member
    open_ = np.flatnonzero((q["begin"] >= 0) & (q["state"] != DONE))
    whose = q["engine"][open_]
    decoded = s.engine["iteration"][m["slot"][whose]] - 1
    last = np.where(q["state"][open_] == DECODES, decoded, q["last"][open_])
    unfinished = np.stack((open_ % len(d.scheduled), q["begin"][open_], last, whose))
    row, first, last, whose = np.concatenate((noted, unfinished), axis=1)
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


def _runs_of_drafts(d: Ledger, noted: Any, iterations: Iterations) -> TokenRuns:
    """As `_runs`, of tokens that were noted step by step."""
    from ..fleet.emitted import runs_of

    row, at, tokens, whose = noted
    # An engine's iterations stand together; a run tells of none that had not ended by the horizon.
    upto = np.searchsorted(iterations.engine, np.arange(iterations.engines + 1))
    at = upto[whose] + at
    kept = np.flatnonzero(at < upto[whose + 1])
    kept = kept[iterations.end[at[kept]] > d.begun[row[kept]]]
    return TokenRuns(*runs_of(np.stack((row[kept], at[kept], tokens[kept])), len(d.begun)))


def _lives(world: World, d: Ledger, many: int) -> list[_Life]:
    """The engines' lives."""
    spans: list[list[tuple[str, float, float]]] = [[] for _ in range(many)]
    n = int(d.tally[SPANS])
    for k, state, begin, end in zip(*d.span[:, :n].tolist(), *d.at[:, :n].tolist(), strict=True):
        spans[k].append((STATES[state], begin, end))
    states, roles, since = d.member["state"].tolist(), d.member["role"].tolist(), d.since.tolist()
    names = ("both",) if world.fleet is None else world.fleet.roles
    return [_Life(k, names[roles[k]], STATES[states[k]], since[k], spans[k]) for k in range(many)]
