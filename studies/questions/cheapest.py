"""The cheapest cluster: for each device type the fewest devices, times what one costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...profiles.hardware import device
from .answer import Answer
from .bisection import Rule, Search
from .kinds import CheapestCluster
from .quantity import Quantity, base_of, given, has_field, number, value_of
from .words import answer_of, asked, percent, title

if TYPE_CHECKING:
    from ..study import Study

__all__ = ["answers", "searches"]

OF_ITS_TYPE = ("cluster.memory", "cluster.intra_node_bandwidth", "cluster.inter_node_bandwidth")
"""What a case says of its own device type, which is nothing that another type has."""


def _prices(study: Study, question: CheapestCluster) -> dict[str, float]:
    """Device type -> price of one device-hour: the question's, the base case's for its own type, or the spec's.

    Raises
    ------
    InputError
        If a type is unknown, or its price is.
    """
    cluster = value_of(base_of(study, question), "cluster")
    if cluster is None:
        raise InputError(f"cheapest cluster: cases of world {study.world.name!r} have no cluster")
    types = question.devices or (cluster.device,)
    stray = sorted(set(question.prices) - set(types))
    if stray:
        raise InputError(f"cheapest cluster: prices names {stray[0]!r}, which is not among devices")
    prices: dict[str, float] = {}
    for name in types:
        own = cluster.price_per_hour if name == cluster.device else None
        prices[name] = question.prices.get(name, device(name).price_per_hour if own is None else own)
    unknown = [name for name, price in prices.items() if price == 0]
    if unknown:
        raise InputError(
            f"cheapest cluster: the price of {', '.join(map(repr, unknown))} is not known; "
            f"give prices: {{{unknown[0]}: PRICE}} per device-hour"
        )
    return prices


def searches(study: Study, question: CheapestCluster) -> tuple[Search, ...]:
    """One for each planner and device type."""
    own = value_of(base_of(study, question), "cluster.device")
    stray = [path for path in given(study, question) if path in ("cluster.device", "cluster.devices")]
    if stray:
        raise InputError(f"cheapest cluster: {stray[0]} is what is asked for; leave it out of given")
    found: list[Search] = []
    for planner in study.planners:
        for name, price in _prices(study, question).items():
            fixed: dict[str, Any] = given(study, question) | {
                "cluster.device": name, "cluster.price_per_hour": price,
            }  # fmt: skip
            if name != own:
                fixed |= {path: None for path in OF_ITS_TYPE if has_field(study, path)}
            quantity = Quantity(
                "cluster.devices", f"{{}} × {name}", "needs", "low", *question.ends, True,
                lambda v: {"cluster.devices": int(v)}, 0.0, fixed, step=question.step,
            )  # fmt: skip
            found.append(Search(planner, quantity, Rule.of(question), study.replications, study.confidence))
    return tuple(found)


def answers(study: Study, question: CheapestCluster, done: Sequence[Search]) -> tuple[Answer, ...]:
    """For each planner the cheapest, then each device type."""
    prices, what = _prices(study, question), title(question)
    found: list[Answer] = []
    for planner in study.planners:
        own = [s for s in done if s.planner == planner]
        each = dict(zip(prices, (answer_of(s, what, part=True) for s in own), strict=True))
        found.append(_best(planner, prices, each, what, asked(Rule.of(question))))
        found += each.values()
    return tuple(found)


def _best(planner: str, prices: dict[str, float], each: dict[str, Answer], what: str, bound: str) -> Answer:
    costs = {name: a.value * prices[name] for name, a in each.items() if a.value is not None}
    if not costs:
        reasons = " ".join(a.sentence for a in each.values())
        first = next(iter(each.values()))
        return replace(
            first, quantity="cost_per_hour", part=False, short="", error=first.error,
            sentence=f"{planner}: no device type will do. {reasons}" if len(each) > 1 else reasons,
        )  # fmt: skip
    least = min(costs.values())
    # A price is a decimal: what is equal on paper may differ in its last bit.
    winners = [name for name, cost in costs.items() if cost <= least * (1 + 1e-9)]
    best = each[winners[0]]
    said = [_said(name, each[name], prices[name], full=True) for name in winners]
    text = f"needs {' or '.join(said)}"
    more = [_said(n, a, prices[n]) for n, a in each.items() if n not in winners and a.value is not None]
    none = [name for name, a in each.items() if a.value is None]
    sentence = f"{planner} {text} {bound}" + (", which cost the same" if len(winners) > 1 else "")
    if more:
        sentence += f"; dearer: {', '.join(more)}"
    if none:
        sentence += f"; not enough of: {', '.join(none)} (up to the most that were tried)"
    if (close := _overlapping(winners, prices, each)) and best.estimate is not None and best.estimate.n > 1:
        sentence += f"; the intervals of {winners[0]} and {close[0]} overlap, so either may be cheaper"
    price = prices[winners[0]]
    return replace(
        best, quantity="cost_per_hour", value=least, part=False, short=text, sentence=sentence + ".",
        low=None if best.low is None else best.low * price, high=None if best.high is None else best.high * price,
    )  # fmt: skip


def _said(name: str, answer: Answer, price: float, *, full: bool = False) -> str:
    """``2 × a100-40gb at 8.2 per hour (95 % interval 8.2 … 12.3)``, or shorter."""
    assert answer.value is not None
    text = f"{number(answer.value)} × {name} at {answer.value * price:.4g}{' per hour' if full else ''}"
    if answer.low is None or answer.high is None or answer.estimate is None:
        return text
    what = f"{percent(answer.estimate.confidence)} interval " if full else ""
    return f"{text} ({what}{answer.low * price:.4g} … {answer.high * price:.4g})"


def _overlapping(winners: list[str], prices: dict[str, float], each: dict[str, Answer]) -> list[str]:
    """Types that are not the cheapest, though their intervals of cost reach below the end of the cheapest's."""
    best = each[winners[0]]
    top = float("inf") if best.high is None else best.high * prices[winners[0]]
    return [
        name for name, answer in each.items()
        if name not in winners and answer.low is not None and answer.low * prices[name] <= top
    ]  # fmt: skip
