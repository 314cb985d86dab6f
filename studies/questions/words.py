"""Answers of one search, in figures and in words."""

from __future__ import annotations

from typing import Any

from .answer import Answer, Probe
from .bisection import Rule, Search

__all__ = ["answer_of", "asked", "bounds_of", "interval_of", "measured", "percent", "title"]


def percent(fraction: float) -> str:
    """``99 %``."""
    return f"{100 * fraction:.4g} %"


def asked(rule: Rule) -> str:
    """What must hold, as the end of a sentence: ``for 99 % attainment``."""
    if rule.metric == "attainment":
        return f"for {percent(rule.bound)} attainment"
    return f"with {rule.metric} of at {'most' if rule.at_most else 'least'} {rule.bound:g}"


def title(question: Any, what: str = "") -> str:
    """What a question asks, in words; tells questions of one study apart."""
    said = f"{what or question.find} {asked(Rule.of(question))}"
    return said + "".join(f", {name} {value}" for name, value in question.given.items())


def measured(rule: Rule, probe: Probe) -> str:
    """What a probe gave: the metric's figure with its interval, without its name."""
    estimate = probe.estimate
    if probe.infeasible == len(probe.points):
        return "no plan fits"
    if rule.metric != "attainment":
        return str(estimate)
    return f"{_cut(estimate.mean)} ± {100 * estimate.half_width:.2g} %" if estimate.n > 1 else _cut(estimate.mean)


def _cut(fraction: float) -> str:
    """A percentage cut, not rounded: 98.996 % must not be said as the 99 % that it misses."""
    return f"{int(fraction * 1e4 + 1e-6) / 100:.4g} %"


def interval_of(search: Search) -> tuple[float | None, float | None]:
    """Values at which the metric's interval contains the bound; None where it reaches beyond the range, or is none.

    The true ends lie between two probes; the outer ones are given, so that the interval covers at least what it says.
    """
    if search.replications == 1:
        return None, None
    rule, whole = search.bisection, search.quantity.whole
    easy, possibly = rule.reached(search.surely()), search.possibly()
    hard = rule.reached(possibly) if whole else rule.missed(possibly)
    if possibly.get(rule.hard_end) and not _natural(search, rule.hard_end):
        hard = None
    return (hard, easy) if search.quantity.hard == "low" else (easy, hard)


def _natural(search: Search, value: float) -> bool:
    """Whether nothing lies beyond a value, whatever the range."""
    return search.quantity.whole and value == 1 and search.quantity.hard == "low"


def bounds_of(search: Search) -> str:
    """The interval in words: ``95 % interval 8 … 10``."""
    return _interval(search, *interval_of(search))


def _interval(search: Search, low: float | None, high: float | None) -> str:
    if search.replications == 1:
        return "one replication, no interval"
    q = search.quantity
    left = f"{q.figure(q.low)} or less" if low is None else q.figure(low)
    right = f"{q.figure(q.high)} or more" if high is None else q.figure(high)
    if right.startswith(left) and high is None:
        return f"{percent(search.confidence)} interval {right}"
    if left.startswith(right) and low is None:
        return f"{percent(search.confidence)} interval {left}"
    return f"{percent(search.confidence)} interval {left} … {right}"


def answer_of(search: Search, question: str, who: str = "", *, part: bool = False) -> Answer:
    """The answer of a search that is over.

    Parameters
    ----------
    search : Search
        The search.
    question : str
        What was asked, in words.
    who : str
        What has the answer, if not the planner.
    part : bool
        Whether this belongs to another answer.
    """
    who = who or search.planner
    probes = tuple(search.probes[v] for v in sorted(search.probes))
    known = {v: search.rule.holds(p.estimate.mean) for v, p in search.probes.items()}
    against = search.bisection.contradictions(known)
    rest = (question, who, search.quantity.name)

    def made(value: float | None, probe: Probe | None, sentence: str, short: str, error: str = "") -> Answer:
        low, high = (None, None) if value is None else interval_of(search)
        point = None if value is None or probe is None else probe.points[0]
        return Answer(
            *rest, value, low, high, search.rule.bound, None if probe is None else probe.estimate, probes, not against,
            sentence + ".", point, short, part, error=error,
        )  # fmt: skip

    if search.error:
        return made(None, None, f"{who}: no answer: {search.error}", "", error=search.error)
    value = search.bisection.reached(search.known())
    if value is None:
        return made(None, search.probes[search.bisection.easy_end], *_missed(search, who))
    short = _reached(search, value)
    full = f"{who} {search.quantity.verb} {short} {asked(search.rule)}"
    extra = _warnings(search, value, against)
    return made(value, search.probes[value], "; ".join([full, *extra]), f"{search.quantity.verb} {short}")


def _reached(search: Search, value: float) -> str:
    """``9 devices (95 % interval 8 … 10)``."""
    q = search.quantity
    said = f"{q.say(value)} ({bounds_of(search)})"
    if value == search.bisection.hard_end and not _natural(search, value):
        return f"at {'most' if q.hard == 'low' else 'least'} {said}"
    return said


def _missed(search: Search, who: str) -> tuple[str, str]:
    """What is said where even the easy end misses: in full and in short."""
    q, rule, easy = search.quantity, search.rule, search.bisection.easy_end
    probe = search.probes[easy]
    if probe.infeasible == len(probe.points):
        what = f"even with {q.say(easy)} no plan fits ({probe.notes[0]})"
    elif rule.metric == "attainment":
        what = f"even {q.say(easy)} attain{'' if q.name.endswith('devices') and easy > 1 else 's'} only "
        what += f"{measured(rule, probe)} of the {percent(rule.bound)} asked for"
    else:
        bound = f"at {'most' if rule.at_most else 'least'} {rule.bound:g} is asked for"
        what = f"even {q.say(easy)} gives {rule.metric} {measured(rule, probe)}, {bound}"
    mend = q.mend or ("raise high" if q.hard == "low" else "lower low")
    extra = [n for n in probe.notes if n.startswith("unstable")][:1]
    return "; ".join([f"{who}: {what}", f"{mend}, or ask for less", *extra]), f"misses it: {what}"


def _warnings(search: Search, value: float, against: tuple[float, ...]) -> list[str]:
    """What must be said with an answer."""
    q, rule = search.quantity, search.rule
    found: list[str] = []
    if value == search.bisection.hard_end and not _natural(search, value):
        found.append("that is the end of the range that was tried")
    missed = search.bisection.missed(search.known())
    if missed is not None and search.probes[missed].infeasible:
        found.append(f"with {q.say(missed)} no plan fits")
    found += [note for note in search.probes[value].notes if note.startswith("unstable")][:1]
    if against:
        known = {v: rule.holds(p.estimate.mean) for v, p in search.probes.items()}
        easier = search.bisection.missed(known)
        assert easier is not None  # there is no contradiction without a miss
        good, bad = against[-1], search.probes[easier]
        found.append(
            f"not monotone: {q.say(good)} gives {measured(rule, search.probes[good])}, "
            f"though {q.say(easier)}, which is easier, only {measured(rule, bad)}"
        )
    return found
