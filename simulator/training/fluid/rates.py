"""`fair_rates`: how fast those go that share links (progressive filling)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

__all__ = ["SLACK", "fair_rates"]

SLACK = 1e-9
"""A link that is asked for less than 1 + this is not full: sums of shares differ in their last digits."""


def fair_rates(uses: Sequence[Mapping[Any, float]]) -> list[float]:
    """Rates of flows by progressive filling (Bertsekas & Gallager 1992, §6.5.2): all rise together from 0.

    A flow stops rising when it goes as fast as if it were alone (1), or when a link on its way is full.

    Parameters
    ----------
    uses : sequence of mapping
        For each flow, the share of each link that it takes at rate 1; links have any names.

    Returns
    -------
    list of float
        In (0, 1], one for each flow. No flow can go faster without a slower one, or one as slow, going slower.
    """
    rates = [0.0] * len(uses)
    rising = set(range(len(uses)))
    room: dict[Hashable, float] = {link: 1.0 for use in uses for link in use}
    while rising:
        asked: dict[Hashable, float] = {}
        for k in rising:
            for link, share in uses[k].items():
                asked[link] = asked.get(link, 0.0) + share
        levels = {link: room[link] / share for link, share in asked.items() if share > 0.0}
        level = min(levels.values(), default=1.0)
        if level >= 1.0 - SLACK:
            for k in rising:
                rates[k] = 1.0
            break
        full = {link for link, at in levels.items() if at <= level * (1.0 + SLACK)}
        for k in [k for k in rising if any(uses[k].get(link, 0.0) > 0.0 for link in full)]:
            rates[k] = level
            rising.remove(k)
            for link, share in uses[k].items():
                room[link] = max(0.0, room[link] - level * share)
    return rates
