"""Which models cannot attain any SLO of a trace, even on idle devices: said before work begins."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from ....profiles import ModelProfile, ParallelConfig
from ....traces.trace import Trace

__all__ = ["HopelessWarning", "warn_of_hopeless"]


class HopelessWarning(UserWarning):
    """No request of a model can be in time."""


def warn_of_hopeless(
    trace: Trace, profiles: Mapping[str, ModelProfile], configs: Mapping[str, Sequence[ParallelConfig]], where: str = ""
) -> None:
    """Warn of the first such model, and say how many more there are.

    Parameters
    ----------
    trace : Trace
        The requests, with their SLOs.
    profiles : mapping of str to ModelProfile
        What the models cost.
    configs : mapping of str to sequence of ParallelConfig
        Configurations that each model may run under; a model without one is left out.
    where : str
        Said first: which plan.
    """
    longest = np.full(len(trace.models), -np.inf)
    np.maximum.at(longest, trace.model, trace.slo)
    worst: list[tuple[str, float, float]] = []
    for name, slo in zip(trace.models, longest.tolist(), strict=True):
        stages = [profiles[name].stages[c] for c in configs.get(name, ())]
        totals = [sum(s.latency[1]) + s.hop_s * (len(s.latency[1]) - 1) for s in stages if 1 in s.latency]
        if totals and 0 < slo < min(totals):
            worst.append((name, slo, min(totals)))
    if worst:
        name, slo, best = worst[0]
        more = f" (and {len(worst) - 1} more models)" if len(worst) > 1 else ""
        warnings.warn(
            HopelessWarning(
                f"{where}SLO {slo:.4g} s of {name!r} is below its best latency, {best:.4g} s: no request of it can be "
                f"in time{more}"
            ),
            stacklevel=2,
        )
