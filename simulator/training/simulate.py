"""`simulate_training`: one iteration of a training plan."""

from __future__ import annotations

from typing import Literal, get_args

from ...errors import InputError
from .engines import engine_of
from .plan.file import TrainingPlan
from .plan.links import plan_links, plan_timing
from .plan.program import plan_program
from .resharding.crossing import Method
from .result.iteration import TrainingResult
from .timing import prepared
from .varying.drawn import Drawn

__all__ = ["simulate_training"]

Engine = Literal["compiled", "simpy"]
Links = Literal["apart", "shared"]


def simulate_training(
    plan: TrainingPlan,
    *,
    engine: Engine = "compiled",
    resharding: Method | None = None,
    overlap: bool | None = None,
    links: Links | None = None,
    drawn: Drawn | None = None,
) -> TrainingResult:
    """Simulate one iteration of a training plan.

    Parameters
    ----------
    plan : TrainingPlan
        Stages, meshes, transfers, schedule, microbatches.
    engine : {"compiled", "simpy"}
        The fast engine, or the readable reference with the same results.
    resharding : {"send_recv", "first_holder", "scatter_gather", "local_all_gather"}, optional
        Resharding method, to use instead of the plan's.
    overlap : bool, optional
        Whether transfers overlap computation, instead of what the plan says.
    links : {"apart", "shared"}, optional
        Whether collectives and messages on one link slow each other, instead of what the plan says.
    drawn : Drawn, optional
        Factors by which times vary (`varying.drawn.draw_times`); without them all take what the plan says.

    Returns
    -------
    TrainingResult
        Time, memory, bubbles, FLOP/s. A plan that needs more memory than the devices have is simulated as well; see
        ``fits``.

    Raises
    ------
    InputError
        If an argument is unknown, or the plan's schedule is impossible with its stages and meshes.
    """
    if engine not in get_args(Engine):
        raise InputError(f"simulate_training: engine: expected compiled or simpy (got {engine!r})")
    if resharding is not None and resharding not in get_args(Method):
        raise InputError(f"simulate_training: resharding: expected {', '.join(get_args(Method))} (got {resharding!r})")
    if links is not None and links not in get_args(Links):
        raise InputError(f"simulate_training: links: expected apart or shared (got {links!r})")
    changed = plan if links in (None, plan.links) else plan.model_copy(update={"links": links})
    if changed.links == "shared" and plan.further_clusters:
        raise InputError("simulate_training: links: shared links go with one cluster only; leave them apart")
    program = plan_program(plan)
    ways = plan_links(plan, resharding)
    costs = prepared(program, plan_timing(plan, ways, overlap))
    times = engine_of(changed, program, ways, costs, engine)(drawn)
    return TrainingResult(changed, engine, program, ways, costs, times, drawn)
