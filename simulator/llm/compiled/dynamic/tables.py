"""What the loop over a changing fleet works on beside `fleet.tables`: engines' lives, requests' tries, the options."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ARRIVED", "DECODE", "DESK", "DOWN", "DRAINING", "DRAWS", "FIRST", "GONE", "LEFT", "MEMBER", "MEMBERS", "RULE",
    "SENT", "SPANS", "STARTING", "TALLIES", "TRIP", "UP", "USED", "ZERO", "Handoff", "Ledger", "Ways",
]  # fmt: skip

ZERO = np.int64(0)

FIRST, DECODE = map(np.int64, range(2))
"""Roles: engines where requests begin, all or those that process prompts; engines that decode."""

STARTING, UP, DRAINING, DOWN, GONE = map(np.int64, range(5))
"""States of an engine, in the order of `fleet.member.STATES`."""

TALLIES = 5
LEFT, MEMBERS, SPANS, DRAWS, ARRIVED = range(TALLIES)
"""Places in `Ledger.tally`: requests that are not done, engines so far, spans so far, most failures drawn of an engine,
the next of the requests that wait for nobody."""

SENT, USED = range(2)
"""Places in `Ledger.routed`: requests that were routed, numbers that a random router used."""


def _record(ints: str, floats: str = "") -> np.dtype[Any]:
    fields = [(name, np.int64) for name in ints.split()] + [(name, np.float64) for name in floats.split()]
    return np.dtype(fields, align=True)


MEMBER = _record("role slot state turns born foreseen drawn returns deaths began steps first last")
"""An engine by its number: its role; its row in the fleet's tables (-1: it is gone); its state and how often that
changed; how often it was started anew; the start for which a random failure was drawn, and how many were; whether it is
under repair; failures; whether it ever computed, and its steps; first and last of the requests that it is responsible
for."""

TRIP = _record("before behind earlier later had kept retries lost first failed")
"""A request on its way: its neighbours among those of its engine, and among those that wait for an engine or are
announced to one; tokens that were generated over all tries, and how many of them are part of the prompt; retries;
tokens thrown away; the engine where its last try began; whether it was given up."""

RULE = _record("role least most metric patience asked", "target interval start tolerance")
"""An autoscaling rule in numbers: bounds, what load is, how often it was asked; the rest as `Autoscaling` has it."""

DESK = _record("first last announced landed final coming held", "began sent received")
"""What an engine of a pool has to do with transfers: first and last of the requests that are announced to it, and how
many they are; first and last of those whose transfer has ended since its last decision; how many come; how many
processed prompts it holds; when its last iteration began, and when its NIC has sent, and received, everything."""


class Ways(NamedTuple):
    """What becomes of engines and requests, in numbers; what each means is said where they come from."""

    random: bool  # engines fail at random, too
    load_s: float
    keep: bool  # tokens of a failed engine become part of the prompt
    max_retries: int
    retry_s: float


class Ledger(NamedTuple):
    """Tables of a fleet that changes; M engines over time, E of them at once, n requests."""

    member: Any  # (M,) MEMBER
    since: Any  # (M,): since when an engine is in its state, seconds
    number: Any  # (E,): whose row it is; -1: nobody's
    row: Any  # (E, 2): rows of the iterations under way, of odd and even steps
    up: Any  # (roles, E + 1): number, then rows of engines that serve, in order of the engines' numbers
    waiting: Any  # (roles, 2): first and last request that waits for an engine; -1: none
    trip: Any  # (n,) TRIP, or with pools (2n,): behind them their second halves
    scheduled: Any  # (n,): when each request was scheduled in an earlier try; NaN: it was not
    begun: Any  # (n,): tokens of this time and before are lost
    span: Any  # (2, S): engine and state of the spans that are over
    at: Any  # (2, S): their begin and end
    lives: Any  # (M, k, 2): seconds until an engine fails, and of its repair, again and again
    fault: Any  # (F,): engines of the known failures
    repair: Any  # (F,): seconds of their repairs
    rule: Any  # (rules,) RULE
    answer: Any  # (rules, patience): the last answers of each, a ring
    drawn: Any  # (roles, draws) uint32: what a random router draws from
    routed: Any  # (roles, 2)
    tally: Any  # (TALLIES,)


class Handoff(NamedTuple):
    """Pools in numbers, and their transfers; see `fleet.pools.Pools`."""

    buffered: bool  # into the host's memory, else after blocks are reserved
    by_sender: bool  # a sender's NIC carries one transfer at a time
    by_receiver: bool
    layers: int
    token_bytes: int
    bandwidth: float
    latency: float
    desk: Any  # (E,) DESK
    sender: Any  # (n,): the engine that holds a processed prompt; -1: none does
    receiver: Any  # (n,): the engine that is to decode it
    time: Any  # (2, n): begin and end of the last transfer
    size: Any  # (n,): its bytes
