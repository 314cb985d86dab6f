"""`engine_of`: the engine that times a plan, by whether its links are shared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from ...errors import InputError
from .plan.file import TrainingPlan
from .plan.links import PlanLinks
from .program.actions import Program
from .timing import ActionTimes, Prepared
from .varying.drawn import Drawn

__all__ = ["engine_of"]


def engine_of(
    plan: TrainingPlan, program: Program, links: PlanLinks, costs: Prepared, engine: Literal["compiled", "simpy"]
) -> Callable[[Drawn | None], ActionTimes]:
    """A function that times one iteration of a plan, by the factors of its times where these vary.

    Raises
    ------
    InputError
        If gradients are reduced beside passes and links are apart.
    """
    if plan.links == "shared":
        from .fluid.loads import loaded
        from .plan.loads import plan_loads

        loads = loaded(program, costs, plan_loads(plan, program, links))
        if engine == "compiled":
            from .fluid.compiled import run_compiled as run_shared
        else:
            from .fluid.reference import run_reference as run_shared
        return partial(run_shared, program, costs, loads)
    if plan.buckets:
        raise InputError(
            f"simulate: buckets: {plan.buckets} of gradients beside the last backward pass share links with it; take "
            "links shared, or 0 buckets"
        )
    if engine == "compiled":
        from .compiled import run_compiled as run
    else:
        from .reference import run_reference as run
    return partial(run, program, costs)
