"""What the verbs that really run share: the profiles to predict with and the traffic to send."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .workload import profiles_for, trace_from

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from ..profiles import ModelProfile
    from ..simulator import Plan
    from ..traces import Trace

__all__ = ["check_real_time", "known_profiles", "single_device", "traffic_for"]

LONGEST_S = 7 * 86_400.0
"""Seconds from the first request of a real run to the last; a week. Traffic that is longer is simulated."""

MOST_REQUESTS = 10_000_000
"""Of a real run."""


def check_real_time(arrivals: npt.NDArray[np.float64]) -> None:
    """Refuse traffic that nobody waits for: requests are sent when they arrive, on the clock of the wall.

    Raises
    ------
    InputError
        With the limits.
    """
    if len(arrivals) > MOST_REQUESTS:
        raise InputError(f"traffic: {len(arrivals):.3g} requests; a real run sends at most {MOST_REQUESTS:,}")
    last = float(arrivals.max()) if len(arrivals) else 0.0
    if last > LONGEST_S:
        raise InputError(
            f"traffic: the last request arrives after {last:.3g} s; a real run lasts at most {LONGEST_S:g} s: give "
            "fewer requests or a higher rate, or simulate it"
        )


def known_profiles(plan: Plan, profile: str | None) -> Mapping[str, ModelProfile]:
    """The profiles named on the command line, else those that the plan carries."""
    return profiles_for([m.name for m in plan.models], profile) if profile else plan.planned_profiles()


def single_device(plan: Plan, profile: str | None) -> Any:
    """The profiles whose single-device latencies SLO scales multiply.

    Raises
    ------
    InputError
        If none is given and the plan was not made with a shipped set.
    """
    from ..profiles import shipped

    name = profile or plan.profile.partition("/")[0]
    if profile is None and name not in shipped():
        raise InputError(
            f"--profile: SLO scales need the single-device latencies of profile {plan.profile!r}; give its file"
        )
    return profiles_for([m.name for m in plan.models], name)


def traffic_for(
    plan: Plan, profile: str | None, trace: Path | None, *, slo: float | None, slo_scale: float | None, **shape: Any
) -> tuple[Trace, str]:
    """The traffic, read or made; without an SLO of its own it gets those of the plan."""
    names = tuple(m.name for m in plan.models)
    base = single_device(plan, profile) if slo_scale is not None else None
    traffic, source = trace_from(trace, base, names, slo=slo, slo_scale=slo_scale, default_scale=None, **shape)
    check_real_time(traffic.arrival)
    planned = {m.name: m.slo_s for m in plan.models if m.slo_s is not None}
    if trace is None and slo is None and slo_scale is None and set(planned) == set(names):
        return traffic.with_slo(planned), f"{source}, SLOs of the plan"
    return traffic, source
