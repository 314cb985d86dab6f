"""What the loop over shared devices works on beside `fleet.tables`: groups, models, prices."""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np

from ..fleet.tables import FleetRules

__all__ = ["EVENLY", "LAST", "PART", "RULES", "Prices", "Turns", "Ways"]

EVENLY, LAST, PART = range(3)
"""How the stages of a pipeline share an iteration: alike; the last one has all; it has a share, and the head."""

RULES = np.dtype([(name, np.float64 if of is float else np.int64) for name, of in get_type_hints(FleetRules).items()])
"""`FleetRules` as a record: each scheduler has its own."""


class Prices(NamedTuple):
    """The costs of iterations of all schedulers; P different ones."""

    of: Any  # (E,): the price of each scheduler
    kind: Any  # (P,): as `rules.Price`
    line: Any  # (P, 10)
    service: Any  # (P, kinds, decodes + 1): factors in service, 1 without
    split: Any  # (P,): EVENLY, LAST, PART
    share: Any  # (P,): of the layers that the slowest stage has
    size: Any  # (P, 11): lengths of the columns of each grid
    grid: Any  # a `CostGrid` of all, each part with one more axis, the first


class Turns(NamedTuple):
    """Who takes turns with whom, and who comes when; G groups, E schedulers, M models, n requests."""

    group: Any  # (E,): the group of each scheduler
    model: Any  # (E,): its model
    members: Any  # (E,): schedulers by group, in the order of their turns
    begin: Any  # (G + 1,): where each group's begin
    last: Any  # (G,): place among them of the one that decided last; -1: none
    idle: Any  # (G,): whether a group waits until something changes
    order: Any  # (G,): place of its next decision in the order of scheduling
    stages: Any  # (G,)
    free: Any  # (G, most stages): when each stage is free, seconds
    decider: Any  # (M,): the scheduler that decided an iteration last; -1: none
    engines: Any  # (M + 1,): where each model's schedulers begin
    owner: Any  # (n,): the model of each request
    first: Any  # requests that wait for nobody, model by model
    came: Any  # (M,): the next one of each model
    gone: Any  # (M,): where they end
    arrival: Any  # (n,): seconds
    think: Any  # (n,): seconds
    behind: Any  # (n + 1,): where each request's followers begin
    followers: Any
    dropped: Any  # (n,): whether no engine takes it


class Ways(NamedTuple):
    """The routers of all models; see `fleet.routing.Routing`."""

    kind: Any  # (M,)
    drawn: Any  # (2, draws): one model's after the other's
    begin: Any  # (M + 1,): where each one's begin
    sent: Any  # (M,): requests sent
    block: Any  # (M,)
    known: Any  # (n + 1,): where each request's keys begin
    keys: Any
    home: Any  # by key: the scheduler that saw it last; -1: none
    up: Any  # (M, most schedulers + 1): see `fleet.routers`
