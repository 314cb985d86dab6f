"""What breaks first: each factor of the base case is changed alone, until attainment falls below the target.

The plan stays the one that was made for the base case (under the same replication's traffic), unless the question says
`replan`. Fewer devices or less memory cannot keep it, so these are planned anew; "a device fails" keeps it and loses
the group whose loss hurts most, since a group does not work without one of its devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..profiles.hardware import device
from .answer import Answer, Effect
from .bisection import Rule, Search
from .questions_kinds import FACTORS, WhatBreaksFirst
from .questions_quantity import DEFAULT_SLO_SCALE, Quantity, base_of, given, has_field, number, slo_path, value_of
from .questions_words import answer_of, asked, measured, title
from .worlds import Case

if TYPE_CHECKING:
    from .study import Study

__all__ = ["answers", "searches"]

GIB = 2**30
REPLANNED = ("devices", "memory")
WORDS = {
    "rate": "the rate", "cv": "the CV", "slo": "the SLO", "devices": "the devices", "device fails": "failed devices",
    "memory": "the memory of a device", "speed": "the speed of a device", "overhead": "the overhead",
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
        return float(device(kind).usable_memory_bytes)
    if name == "slo" and said is None:
        if value_of(base, "workload.trace") is None:
            return DEFAULT_SLO_SCALE
        return "the SLO is the trace's; give workload.slo or workload.slo_scale"
    if not said:
        return "the base case has none, so that no relative change can be said; give serving.overhead"
    return float(said)


def _quantity(study: Study, question: WhatBreaksFirst, base: Case, factor: _Factor, planner: str) -> Quantity:
    """A factor as something to search: from the base case towards what hurts."""
    path, fixed, figure, words = factor.path, given(study, question), number, f"{WORDS[factor.name]} at {{}}"
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
        figure = _gib
    elif factor.name != "devices":
        figure = _times(factor.base)
        words = f"{{}} × {WORDS[factor.name]}"
    return Quantity(
        path, "{} devices" if factor.name == "devices" else words, "bears", "low" if factor.down else "high", low, high,
        factor.whole, write, 0.0 if factor.name == "devices" else question.tolerance, fixed, factor.base, {}, figure,
    )  # fmt: skip


def _gib(value: float) -> str:
    return f"{value / GIB:.3g} GiB"


def _times(base: float) -> Any:
    return lambda value: number(value / base)


def _factors(study: Study, question: WhatBreaksFirst, base: Case) -> list[_Factor]:
    """The factors that are asked for; of all, those that the base case has.

    Raises
    ------
    InputError
        If one that is named is none of the base case.
    """
    found: list[_Factor] = []
    for name in dict.fromkeys(question.factors or FACTORS):
        factor = _factor(study, base, name)
        if isinstance(factor, _Factor):
            found.append(factor)
        elif question.factors:
            raise InputError(f"question 'what breaks first': factor {name!r}: {factor}")
    if not found:
        raise InputError(f"question 'what breaks first': cases of world {study.world.name!r} have none of the factors")
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
    return tuple(
        Search(
            planner, _quantity(study, question, base, factor, planner), rule, study.replications, study.confidence,
            first=tuple(_changed(question, factor).values()),
        )
        for planner in study.planners
        for factor in _factors(study, question, base)
    )  # fmt: skip


def answers(study: Study, question: WhatBreaksFirst, done: Sequence[Search]) -> tuple[Answer, ...]:
    """For each planner what breaks first, then each factor, the most fragile first."""
    base, what = base_of(study, question), title(question)
    factors = _factors(study, question, base)
    found: list[Answer] = []
    for planner in study.planners:
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
    found = answer_of(search, what, part=True)
    at, rule = _breaks_at(search), search.rule
    if search.error:
        return found
    if factor.name == "device fails":
        worst = measured(rule, search.probes[1.0].estimate)
        devices = value_of(base, "cluster.devices")
        said = f"{worst} when one of {devices} devices fails and takes the group whose loss hurts most with it"
        return replace(
            found, sentence=f"{search.planner}: {said}.", short=said, change=None if at is None else -1 / devices
        )
    if at is None:
        said = f"{WORDS[factor.name]}: nothing is missed up to {search.quantity.say(search.bisection.hard_end)}"
    elif at == factor.base:
        return found
    else:
        said = f"{WORDS[factor.name]} {_way(at / factor.base - 1)} ({search.quantity.say(at)}): "
        said += measured(rule, search.probes[at].estimate)
    change = None if at is None else at / factor.base - 1
    return replace(found, sentence=f"{search.planner}: {said}. {found.sentence}", short=said, change=change)


def _way(change: float) -> str:
    return f"{'+' if change > 0 else '−'}{100 * abs(change):.3g} %"


def _summary(
    study: Study, question: WhatBreaksFirst, base: Case, ranked: Sequence[tuple[_Factor, Search]],
    parts: Sequence[Answer], what: str,
) -> Answer:  # fmt: skip
    """What breaks first, in one answer."""
    planner, rule = ranked[0][1].planner, ranked[0][1].rule
    changes = [_change(study, base, f, s) for f, s in ranked]
    table = tuple(
        Effect(factor.name, change, value, search.probes[value].estimate)
        for factor, search in ranked
        for change, value in _changed(question, factor).items()
        if value in search.probes
    )
    table += tuple(
        Effect(f.name, -1 / value_of(base, "cluster.devices"), 1.0, s.probes[1.0].estimate)
        for f, s in ranked
        if f.name == "device fails" and 1.0 in s.probes
    )
    first, breaks = parts[0], changes[0]
    plan = "planned anew for each change" if question.replan else "the base case's plan kept where it can be"
    errors = [a.error for a in parts if a.error]
    shown = [a.short for a, c in zip(parts, changes, strict=True) if math.isfinite(c)]
    bases = [s.probes[f.base].estimate for f, s in ranked if f.base in s.probes and f.name != "device fails"]
    if bases and not rule.holds(bases[0].mean):
        short = f"misses it in the base case already: {measured(rule, bases[0])} {asked(rule)}"
    elif not shown:
        short = f"nothing breaks it, changed by up to a factor of {number(question.limit)}"
    else:
        short = f"breaks first by {shown[0]}" + (f"; then by {'; '.join(shown[1:])}" if shown[1:] else "")
    return Answer(
        what, planner, first.quantity if math.isfinite(breaks) else "", breaks if math.isfinite(breaks) else None, None,
        None, rule.bound, bases[0] if bases else first.estimate, (), all(a.monotone for a in parts),
        f"{planner} {short} ({plan}).", first.point, short, False, table, errors[0] if errors else "",
    )  # fmt: skip
