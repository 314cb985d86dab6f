"""`InferenceResult`: one call of a network as its placement's measured costs add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...reprs import Shown
from ...simulator.summary import Figure as Said
from ...simulator.summary import Summary
from .measures import measures
from .plan import InferencePlan

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["InferenceResult"]

SAYS: Mapping[str, tuple[str, str]] = {
    "latency_s": ("s", "of one call"),
    "samples_per_s": ("1/s", "one call after another"),
    "single_s": ("s", "of the fastest backend that runs the network alone"),
    "speedup": ("", "over that backend"),
    "n_groups": ("", "units that the network is cut into"),
    "n_crossings": ("", "values that go from one backend to another"),
    "n_backends": ("", "that are used"),
    "attainment": ("", "1 where a call keeps its limit"),
    "goodput": ("1/s", "samples, where the limit is kept"),
}
"""Metric -> unit, and what it says."""


@dataclass(frozen=True, repr=False)
class InferenceResult(Shown):
    """One call, group by group.

    Parameters
    ----------
    plan : InferencePlan
        The placement, with the costs that it was planned with.
    """

    plan: InferencePlan

    def __len__(self) -> int:
        """Groups."""
        return len(self.plan.groups)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """By the names of `names.METRICS`."""
        return measures(self.plan)

    @property
    def latency_s(self) -> float:
        """Time of one call, seconds."""
        return self.metrics["latency_s"]

    @property
    def attainment(self) -> float:
        """1 where a call keeps its limit, or none is given; else 0."""
        return self.metrics.get("attainment", 1.0)

    @property
    def goodput(self) -> float:
        """Samples per second where the limit is kept, else 0."""
        return self.metrics["goodput"]

    def summary(self) -> Summary:
        """The figures that one looks at first, each with its unit."""
        return Summary(repr(self), [Said(name, value, *SAYS[name]) for name, value in self.metrics.items()])

    def to_frame(self) -> pd.DataFrame:
        """One row per group: backend, number of operators, milliseconds, and those of the second best."""
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {
                "backend": group.backend, "operators": len(group.nodes), "first": group.nodes[0],
                "cost_ms": group.cost_ms,
                "second_ms": float("nan") if group.second is None else group.second.cost_ms,
            }
            for group in self.plan.groups
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def plot(self) -> Figure:
        """The groups one after another, in the colours of their backends, as a matplotlib figure."""
        from matplotlib.figure import Figure

        from .doors.picture import draw

        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        draw(self.plan, figure.subplots())
        return figure

    def _headline(self) -> str:
        plan = self.plan
        return f"{plan.model}, batch {plan.batch}: {len(self)} groups, {1e3 * self.latency_s:.4g} ms a call"
