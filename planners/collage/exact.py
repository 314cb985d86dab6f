"""`place`: the cheapest cover of a graph by matches that can run, exactly.

Most graphs are small or narrow, and a search over states answers at once (`search`). For others a linear programme
(`program`) says what any plan costs at least, and what each operator is worth. If it takes matches whole and none wait
in a circle, that is the answer. If not, the search runs again over what a plan within a small reach of the bound can
have: what it finds there is the cheapest of all, and if there is nothing the reach grows. Where even that is too wide,
a mixed-integer programme answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InfeasibleError, InputError, LimitError
from .instance import Instance, read_instance
from .masks import masks_of
from .placement import Placement, placement_of
from .program import MARGIN, Programme, Relaxed
from .search import Search, TooWide

__all__ = ["MOST_STEPS", "near", "place"]

FIRST_STEPS = 10_000
"""Steps after which the first search gives up: about 0.1 s, what the linear programme takes."""
MOST_STEPS = 200_000
"""Steps after which the searches within reach of the bound give up: 0.5 to 1.4 s."""
SECONDS = 120.0
"""Most seconds for each programme by default: a guess at what is acceptable."""
REACH = 0.001
"""First reach over the bound, as a share of it: a guess; answers of drawn graphs were 0 to 0.6 % above it."""
FAR = 0.01
"""Least reach of the mixed-integer programme, for which a second solution costs more than a larger first."""


def place(instance: Instance | Mapping[str, Any], *, steps: int = MOST_STEPS, seconds: float = SECONDS) -> Placement:
    """The cheapest placement: every operator is in exactly one match, and no matches wait for each other.

    The cost is Σ cost + ε · (number of matches), and `boundary_cost` for each pair of a value and a match that reads it
    whose producer is on another backend. The answer is proven to be the cheapest; of equal ones it is always the same.

    Parameters
    ----------
    instance : Instance or mapping
        See `read_instance`.
    steps : int
        Most steps of the search over states: a match tried in a state, or two states compared. If 10,000 do not suffice
        it begins anew, near the bound of a linear programme, and a mixed-integer one takes over after `steps` there.
    seconds : float
        Most seconds for each of its programmes. With 0 there is none.

    Raises
    ------
    InputError
        If the instance is not one; says where.
    InfeasibleError
        If no backend takes an operator, which is named; or if matches cannot be put together.
    LimitError
        If neither steps nor seconds suffice, so that the cheapest placement is not known.

    Notes
    -----
    Source: thesis 003 §2.4.2, equations 2.2 to 2.4. Algorithm 1 as published allows circles: `published_placement`.
    """
    given = read_instance(instance)
    if steps < 1 or not seconds >= 0:
        raise InputError(f"expected steps >= 1 and seconds >= 0 (got {steps} and {seconds})")
    masks = masks_of(given)
    search = Search(given, masks, steps if seconds == 0 else min(steps, FIRST_STEPS))
    try:
        found, held = search.best(), search.held
    except TooWide as end:
        if seconds == 0:
            raise LimitError(
                f"collage-op: our limit of {steps:,} steps ended the search with {end.done:.0%} of the operators "
                "covered, so the cheapest placement is not known; raise it (steps=…) or allow a programme (seconds=…)"
            ) from None
        programme = Programme(given, masks, seconds)
        found, more = near(given, programme, programme.relaxed(), steps)
        held = search.held + more
    return placement_of(given, found, "collage-op", held)


def near(instance: Instance, programme: Programme, relaxed: Relaxed, steps: int) -> tuple[list[int], int]:
    """Indices of the matches of the cheapest placement, and how many states were held for it.

    Parameters
    ----------
    instance : Instance
        What is asked.
    programme : Programme
        The same as a programme.
    relaxed : Relaxed
        What it says of the bound.
    steps : int
        Most steps of all searches together.

    Raises
    ------
    InfeasibleError
        If there is none.
    LimitError
        If the programme is not solved in its time.
    """
    if relaxed.whole and not programme.forbid(relaxed.taken):
        return programme.named(relaxed.taken), 0
    held, left, reach = 0, steps, max(REACH * relaxed.bound, MARGIN)
    while True:
        masks = programme.above(relaxed, reach)
        search = Search(instance, masks, left, reach)
        try:
            return search.best(), held + search.held
        except TooWide:
            return programme.best(relaxed, max(reach, FAR * relaxed.bound)), held + search.held
        except InfeasibleError:
            if search.dropped == 0 and masks.holding == programme.masks.holding:
                raise
        held, left, reach = held + search.held, left - search.taken, 2 * reach
