"""What was chosen, timed again beside each single backend: the minimum of many noisy costs is biased low."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InfeasibleError, RunError
from ....profiles.backends.costs import CostTable
from ....runtime.backends import Captured, MeasureOptions, Timing
from ....runtime.collage.rounds import CONTROL, Rounds
from ..case import InferenceCase
from ..plan import InferencePlan
from ..solve import Choice, plan_of
from .measuring import Trials

__all__ = ["ALONE", "Again", "plan_as_timed", "timed_again"]

ALONE = "alone: "
"""Before a backend's name, where the whole network on it is timed beside placements."""


@dataclass(frozen=True, slots=True)
class Again:
    """All choices by turns.

    Parameters
    ----------
    rounds : Rounds
        Of those that run, by name.
    broken : dict of str to str
        Name -> why it does not.
    """

    rounds: Rounds
    broken: dict[str, str]


def timed_again(captured: Captured, backends: Sequence[str], choices: dict[str, Choice], rounds: int) -> Again:
    """All placements in turn; those that are the same are timed once, and have the same times.

    Raises
    ------
    RunError
        If none of them runs, or all are wrong.
    """
    how = MeasureOptions(least_rounds=rounds, most_rounds=rounds)
    ways = {choice.groups: name for name, choice in reversed(choices.items())}
    control = next(iter(choices.values())).groups  # a single backend, where there is one
    with Trials(captured, backends, how) as trials:
        found = trials.times({name: groups for groups, name in ways.items()} | {CONTROL: control})
    by_name: dict[str, Timing] = {name: found[ways[choice.groups]] for name, choice in choices.items()}
    broken = {name: timing.reason for name, timing in by_name.items() if timing.reason}
    if len(broken) == len(by_name):
        raise RunError("no placement runs: " + "; ".join(f"{name}: {why}" for name, why in broken.items()))
    ms = {name: timing.samples_ms for name, timing in by_name.items() if not timing.reason}
    first = next(iter(ms))
    twin = found[CONTROL].samples_ms if choices[first].groups == control else ms[first]
    return Again(Rounds({**ms, CONTROL: twin}), broken)


def plan_as_timed(
    case: InferenceCase, costs: CostTable, name: str, choice: Choice, alone: dict[str, Choice], timed: Again | None,
    begun: float,
) -> InferencePlan:  # fmt: skip
    """The plan of a planner; a single backend takes its place where it is as fast, but for what is noise.

    Of a tie one backend is the better choice: measured anew, the best of several that are alike is not the best.
    """
    if timed is None:
        return plan_of(case, costs, choice, begun=begun)
    rounds = timed.rounds
    running = [one for one in alone if one not in timed.broken]
    fastest = min(running, key=rounds.median, default=None)
    measured = {one.removeprefix(ALONE): rounds.median(one) for one in running}
    notes = [
        f"{one.removeprefix(ALONE)} alone does not run: {timed.broken[one]}" for one in alone if one not in running
    ]
    if name in timed.broken and fastest is None:
        raise InfeasibleError(f"{name}: the placement does not run: {timed.broken[name]}")
    if name not in timed.broken:
        measured["placement"] = rounds.median(name)
    if fastest is not None and choice.groups != alone[fastest].groups:
        backend = fastest.removeprefix(ALONE)
        placed = (
            f"{case.planner.called} placed {len(choice.groups)} groups on "
            f"{len(dict.fromkeys(b for b, _ in choice.groups))} backends"
        )
        why = ""
        if name in timed.broken:
            why = f"{placed}, which do not run: {timed.broken[name]}; so {backend} runs all of it"
        elif rounds.ratio(fastest, name) < 1 + rounds.noise:
            why = (
                f"{placed}; measured end to end they take {rounds.ratio(name, fastest):.3f}x what {backend} takes "
                f"alone, and {rounds.noise:.1%} is noise, so {backend} runs all of it"
            )
            measured["as placed"] = rounds.median(name)
        if why:
            notes.append(why)
            choice = Choice(alone[fastest].groups, choice.evaluations, choice.notes)
            measured["placement"] = rounds.median(fastest)
    measured["noise"] = rounds.noise
    return plan_of(case, costs, choice, begun=begun, measured=measured, notes=notes)
