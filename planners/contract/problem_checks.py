"""What a planning problem demands of its models, and of a placement of them."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Mapping
from typing import Any, cast

from ...errors import InfeasibleError, InputError, OutOfProfileError
from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.placement import Placement
from ...traces.trace import Trace
from ...wording import nearest

__all__ = ["check_models", "check_placement", "check_slo", "first_problem"]


def check_models(models: tuple[str, ...], trace: Trace, profiles: Mapping[str, ModelProfile]) -> None:
    """Refuse models that are none, twice there, or without a profile; and a trace that asks for others."""
    if not models:
        raise InputError("models: expected at least one model (got none)")
    seen: set[str] = set()
    for name in models:
        if not isinstance(name, str):
            raise InputError(f"models: expected names (got {name!r})")
        if name in seen:
            raise InputError(f"models: {name!r} is listed twice")
        if name not in profiles:
            near = nearest(name, list(profiles))
            hint = f"did you mean {near!r}?" if near else f"profiled: {', '.join(list(profiles)[:10])}"
            raise InputError(f"models: no profile for {name!r}; {hint}")
        seen.add(name)
    for name, count in zip(trace.models, trace.counts().tolist(), strict=True):
        if count and name not in seen:
            raise InputError(
                f"trace: asks for {name!r}, which is not among the models to place "
                f"({', '.join(models[:10])}); add it to models, or keep only theirs with trace.select(models)"
            )


def check_slo(trace: Trace) -> None:
    """Refuse traffic without any SLO: every placement that serves it attains all of it, and none is better."""
    if not trace.has_slo:
        raise InputError(
            "trace: no request has an SLO, so there is no attainment to plan for; give one: slo=… or a column "
            "slo of the trace, trace.with_slo(seconds) or trace.with_slo_scale(scale, profiles), --slo or --slo-scale"
        )


def check_placement(
    placement: Placement, cluster: Cluster, models: tuple[str, ...], profiles: Mapping[str, ModelProfile], where: str
) -> None:
    """Refuse a placement of other models, on devices that are not there, not profiled, or over the memory.

    Memory exceeded is no `InfeasibleError` here: another placement may well fit.
    """
    if not isinstance(placement, Placement):
        raise InputError(f"{where}: expected a Placement (got {type(placement).__name__})")
    for model in placement.models:
        if model not in models:
            near = nearest(model, models)
            hint = f"did you mean {near!r}?" if near else f"the problem's are {', '.join(models[:10])}"
            raise InputError(f"{where}: holds {model!r}, which is not among the problem's models; {hint}")
    try:
        placement.check(cluster, profiles)
    except (InfeasibleError, OutOfProfileError, InputError) as error:
        raise InputError(f"{where}: {error}") from None


def first_problem(error: ValueError) -> str:
    """The first error that pydantic found, in a line."""
    found = getattr(error, "errors", None)
    if not callable(found):
        return str(error)
    first = cast("list[dict[str, Any]]", found())[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
