"""What breaks first: each factor of the base case is changed alone, until attainment falls below the target.

The plan stays the one that was made for the base case (under the same replication's traffic), unless the question says
`replan`. Fewer devices or less memory cannot keep it, so these are planned anew; "a device fails" keeps it and loses
the group whose loss hurts most, since a group does not work without one of its devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from ...profiles.hardware import device
from ...worlds import Case
from .answer import Answer, Effect
from .bisection import Rule, Search
from .kinds import FACTORS, WhatBreaksFirst
from .quantity import (
    DEFAULT_SLO_SCALE,
    Quantity,
    base_of,
    gib,
    given,
    has_field,
    number,
    slo_path,
    value_of,
)
from .words import answer_of, asked, bounds_of, measured, title

if TYPE_CHECKING:
    from ..study import Study

__all__ = ["answers", "searches"]

REPLANNED = ("devices", "memory")
WORDS = {
    "rate": "the rate", "cv": "the CV", "slo": "the SLO", "devices": "the devices", "device fails": "failed devices",
    "memory": "the memory of a device", "speed": "the speed of a device", "links": "the speed of links",
    "overhead": "the overhead",
}  # fmt: skip


@dataclass(frozen=True)
class _Factor:
    """One factor: where it stands in a case, its value there, and which way hurts."""

    name: str
    path: str
    base: float
    down: bool
    whole: bool = False


def _factor(study: Study, base: Case, name: str) -> _Factor | str:
    """A factor of the base case, or why it has none."""
    if name == "rate":
        path, down = "workload.rate_scale", False
    elif name == "cv":
        path, down = "workload.cv_scale", False
        if value_of(base, "workload.trace") is not None and not value_of(base, "workload.resample"):
            return "a trace's CV changes only when it is resampled; set workload.resample: true"
    elif name == "slo":
        path, down = slo_path(study, base)[0] if has_field(study, "workload.slo_scale") else "workload.slo_scale", True
    elif name in ("devices", "device fails"):
        path, down = "cluster.devices" if name == "devices" else "planner.lost_groups", True
    elif name == "memory":
        path, down = "cluster.memory", True
    elif name == "links":
        path, down = "cluster.link_scale", True
    else:
        path, down = ("speed", True) if name == "speed" else ("serving.overhead", False)
    if not has_field(study, path):
        return f"cases of world {study.world.name!r} have no {path}"
    if name == "device fails":
        return _Factor(name, path, 1.0, False, True)
    value = _base_value(base, name, path)
    if isinstance(value, str):
        return value
    if name == "devices" and value == 1:
        return "there is one device only"
    if name == "speed":
        path = f"speed.{value_of(base, 'cluster.device')}"
    return _Factor(name, path, value, down, name in ("devices", "memory"))


def _base_value(base: Case, name: str, path: str) -> float | str:
    said = value_of(base, path)
    kind = value_of(base, "cluster.device")
    if name == "speed":
        return float(said.get(kind, 1.0))
    if name == "memory" and said is None:
        # Of a world that plans for all of a device's memory, the case says how much that is.
        return float(value_of(base, "cluster.device_memory") or device(kind).usable_memory_bytes)
    if name == "slo" and said is None:
        if value_of(base, "workload.trace") is None:
            return DEFAULT_SLO_SCALE
        return "the SLO is the trace's; give workload.slo or workload.slo_scale"
    if not said:
        return "the base case has none, so that no relative change can be said; give serving.overhead"
    return float(said)


def _quantity(study: Study, question: WhatBreaksFirst, base: Case, factor: _Factor, planner: str) -> Quantity:
    """A factor as something to search: from the base case towards what hurts."""
    path, fixed, figure = factor.path, given(study, question), number
    if factor.name == "device fails":
        return Quantity(
            path, "{} failed devices", "bears", "high", 1, 1, True, lambda _: {path: "worst"}, 0.0, fixed, 0.0, {}
        )
    frozen: dict[str, Any] = {}
    plan_exists = study.planners[planner].get("plan") is not None
    if not (question.replan or factor.name in REPLANNED or plan_exists):
        frozen = {f"planner.planned_for.{path}": factor.base}

    def write(value: float) -> Mapping[str, Any]:
        return {path: int(value) if factor.whole else value, **frozen}

    low, high = factor.base, factor.base * question.limit
    if factor.down:
        low, high = factor.base / question.limit, factor.base
        low = max(1, math.ceil(low)) if factor.whole else low
    if factor.name == "memory":
        words, figure = "{} of memory per device", gib
    elif factor.name == "devices":
        words = "{} devices"
    else:
        words, figure = f"{WORDS[factor.name]} {{}}", _way_from(factor.base)
    return Quantity(
        path, words, "bears", "low" if factor.down else "high", low, high,
        factor.whole, write, 0.0 if factor.name == "devices" else question.tolerance, fixed, factor.base, {}, figure,
    )  # fmt: skip


def _way(change: float) -> str:
    """A relative change in words: ``+25 %``."""
    return f"{'+' if change > 0 else '−'}{100 * abs(change):.3g} %" if change else "as it is"


def _way_from(base: float) -> Callable[[float], str]:
    return lambda value: _way(value / base - 1)


def _factors(study: Study, question: WhatBreaksFirst, base: Case, planner: str) -> list[_Factor]:
    """The factors that are asked for; of all, those that the base case has, and devices only where one plans for them.

    Raises
    ------
    InputError
        If one that is named is none of the base case.
    """
    found: list[_Factor] = []
    every = [f for f in FACTORS if f != "devices" or study.planners[planner].get("plan") is None]
    for name in dict.fromkeys(question.factors or every):
        factor = _factor(study, base, name)
        if isinstance(factor, _Factor):
            found.append(factor)
        elif question.factors:
            raise InputError(f"what breaks first: factor {name!r}: {factor}")
    if not found:
        raise InputError(f"what breaks first: cases of world {study.world.name!r} have none of the factors")
    return found


def _changed(question: WhatBreaksFirst, factor: _Factor) -> dict[float, float]:
    """Relative change -> value, for the table; whole quantities are rounded, and left out where they stay."""
    if factor.name == "device fails":
        return {}
    found: dict[float, float] = {}
    for change in sorted({sign * c for c in question.changes for sign in (-1, 1)}):
        value = factor.base * (1 + change)
        value = float(round(value)) if factor.whole else float(f"{value:.12g}")
        if value > 0 and value != factor.base and value not in found.values():
            found[change] = value
    return found


def searches(study: Study, question: WhatBreaksFirst) -> tuple[Search, ...]:
    """One for each planner and factor; they share the base case's points."""
    base, rule = base_of(study, question), Rule.of(question)
    if not (question.replan or has_field(study, "planner.planned_for")):
        raise InputError(
            f"what breaks first: plans of world {study.world.name!r} cannot be kept (its cases have no "
            "planner.planned_for); set replan: true"
        )
    return tuple(
        Search(
            planner, _quantity(study, question, base, factor, planner), rule, study.replications, study.confidence,
            first=tuple(_changed(question, factor).values()),
        )
        for planner in study.planners
        for factor in _factors(study, question, base, planner)
    )  # fmt: skip


def answers(study: Study, question: WhatBreaksFirst, done: Sequence[Search]) -> tuple[Answer, ...]:
    """For each planner what breaks first, then each factor, the most fragile first."""
    base, what = base_of(study, question), title(question)
    found: list[Answer] = []
    for planner in study.planners:
        factors = _factors(study, question, base, planner)
        own = list(zip(factors, [s for s in done if s.planner == planner], strict=True))
        ranked = sorted(own, key=lambda pair: _change(study, base, *pair))
        parts = [_part(f, s, base, what) for f, s in ranked]
        found += [_summary(study, question, base, ranked, parts, what), *parts]
    return tuple(found)


def _breaks_at(search: Search) -> float | None:
    """The smallest change that was tried and misses; None if none does."""
    return None if search.error else search.bisection.missed(search.known())


def _change(study: Study, base: Case, factor: _Factor, search: Search) -> float:
    """How far the factor can be from the base case's, relative, until the target is missed; infinite if it never is."""
    at = _breaks_at(search)
    if at is None:
        return math.inf
    if factor.name == "device fails":
        return 1 / value_of(base, "cluster.devices")
    return abs(at / factor.base - 1)


def _part(factor: _Factor, search: Search, base: Case, what: str) -> Answer:
    """The answer of one factor."""
    found = answer_of(search, what, part=True)
    at, rule, name = _breaks_at(search), search.rule, WORDS[factor.name]
    value = found.value
    if factor.name == "device fails" and not search.error:
        n, attained = value_of(base, "cluster.devices"), measured(rule, search.probes[1.0])
        said = f"one failed device of {n}, which takes its group with it ({attained})"
        sentence = f"{search.planner} gives {attained} with one failed device of {n}, which takes its group with it"
        change = None if at is None else -1 / n
        return replace(found, sentence=f"{sentence}: the one whose loss hurts most.", short=said, change=change)
    if search.error:
        return found
    if value is None:
        said = f"misses it in the base case already ({measured(rule, search.probes[factor.base])})"
        return replace(found, sentence=f"{search.planner} {said}.", short=said, change=0.0)
    end = search.bisection.hard_end if at is None else at
    said = f"{name} {_way(end / factor.base - 1)}"
    if factor.whole:
        said += f", {search.quantity.figure(end)}" + (" left" if factor.name == "devices" else "")
    said += f" ({measured(rule, search.probes[end])})"
    if at is None:
        return replace(found, sentence=f"{search.planner} bears {said}, the most that was tried.", short=said)
    bounds = f" ({bounds_of(search)})" if search.replications > 1 else ""
    extra = "" if found.monotone else found.sentence[found.sentence.index("; not monotone") :].removesuffix(".")
    sentence = f"{search.planner} misses it with {said}; it bears {search.quantity.say(value)}{bounds}{extra}."
    return replace(found, sentence=sentence, short=said, change=at / factor.base - 1)


def _summary(
    study: Study, question: WhatBreaksFirst, base: Case, ranked: Sequence[tuple[_Factor, Search]],
    parts: Sequence[Answer], what: str,
) -> Answer:  # fmt: skip
    """What breaks first, in one answer."""
    planner, rule = ranked[0][1].planner, ranked[0][1].rule
    first, breaks = parts[0], _change(study, base, *ranked[0])
    shown = [a.short for a in parts if a.change is not None]
    kept = [a.short for a in parts if a.change is None and not a.error]
    errors = [a.error for a in parts if a.error]
    bases = [s.probes[f.base] for f, s in ranked if f.base in s.probes and f.name != "device fails"]
    if bases and not rule.holds(bases[0].estimate.mean):
        short = f"misses it in the base case already: {measured(rule, bases[0])} {asked(rule)}"
        breaks = 0.0
    elif not shown:
        short = f"is not broken {asked(rule)} by any factor, changed by up to {number(question.limit)} times"
    else:
        short = f"breaks first with {shown[0]}" + (f"; then with {', '.join(shown[1:])}" if shown[1:] else "")
    plan = "planned anew for each change" if question.replan else "the base case's plan kept where it can be"
    short += f"; not answered: {'; '.join(errors)}" if errors else ""
    full = short + (f"; not with {', '.join(kept)}" if kept and shown and breaks else "")
    known, attained = math.isfinite(breaks), bases[0].estimate if bases else first.estimate
    return Answer(
        what, planner, first.quantity if known else "", breaks if known else None, None, None, rule.bound,
        attained, (), all(a.monotone for a in parts), f"{planner} {full} ({plan}).",
        first.point, short, False, _table(study, question, base, ranked), errors[0] if errors else "",
    )  # fmt: skip


def _table(
    study: Study, question: WhatBreaksFirst, base: Case, ranked: Sequence[tuple[_Factor, Search]]
) -> tuple[Effect, ...]:
    """What each change of each factor does; a failed device has the change of one device."""
    found: list[Effect] = []
    for factor, search in ranked:
        changes = _changed(question, factor)
        if factor.name == "device fails":
            changes = {-1 / value_of(base, "cluster.devices"): 1.0}
        found += [
            Effect(factor.name, c, v, search.probes[v].estimate) for c, v in changes.items() if v in search.probes
        ]
    return tuple(found)
