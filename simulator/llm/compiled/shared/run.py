"""Engines that share devices served by the compiled loop, and what came of it in the terms of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...result.iterations import Iterations, TokenRuns
from ...world import Records
from ..engine import NotCompiled
from ..fleet.run import open_runs, outcome
from ..fleet.tables import FleetRules, Tables
from ..lists import wider
from .fill import Rules, rules_by_scheduler, tables_of, turns_of, ways_of
from .prices import prices_of
from .tables import RULES, Turns

if TYPE_CHECKING:
    from ...turns import Tenant

__all__ = ["run_shared"]


def run_shared(tenants: Sequence[Tenant], until: float | None) -> list[tuple[Records, Iterations, TokenRuns]]:
    """Serve the requests of all models, to the end or until some time (seconds).

    Raises
    ------
    NotCompiled
        Where the reference must take over, to report it. Ask `why_not_shared` first for what is known beforehand.
    """
    rules, turns = rules_by_scheduler(tenants, until), turns_of(tenants)
    tables = tables_of(tenants, rules, turns)
    clock, state, runs = _served(tenants, rules, tables, turns)
    return [_of_model(tenant, m, rules[m], tables, turns, (clock, state, runs)) for m, tenant in enumerate(tenants)]


def _served(tenants: Sequence[Tenant], rules: Rules, s: Tables, turns: Turns) -> tuple[Any, Any, Any]:
    """Clocks and states of all iterations, and the runs of tokens."""
    from ..fleet.events import first_arrivals
    from .loop import TABLE_FULL, serve_shared

    flat = [x for mine in rules for x in mine]
    records = np.array([tuple(x) for x in flat], dtype=RULES)
    prices = prices_of([told.cost for tenant in tenants for told in tenant.engines for _ in range(told.stages)])
    ways = ways_of(tenants)
    arrival = turns.arrival[turns.first[turns.came]]
    order = np.argsort(arrival, kind="stable")
    first_arrivals(s, arrival[order], len(turns.begin) - 1 + len(flat) + order)
    # 4096 iterations at first: a guess, as tables that are full are widened.
    clock, state, runs = np.empty((2, 4096)), np.empty((9, 4096), np.int64), np.empty((3, 4096), np.int64)
    status, counters = TABLE_FULL, (0, 0)
    while status == TABLE_FULL:
        n, n_runs = counters
        clock, state, runs = wider(clock, n, 1), wider(state, n, 1), wider(runs, n_runs, 2 * s.looked.shape[1] + 5)
        status, *counters = serve_shared(
            records, prices, s, turns, ways, flat[0].until, clock, state, runs, tuple(counters)
        )
    if status:
        raise NotCompiled("a step that takes no time")
    n, n_runs = counters
    return clock[:, :n], state[:, :n], np.concatenate((runs[:, :n_runs], open_runs(s)), axis=1)


def _of_model(
    tenant: Tenant, m: int, rules: Sequence[FleetRules], s: Tables, t: Turns, told: tuple[Any, Any, Any]
) -> tuple[Records, Iterations, TokenRuns]:
    """What came of one model's requests; its schedulers and requests are numbered from 0."""
    clock, state, runs = told
    row, engine = int(np.searchsorted(t.owner, m)), t.engines[m]
    mine = slice(row, row + len(tenant.world.trace))
    records = Records(len(tenant.world.trace))
    records.arrival[:], records.scheduled[:], records.finish[:] = s.times[:, mine]
    records.preemptions[:], records.cached_tokens[:], records.engine[:], ignored = s.counts[:, mine]
    records.ignored[:] = ignored > 0
    computed = np.flatnonzero(t.model[state[8]] == m)
    clock, state = clock[:, computed], state[:, computed]
    state[8] -= engine
    given = np.flatnonzero(t.owner[runs[0]] == m)
    runs = runs[:, given]
    runs[0] -= row
    # As the reference: the size of the pool that the last iteration was decided on.
    x = rules[max(0, int(t.decider[m] - engine))]
    return outcome(tenant.world, x, records, clock, state, runs)
