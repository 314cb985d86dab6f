"""Judge a case against its baseline: pairs of scores under common random numbers, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from ..reprs import Shown
from ..simulator.metrics import Estimate, paired_difference
from ..worlds.guard import Measure, Scores
from .baseline import BaselineCase
from .scoring import CaseRun
from .suite import SuiteCase

__all__ = ["CaseReport", "Difference", "Finding", "Status", "judge"]

Status = Literal["same", "equal", "better", "failed"]
Kind = Literal["worse", "evaluations", "infeasible", "invalid", "error", "moved", "missing", "changed"]

MOVED = 1e-9
"""Largest relative difference between two machines' scores of the same plan: libm and BLAS round differently, and sums
of many seconds multiply that. Anything beyond means that the simulator or its inputs have changed."""


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Shown):
    """A metric of the plan against the baseline's.

    Parameters
    ----------
    metric : str
        Name of the metric.
    before, now : float
        Means over the replications.
    change : Estimate
        Mean of ``now - before`` over the pairs, with its interval; of one exact score the interval has no width.
    allowed : float
        The tolerance, in the metric's unit.
    measure : Measure
        How the metric is judged and told.
    """

    metric: str
    before: float
    now: float
    change: Estimate
    allowed: float
    measure: Measure

    @property
    def verdict(self) -> Literal["worse", "better", "equal"]:
        """Worse (better) where the interval excludes zero and the mean goes beyond the tolerance that way."""
        if not self.change.differs_from_zero or abs(self.change.mean) <= self.allowed:
            return "equal"
        return "better" if (self.change.mean > 0) == self.measure.more else "worse"

    def __str__(self) -> str:
        m, c = self.measure, self.change
        point = " points" if m.share else m.shown
        share = "" if m.share or not self.before else f" ({100 * c.mean / abs(self.before):+.2f} %)"
        sure = (
            f"{100 * c.confidence:g} % interval [{m.told(c.low, '+')}, {m.told(c.high, '+')}] over {c.n} pairs"
            if c.n > 1
            else "one exact score"
        )
        return (
            f"{self.metric.replace('_', ' ')} {m.told(self.before)} → {m.told(self.now)}{m.shown}: "
            f"{m.told(c.mean, '+')}{point}{share}, {sure}, tolerance {m.told(self.allowed)}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Shown):
    """Something that makes a case fail, in a sentence."""

    kind: Kind
    text: str


@dataclass(frozen=True, repr=False)
class CaseReport(Shown):
    """The gate's report on one case.

    Parameters
    ----------
    case, planner : str
        Name of the case, and of the planner.
    differences : tuple of Difference
        In attainment, and in the case's objective.
    evaluations : tuple of (int or None, int or None)
        The planner's evaluations, in the baseline and now.
    findings : tuple of Finding
        Why it fails; empty if it passes.
    notes : tuple of str
        Remarks that are no reason to fail.
    plans : str
        The difference of the two plans in words; empty if they are the same or one is missing.
    same : bool
        Whether both plans are the same.
    """

    case: str
    planner: str
    differences: tuple[Difference, ...] = ()
    evaluations: tuple[int | None, int | None] = (None, None)
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    plans: str = ""
    same: bool = False

    @property
    def status(self) -> Status:
        """``failed``; ``better`` somewhere; another plan that is ``equal``ly good; or the ``same`` plan."""
        if self.findings:
            return "failed"
        if any(d.verdict == "better" for d in self.differences):
            return "better"
        return "same" if self.same else "equal"


UPDATE = 'keep it with --update --reason "why"'


def judge(case: SuiteCase, run: CaseRun, entry: BaselineCase | None) -> CaseReport:
    """Compare the run of a case with its baseline."""
    if entry is None:
        failed = () if run.failure in (None, "infeasible") else (_failure(run, None),)
        found = Finding("missing", f"the baseline has no such case; {UPDATE}")
        return CaseReport(case.name, run.planner, evaluations=(None, run.evaluations), findings=(found, *failed))
    counts = (entry.evaluations, None if run.failure else run.evaluations)
    notes = () if run.planner == entry.planner else (f"planned by {run.planner}, the baseline by {entry.planner}",)
    changed = _changed(entry.problem, case.problem())
    if changed:
        text = f"not the case that the baseline was made for ({changed}); {UPDATE}"
        found = (Finding("changed", text), *((_failure(run, entry),) if run.failure else ()))
        return CaseReport(case.name, run.planner, evaluations=counts, findings=found, notes=notes)
    moved, said = _moved(case, run, entry)
    if run.failure:
        fine = run.failure == "infeasible" and entry.decision is None
        found = moved if fine else (*moved, _failure(run, entry))
        return CaseReport(case.name, run.planner, (), counts, found, (*notes, *said), same=fine)
    if entry.decision is None:
        more = f"has a plan now, the baseline had none ({entry.infeasible}); {UPDATE}"
        return CaseReport(case.name, run.planner, (), counts, (), (*notes, more))
    assert run.decision is not None
    differences, unknown = _differences(case, run.baseline_scores or {}, run.scores)
    if not case.guard.scores_again and any(d.verdict != "equal" for d in differences):
        kept = "held against the scores that the baseline keeps: here no old plan is scored again"
        said = (*said, f"{kept}{_other(run, entry)}")
    worse = tuple(Finding("worse", str(d)) for d in differences if d.verdict == "worse")
    better = tuple(f"better: {d}; {UPDATE}" for d in differences if d.verdict == "better")
    spent, spent_said = _evaluations(case, run, entry)
    same = run.decision == entry.decision
    if same:
        notes = ()
    plans = case.guard.differ(entry.decision, run.decision)
    return CaseReport(
        case.name, run.planner, differences, counts, (*worse, *unknown, *spent, *moved),
        (*notes, *better, *spent_said, *said), plans, same,
    )  # fmt: skip


def _failure(run: CaseRun, entry: BaselineCase | None) -> Finding:
    had = entry is not None and entry.decision is not None
    became = "became " if had else ""
    text = {
        "infeasible": f"{became}infeasible: {run.why}",
        "invalid": f"the plan {'became' if had else 'is'} invalid: {run.why}",
        "error": f"failed: {run.why}",
    }[run.failure or "error"]
    return Finding(run.failure or "error", text)


def _differences(case: SuiteCase, before: Scores, now: Scores) -> tuple[tuple[Difference, ...], tuple[Finding, ...]]:
    """Of what is compared; and a finding where a metric has no value any more."""
    found: list[Difference] = []
    unknown: list[Finding] = []
    for metric in case.metrics:
        measure = case.measure(metric)
        old, new = before.get(metric, ()), now.get(metric, ())
        if not old or not new:
            continue  # the baseline's plan could not be scored, which is a finding of its own
        pairs = [(a, b) for a, b in zip(old, new, strict=True) if a is not None and b is not None]
        lost = sum(b is None for b in new)
        if len(pairs) < len(new):
            count = lost or len(new) - len(pairs)
            text = f"{metric} has no value in {count} of {len(new)} replications: {measure.absent}"
            unknown.append(Finding("worse" if lost else "changed", text))
            continue
        a, b = [p[0] for p in pairs], [p[1] for p in pairs]
        mean = sum(a) / len(a)
        allowed = case.tolerance * (1.0 if measure.share else abs(mean))
        change = paired_difference(b, a, case.confidence)
        if len(pairs) == 1:  # nothing was drawn, so the difference is exact
            change = replace(change, half_width=0.0)
        found.append(Difference(metric, mean, sum(b) / len(b), change, allowed, measure))
    return tuple(found), tuple(unknown)


def _evaluations(case: SuiteCase, run: CaseRun, entry: BaselineCase) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """More evaluations than allowed; said only where a planner counts and another one, of the baseline, did not."""
    factor = case.evaluations_factor
    if factor is None or run.evaluations <= factor * entry.evaluations:
        return (), ()
    times = f"{run.evaluations / entry.evaluations:.2f} times as many" if entry.evaluations else "the baseline's none"
    text = f"evaluations {entry.evaluations} → {run.evaluations}: {times}, allowed are {factor:g}"
    if not entry.evaluations and run.planner != entry.planner:
        return (), (f"evaluations {run.evaluations}; the baseline's planner counts none",)
    return (Finding("evaluations", text),), ()


def _moved(case: SuiteCase, run: CaseRun, entry: BaselineCase) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The baseline's own plan, scored again: another score means that simulator, traffic or profile changed."""
    if entry.decision is None or (run.failure == "error" and not (run.baseline_scores or run.baseline_why)):
        return (), ()
    cause = _other(run, entry) or f" (the simulator or traffic changed since {entry.package})"
    if run.baseline_scores is None:
        return (Finding("moved", f"the baseline's plan cannot be scored any more{cause}: {run.baseline_why}"),), ()
    findings: list[Finding] = []
    notes: list[str] = []
    for metric in case.metrics:
        measure = case.measure(metric)
        old, new = entry.scores.get(metric, ()), run.baseline_scores.get(metric, ())
        if len(old) != len(new) or any((a is None) != (b is None) for a, b in zip(old, new, strict=True)):
            findings.append(Finding("moved", f"the baseline's plan has no {metric} to pair any more{cause}; {UPDATE}"))
            continue
        pairs = [(a, b) for a, b in zip(old, new, strict=True) if a is not None and b is not None]
        # the least float but for denormals: a score of 0 that has become anything else is infinitely far
        far = max((abs(b - a) / max(abs(a), 1e-300) for a, b in pairs), default=0.0)
        if far <= MOVED:
            continue
        a, b = sum(p[0] for p in pairs) / len(pairs), sum(p[1] for p in pairs) / len(pairs)
        text = (
            f"the baseline's plan scores {metric} {measure.told(b)}{measure.shown} now and {measure.told(a)} when it "
            f"was kept{cause}"
        )
        if abs(b - a) > case.tolerance * (1.0 if measure.share else abs(a)):
            findings.append(Finding("moved", f"{text}; if that is meant, {UPDATE}"))
        else:
            notes.append(f"{text}; within the tolerance")
    return tuple(findings), tuple(notes)


def _other(run: CaseRun, entry: BaselineCase) -> str:
    """The files and sets that are known to have changed since; empty if none is."""
    other = [name for name in entry.digests if run.digests.get(name) not in (None, entry.digests[name])]
    other = [name for name in other if name != entry.planner]
    return f" (changed since: {', '.join(other)})" if other else ""


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> str:
    """The first fields in which two cases differ."""
    found: list[str] = []
    for key in dict.fromkeys([*old, *new]):
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            inner = _changed(cast("dict[str, Any]", a), cast("dict[str, Any]", b), f"{path}{key}.")
            found += [inner] if inner else []
        else:
            found.append(f"{path}{key} {_said(a)} → {_said(b)}")
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")


def _said(value: Any) -> str:
    text = "left out" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
