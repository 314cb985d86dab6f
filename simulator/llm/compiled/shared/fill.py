"""The tables of engines that share devices, filled from what is to be simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from ...policy.catalogue import policy_named
from ..contents import Contents, contents
from ..fleet.blocks import fresh_pools
from ..fleet.routing import routing
from ..fleet.run import calls_of, rules_of
from ..fleet.tables import BLOCK, CHUNK, ENGINE, REQUEST, FleetRules, Tables
from .tables import Turns, Ways

if TYPE_CHECKING:
    from ...turns import Tenant

__all__ = ["Rules", "rules_by_scheduler", "tables_of", "turns_of", "ways_of"]

Rules = Sequence[Sequence[FleetRules]]
"""Of each model's schedulers."""


def rules_by_scheduler(tenants: Sequence[Tenant], until: float | None) -> list[list[FleetRules]]:
    """The options of each model's schedulers in numbers; each batch in flight has a scheduler."""
    found: list[list[FleetRules]] = []
    for tenant in tenants:
        found.append([])
        for told in tenant.engines:
            own = replace(tenant.world, policy=policy_named(told.policy), config=told.config)
            found[-1] += [rules_of(own, until)] * told.stages
    return found


def _starts(counts: Sequence[int]) -> Any:
    """Where the parts of something begin, by how long they are; and where the last one ends."""
    return np.cumsum([0, *counts])


def turns_of(tenants: Sequence[Tenant]) -> Turns:
    """Groups in the order in which they are met, and the requests of all models, one model's after the other's."""
    groups: dict[Any, int] = {}
    group: list[int] = []
    stages: list[int] = []
    for told in (told for tenant in tenants for told in tenant.engines):
        at = groups.setdefault(told.group, len(groups))
        group += [at] * told.stages
        if at == len(stages):
            stages.append(told.stages)
    rows = _starts([len(tenant.world.trace) for tenant in tenants])
    calls = [calls_of(tenant.world, routing(tenant.world)) for tenant in tenants]
    reach = _starts([len(first) for first, *_ in calls])
    follow = _starts([len(followers) for *_, followers, _, _ in calls])
    many = [tenant.world.engines for tenant in tenants]
    return Turns(
        group=np.array(group),
        model=np.repeat(np.arange(len(tenants)), many),
        members=np.argsort(group, kind="stable"),
        begin=_starts(np.bincount(group).tolist()),
        last=np.full(len(groups), -1),
        idle=np.ones(len(groups), dtype=np.int64),
        order=np.zeros(len(groups), dtype=np.int64),
        stages=np.array(stages),
        free=np.zeros((len(groups), max(stages))),
        decider=np.full(len(tenants), -1),
        engines=_starts(many),
        owner=np.repeat(np.arange(len(tenants)), np.diff(rows)),
        first=np.concatenate([call[0] + row for call, row in zip(calls, rows[:-1], strict=True)]),
        came=reach[:-1].copy(),
        gone=reach[1:].copy(),
        arrival=np.concatenate([call[2] for call in calls]),
        think=np.concatenate([call[3] for call in calls]),
        behind=np.append(np.concatenate([c[4][:-1] + f for c, f in zip(calls, follow[:-1], strict=True)]), follow[-1]),
        followers=np.concatenate([call[5] + row for call, row in zip(calls, rows[:-1], strict=True)]),
        dropped=np.concatenate([call[6] for call in calls]),
    )


def ways_of(tenants: Sequence[Tenant]) -> Ways:
    """The routers of all models."""
    routes = [routing(tenant.world) for tenant in tenants]
    many = [tenant.world.engines for tenant in tenants]
    up = np.zeros((len(routes), max(many) + 1), dtype=np.int64)
    for mine, count, low in zip(up, many, _starts(many)[:-1], strict=True):
        mine[0], mine[1 : count + 1] = count, low + np.arange(count)
    homes, keys = _starts([len(r.home) for r in routes]), _starts([len(r.keys) for r in routes])
    return Ways(
        kind=np.array([r.kind for r in routes]),
        drawn=np.concatenate([r.drawn for r in routes], axis=1),
        begin=_starts([r.drawn.shape[1] for r in routes]),
        sent=np.zeros(len(routes), dtype=np.int64),
        block=np.array([r.block for r in routes]),
        known=np.append(np.concatenate([r.begin[:-1] + k for r, k in zip(routes, keys[:-1], strict=True)]), keys[-1]),
        keys=np.concatenate([r.keys + home for r, home in zip(routes, homes[:-1], strict=True)]),
        home=np.full(int(homes[-1]), -1),
        up=up,
    )


def tables_of(tenants: Sequence[Tenant], rules: Rules, turns: Turns) -> Tables:
    """Tables in which nobody has come yet."""
    flat = [x for mine in rules for x in mine]
    n, engines = len(turns.owner), len(flat)
    seqs = 1 + max(
        min(x.max_seqs, len(tenant.world.trace)) for tenant, mine in zip(tenants, rules, strict=True) for x in mine
    )
    request, engine = np.zeros(n, dtype=REQUEST), np.zeros(engines, dtype=ENGINE)
    for name in ("slot", "after", "ahead", "mark", "before", "behind", "begin", "child", "sibling", "parent", "engine"):
        request[name] = -1
    rows = _starts([len(tenant.world.trace) for tenant in tenants])
    for tenant, low, high in zip(tenants, rows[:-1], rows[1:], strict=True):
        trace, mine = tenant.world.trace, request[low:high]
        mine["prompt"] = mine["length"] = trace.prompt_tokens
        mine["target"] = trace.prompt_tokens + trace.output_tokens  # or shorter: its scheduler's `max_len`
        if trace.priority is not None:
            mine["priority"] = trace.priority
    for name in ("root", "first", "last"):
        engine[name] = -1
    engine["free"], engine["slots"] = [x.pool for x in flat], [x.pool * x.size for x in flat]
    cached = [x.pool + 1 for x in flat if x.caching]
    blocks, buckets = (max(cached), 1 << max(cached).bit_length()) if cached else (1, 1)
    nodes, per, table = _contents(tenants, rules, request, rows)
    tables = Tables(
        request=request,
        engine=engine,
        ring=np.full((engines, max(x.size for x in flat)), -1, dtype=np.int64),
        block=np.empty((engines, blocks), dtype=BLOCK),
        bucket=np.empty((engines, buckets, 2), dtype=np.int32),
        chunk=np.empty((1, 1), dtype=CHUNK),
        top=np.empty((1, 1), dtype=np.int32),
        table=np.empty(max(1, table), dtype=np.int32),
        nodes=nodes,
        per=per,
        looked=np.empty((engines, seqs), dtype=np.int64),
        final=np.zeros((engines, 2, seqs + 1), dtype=np.int64),
        owe=np.zeros((engines, 2, seqs + 1), dtype=np.int64),
        todo=np.empty(seqs, dtype=np.int64),
        chosen=np.empty((2, 2 * seqs), dtype=np.int64),
        new=np.empty(seqs, dtype=np.int64),
        old=np.empty(seqs, dtype=np.int64),
        event=np.empty((n + 2 * engines + len(tenants) + 2, 2), dtype=np.int64),
        time=np.empty(n + 2 * engines + len(tenants) + 2),
        tally=np.zeros(3, dtype=np.int64),
        ends=np.zeros((engines, 2)),
        busy=np.zeros(engines),
        counts=np.zeros((4, n), dtype=np.int64),
        times=np.full((3, n), np.nan),
    )
    tables.counts[2] = -1
    for e, x in enumerate(flat):
        if x.caching:
            fresh_pools(tables._replace(block=tables.block[e : e + 1, : x.pool + 1], bucket=tables.bucket[e : e + 1]))
    return tables


def _contents(tenants: Sequence[Tenant], rules: Rules, request: Any, rows: Any) -> tuple[Any, int, int]:
    """Contents of the blocks of models that cache prefixes: shared beginnings, blocks of each, length of all tables."""
    known: list[tuple[Any, Contents]] = []
    table = 0
    for tenant, mine, low, high in zip(tenants, rules, rows[:-1], rows[1:], strict=True):
        size = next((x.size for x in mine if x.caching), 0)
        if not size:
            continue
        own, given = request[low:high], contents(tenant.world.trace, size)
        own["own"], own["shared"] = given.own, given.shared
        longest = np.minimum(own["target"], max(x.max_len for x in mine))
        most = max(x.groups for x in mine) * -(-longest // size)
        own["table"] = table + np.cumsum(most) - most
        table += int(most.sum())
        known.append((own, given))
    # A node may stand for several blocks: all models' nodes are cut to one number of them.
    per = gcd(*(given.per for _, given in known)) if known else 1
    parts: list[Any] = [np.zeros(1, dtype=np.int64)]
    begin = 1
    for own, given in known:
        pieces = given.per // per
        own["nodes"] = begin + given.begin * pieces
        parts.append((given.nodes[:, None] * pieces + np.arange(pieces)).ravel())
        begin += len(parts[-1])
    return np.concatenate(parts), per, table
