"""The tables of a fleet that changes: filled from a world, and widened while the loop runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...fleet.clock import ARRIVES, FAILS, SCALES
from ...fleet.faults import Faults
from ...fleet.options import Fleet
from ...fleet.report import FleetReport
from ...result.iterations import Iterations, TokenRuns
from ...world import Records, World
from ..fleet.run import calls_of, tables_of
from ..fleet.tables import FleetRules, Tables
from ..lists import wider
from ..prices import price_of
from .growth import METRICS
from .outcome import outcome
from .pools import both_halves, handoff_of, kinds_of
from .routings import Drawn, routing_of
from .tables import DRAWS, FIRST, LEFT, MEMBER, MEMBERS, RULE, SPANS, TALLIES, TRIP, UP, Handoff, Ledger, Ways

__all__ = ["run_dynamic"]

SPARE = 4
"""Room for engines beyond those at the beginning and those that a rule may add at once: a guess, as full tables are
widened."""


def run_dynamic(
    world: World, fleet: Fleet, until: float | None
) -> tuple[Records, Iterations, TokenRuns, FleetReport] | None:
    """Serve the requests with a fleet that changes; None where the reference must say what is wrong."""
    from .loop import LOOPS, TABLE_FULL

    kinds, counts, xs = kinds_of(world, fleet, until)
    grow = max((rule.max_engines for rule in fleet.scaling), default=0)
    halves = [tables_of(replace(k, engines=sum(counts) + grow + SPARE), x) for k, x in zip(kinds, xs, strict=True)]
    tables, handoff = halves[0], None
    if fleet.pools is not None:
        tables, handoff = both_halves(*halves), handoff_of(fleet, len(world.trace), len(halves[0].engine))
    routes = tuple(routing_of(kind, i * len(world.trace)) for i, kind in enumerate(kinds))
    calls = (*calls_of(world, routes[0])[:-1], routes)
    drawn, lives = Drawn(kinds), _Lives(fleet.faults, fleet.seed)
    ledger = _ledger(world, fleet, counts, len(tables.engine), lives)
    tables = _begin(tables, ledger, counts, xs, _first_events(world, fleet, ledger, calls))
    roles = xs, tuple(price_of(k.cost, k.times) for k in kinds)
    # 4096 iterations at first: a guess, as tables that are full are widened.
    clock, state, runs = np.empty((2, 4096)), np.empty((9, 4096), np.int64), np.empty((4, 4096), np.int64)
    status, n, n_runs, end = TABLE_FULL, 0, 0, 0.0
    while status == TABLE_FULL:
        clock, state = wider(clock, n, 1), wider(state, n, 1)
        runs = wider(runs, n_runs, 2 * tables.looked.shape[1] + len(ledger.trip) + 5)
        tables, ledger, handoff = _roomier(tables, ledger, handoff, grow, lives)
        ledger = ledger._replace(drawn=drawn.wider(ledger))
        status, n, n_runs, end = LOOPS[xs[FIRST].kind](
            roles, _ways(fleet.faults), tables, ledger, handoff, calls, (clock, state, runs), (n, n_runs), end
        )
    if status:
        return None
    return outcome(world, xs, tables, ledger, handoff, (clock[:, :n], state[:, :n], runs[:, :n_runs]), end)


def _ways(faults: Faults | None) -> Ways:
    """What becomes of engines and requests, in numbers."""
    if faults is None:
        return Ways(False, 0.0, False, 0, 0.0)
    return Ways(
        faults.mtbf_s is not None,
        float(faults.load_s),
        faults.tokens == "keep",
        faults.max_retries,
        float(faults.retry_s),
    )


@dataclass
class _Lives:
    """Random failures of engines, drawn as they are needed: what one more engine draws changes no other's.

    Parameters
    ----------
    faults : Faults or None
        When engines fail.
    seed : int
        Seed of the engines' streams.
    """

    faults: Faults | None
    seed: int
    streams: list[Iterator[tuple[float, float]]] = field(default_factory=list[Iterator[tuple[float, float]]])

    def wider(self, table: Any, engines: int, each: int) -> Any:
        """The table with so many failures for so many engines."""
        wide = np.zeros((engines, each, 2))
        wide[: table.shape[0], : table.shape[1]] = table
        if self.faults is None or self.faults.mtbf_s is None:
            return wide
        while len(self.streams) < engines:
            self.streams.append(self.faults.lives(len(self.streams), self.seed))
        for engine, stream in enumerate(self.streams):
            known = table.shape[1] if engine < table.shape[0] else 0
            for k in range(known, each):
                wide[engine, k] = next(stream)
        return wide


def _ledger(world: World, fleet: Fleet, counts: tuple[int, ...], rows: int, lives: _Lives) -> Ledger:
    """Tables of a fleet in which nothing has happened, with so many engines of each role."""
    n, engines, roles, rules = len(world.trace), sum(counts), len(counts), fleet.scaling
    events = () if fleet.faults is None else fleet.faults.events
    rule = np.zeros(len(rules), dtype=RULE)
    for i, given in enumerate(rules):
        rule[i] = (
            fleet.roles.index(given.role), given.min_engines, given.max_engines, METRICS.index(given.metric),
            given.patience, 0, given.target, given.interval_s, given.start_s, given.tolerance,
        )  # fmt: skip
    trip = np.zeros(roles * n, dtype=TRIP)
    trip["first"] = -1
    tally = np.zeros(TALLIES, dtype=np.int64)
    tally[LEFT], tally[DRAWS] = n, 1
    return Ledger(
        member=np.zeros(2 * engines, dtype=MEMBER),
        since=np.zeros(2 * engines),
        number=np.full(rows, -1, dtype=np.int64),
        row=np.zeros((rows, 2), dtype=np.int64),
        up=np.zeros((roles, rows + 1), dtype=np.int64),
        waiting=np.full((roles, 2), -1, dtype=np.int64),
        trip=trip,
        scheduled=np.full(n, np.nan),
        begun=np.full(n, -np.inf),
        span=np.zeros((2, 64), dtype=np.int64),
        at=np.zeros((2, 64)),
        lives=lives.wider(np.zeros((0, 0, 2)), 2 * engines, 4),
        fault=np.array([event.engine for event in events], dtype=np.int64),
        repair=np.array([event.repair_s for event in events], dtype=np.float64),
        rule=rule,
        answer=np.zeros((len(rules), max((rule.patience for rule in rules), default=1)), dtype=np.int64),
        drawn=np.zeros((roles, 0), dtype=np.uint32),
        routed=np.zeros((roles, 2), dtype=np.int64),
        tally=tally,
    )


def _first_events(world: World, fleet: Fleet, d: Ledger, calls: Any) -> list[tuple[float, int, int]]:
    """Time, kind, and what happens: all that is known at the beginning, in the order in which it is scheduled."""
    from .events import DIES, FRESH, NEXT, SCALE, STRIKES, told

    first, sent, arrival = calls[:3]
    events: list[tuple[float, int, int]] = []
    if fleet.faults is not None and fleet.faults.mtbf_s is not None:
        events += [(float(d.lives[k, 0, 0]), FAILS, told(DIES, k, 0)) for k in range(len(d.member) // 2)]
    events += [(float(rule.interval_s), SCALES, told(SCALE, i, 0)) for i, rule in enumerate(fleet.scaling)]
    if fleet.faults is not None:
        events += [(float(event.at_s), FAILS, told(STRIKES, i, 0)) for i, event in enumerate(fleet.faults.events)]
    if world.concurrency is not None:
        sent[0] = min(world.concurrency, len(first))
        events += [(0.0, ARRIVES, told(FRESH, int(row), 0)) for row in first[: sent[0]]]
    elif len(first):
        events.append((float(arrival[first[0]]), ARRIVES, told(NEXT, 0, 0)))
    return events


def _begin(
    s: Tables, d: Ledger, counts: tuple[int, ...], xs: tuple[FleetRules, ...], events: list[tuple[float, int, int]]
) -> Tables:
    """The engines that are there at the beginning serve, and the first events are in the heap."""
    from ..fleet.blocks import fresh_pools
    from ..fleet.events import KIND

    engines, before = sum(counts), 0
    there = d.member[:engines]
    there["slot"] = d.number[:engines] = np.arange(engines)
    for role, (count, x) in enumerate(zip(counts, xs, strict=True)):
        mine = slice(before, before + count)
        if x.caching:  # what joins later is emptied then
            fresh_pools(s._replace(block=s.block[mine, : x.pool + 1], bucket=s.bucket[mine]))
        s.engine["free"][mine], s.engine["slots"][mine], there["role"][mine] = x.pool, x.pool * x.size, role
        d.up[role, 0], d.up[role, 1 : count + 1] = count, there["slot"][mine]
        before += count
    there["state"], there["drawn"] = UP, 1
    there["first"] = there["last"] = -1
    d.tally[MEMBERS] = engines
    order = sorted(range(len(events)), key=lambda i: (*events[i][:2], i))  # a sorted list is a heap
    event, time = np.zeros((2 * len(events) + 16, 2), dtype=np.int64), np.zeros(2 * len(events) + 16)
    for place, i in enumerate(order):
        time[place], kind, event[place, 1] = events[i]
        event[place, 0] = kind * KIND + i
    s.tally[:2] = len(events)
    return s._replace(event=event, time=time)


def _roomier(
    s: Tables, d: Ledger, h: Handoff | None, grow: int, lives: _Lives
) -> tuple[Tables, Ledger, Handoff | None]:
    """Tables with room for what the next events may need; see `loop`, which returns where there is none."""
    n = len(d.trip)
    if np.count_nonzero(d.number < 0) < grow:
        s, d = _more_rows(s, d, len(d.number) + grow)
        h = None if h is None else h._replace(desk=_longer(h.desk, len(d.number)))
    engines, events = len(d.number), int(s.tally[0]) + 2 * (n + len(d.number)) + 8
    if events > len(s.time):
        s = s._replace(event=_longer(s.event, 2 * events), time=_longer(s.time, 2 * events))
    if d.tally[SPANS] + 2 * engines + 2 > d.at.shape[1]:
        room = 2 * engines + 2
        d = d._replace(span=wider(d.span, d.tally[SPANS], room), at=wider(d.at, d.tally[SPANS], room))
    members, each = len(d.member), d.lives.shape[1]
    if d.tally[MEMBERS] + grow > members:
        members = 2 * (members + grow)
        d = d._replace(member=_longer(d.member, members), since=_longer(d.since, members))
    if d.tally[DRAWS] + 1 > each:
        each *= 2
    if d.lives.shape[:2] != (members, each):
        d = d._replace(lives=lives.wider(d.lives, members, each))
    return s, d, h


def _more_rows(s: Tables, d: Ledger, rows: int) -> tuple[Tables, Ledger]:
    """Room for more engines at once."""
    names = ("engine", "ring", "block", "bucket", "chunk", "top", "looked", "final", "owe", "ends", "busy")
    s = s._replace(**{name: _longer(getattr(s, name), rows) for name in names})
    number = np.full(rows, -1, dtype=np.int64)
    number[: len(d.number)] = d.number
    up = np.zeros((len(d.up), rows + 1), dtype=np.int64)
    up[:, : d.up.shape[1]] = d.up
    return s, d._replace(number=number, row=_longer(d.row, rows), up=up)


def _longer(table: Any, rows: int) -> Any:
    """A table with so many rows, the new ones zero."""
    long = np.zeros((rows, *table.shape[1:]), dtype=table.dtype)
    long[: len(table)] = table
    return long
