"""The search over draws: candidates from searches that are fast, the best of them over the draws, then moves."""

from __future__ import annotations

from collections.abc import Callable

from ....profiles.spread import NO_VARIATION
from ....simulator.placement import Placement
from ....simulator.serving.breakdowns import Breakdowns
from ..evaluator import Evaluator, State
from ..local_search import local_search
from ..options import PlanOptions
from ..selection import fill_spare_memory
from ..survive import Survival, equal_groups
from .judge import DrawnConditions, drawn_metrics, judged, slower, variation_of

__all__ = ["plan_over_draws"]

CANDIDATE_MOVES = 300
"""Moves of the local searches that make candidates which survive the loss of a device or node. A guess: under a second
for tens of devices."""

DRAWN_MOVES = 100
"""Moves of the local search over draws of failures, if the caller names no number. A guess: each costs a simulation per
draw."""


def plan_over_draws(
    asked: PlanOptions,
    evaluator: Evaluator,
    usual: State,
    search: Callable[[Evaluator], State],
    seed: int,
    breakdowns: Breakdowns | None,
    max_batch: int = 1,
    progress: Callable[[str], None] | None = None,
) -> tuple[State, Placement, dict[str, float]]:
    """The state that attains most over the draws, where its groups are, and what is said of it.

    Times alone: the plans for the profile's times and for slower ones. Where machines fail or a loss is to be survived,
    also the plans that survive the loss of any device and of any node, and equal groups of each configuration (small
    ones have more replicas, and lose less with a device), each with spare memory filled too.

    Parameters
    ----------
    asked : PlanOptions
        What is drawn, how often, by what it is judged; what is lost; moves of the local search.
    evaluator : Evaluator
        Of the problem with the profile's times, where nothing fails.
    usual : State
        The plan that is made without draws, to which the gain is.
    search : callable
        The planner's search on an evaluator.
    seed : int
        Of draws and moves.
    breakdowns : Breakdowns, optional
        What fails; nothing if left out.
    max_batch : int
        Largest batch that is served in the draws.
    progress : callable, optional
        Called with a line of text now and then.

    Raises
    ------
    InputError
        If times are to be drawn, and the profile does not say how they vary.
    """
    instance, q = evaluator.instance, asked.quantile
    variation = variation_of(instance) if asked.times == "drawn" else NO_VARIATION
    fails, loses = breakdowns is not None, asked.survive != "none"
    placed: Callable[[State], Placement] | None = None
    spread = None
    if loses or (breakdowns is not None and instance.cluster.nodes > 1 and _takes_nodes(breakdowns)):
        spread = Survival(evaluator, asked.survive if loses else "node")
        placed = lambda state: spread.placement(spread.arrange(state))  # noqa: E731
    drawn = DrawnConditions(evaluator, asked.draws, seed, variation, breakdowns, placed, asked.survive, max_batch)
    goal = drawn.objective(q)

    def best(states: list[State]) -> State:
        return min(states, key=lambda state: goal(state, None) or 0)

    candidates = [usual, *(search(Evaluator(slower(instance, factor))) for factor in drawn.slow)]
    if fails or loses:
        equal = [] if asked.config is not None else equal_groups(evaluator)
        candidates += [*equal, *_survivors(evaluator, [usual, *equal], seed)]
        if asked.fill:
            candidates += [fill_spare_memory(evaluator, state) for state in candidates]
        candidates = list(dict.fromkeys(candidates))
    state = best(candidates)
    moves, seconds = asked.local_search_iterations, asked.local_search_seconds
    if not moves and not seconds and (fails or loses):
        moves = DRAWN_MOVES
    if moves or seconds:
        state = local_search(
            evaluator, state, iterations=moves or None, seconds=seconds or None, seed=seed, objective=goal,
            progress=progress,
        ).state  # fmt: skip
    if asked.fill and (fails or loses):
        state = best([state, fill_spare_memory(evaluator, state)])
    placement = drawn.placement(state)
    plain = evaluator.placement(usual)  # where it would have its groups: spreading them over nodes is a gain too
    after = drawn.attainments(state)
    if spread is not None and loses:
        plain = spread.placement(spread.improved(spread.arrange(usual)))
        swapped = spread.placement(spread.improved(spread.arrange(state)))
        tried = drawn.attainments_of(swapped)
        if judged(tried, q) > judged(after, q):
            after, placement = tried, swapped
    before = drawn.attainments_of(plain)
    if judged(before, q) > judged(after, q):
        state, placement, after = usual, plain, before
    prefix = "failures" if fails else "drawn" if asked.times == "drawn" else ""
    return state, placement, drawn_metrics(prefix, after, before, q)


def _takes_nodes(breakdowns: Breakdowns) -> bool:
    failures = breakdowns.failures
    return failures is not None and (
        failures.node_mtbf_s is not None or any(event.kind == "node" for event in failures.events)
    )


def _survivors(evaluator: Evaluator, starts: list[State], seed: int) -> list[State]:
    """States that attain most after the worst loss of a device, and of a node where there are several."""
    found: list[State] = []
    for loss in ("device", "node") if evaluator.instance.cluster.nodes > 1 else ("device",):
        score = Survival(evaluator, loss).objective
        first = min(starts, key=lambda state: (score(state, None), state))
        found.append(local_search(evaluator, first, iterations=CANDIDATE_MOVES, seed=seed, objective=score).state)
    return found
