"""Costs of iterations in numbers, as the compiled loops take them; which ones there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....profiles.llm.cost.fitted import FittedCost
from ....profiles.llm.cost.grid import CostGrid
from ....profiles.llm.cost.in_service import InService
from ....profiles.llm.cost.iteration import TableCost
from ....profiles.llm.linear import ConstantCost, LinearCost
from ..decoding.speculative import SpeculativeCost
from ..times import StepDraws

__all__ = ["price_of", "why_no_price"]

_COSTS = (ConstantCost, LinearCost, FittedCost, TableCost)


def why_no_price(cost: Any) -> str | None:
    """Why a cost is not compiled; None if it is."""
    if type(cost) is SpeculativeCost:
        draft = cost.speculative.draft
        return why_no_price(cost.target) or (None if draft is None else why_no_price(draft))
    plain = _plain(cost)
    return None if type(plain) in _COSTS else f"a cost of type {type(plain).__name__} is not compiled"


def price_of(cost: Any, times: StepDraws | None) -> Any:
    """The cost in numbers, and the factors on top of it."""
    from .times import on_top

    if isinstance(cost, SpeculativeCost):
        from .fleet.speculative import DraftedPrice

        s = cost.speculative
        return DraftedPrice(
            target=price_of(cost.target, None),
            draft=price_of(ConstantCost(1.0) if s.draft is None else s.draft, None),
            top=on_top(None, times),
            modelled=s.draft is not None,
            tokens=s.tokens,
            draft_s=float(s.draft_s),
        )
    from .rules import FITTED, GRID, LINEAR, Price

    line, plain, top = np.zeros(10), _plain(cost), on_top(cost, times)
    if isinstance(plain, TableCost):
        return Price(GRID, line, plain.grid(), top)
    if isinstance(plain, FittedCost):
        line[:] = (*plain.prefill, *plain.decode, *plain.decode_large, plain.large_batch)
        return Price(FITTED, line, _no_grid(), top)
    if isinstance(plain, ConstantCost):
        line[0] = plain.iteration_s
    else:
        line[:5] = plain.base_s, plain.token_s, plain.context_s, plain.pair_s, plain.decode_s
    return Price(LINEAR, line, _no_grid(), top)


def _plain(cost: Any) -> Any:
    """A cost without its factors in service."""
    return cost.cost if type(cost) is InService else cost


def _no_grid() -> CostGrid:
    """A grid of nothing, of the same types as a real one, so that one compilation serves both."""
    shapes = (1, 1, 1, 1, (1, 1), 1, 1, (1, 1), 0, 0, 0, 0, (0, 0, 0, 0))
    arrays: list[Any] = [np.zeros(shape) for shape in shapes]
    for array in arrays:
        array.setflags(write=False)  # numba gives read-only arrays another type
    numbers: list[Any] = [0.0, 0.0, 0.0, 0.0, 0.0, 0, False]
    return CostGrid(*arrays, *numbers)
