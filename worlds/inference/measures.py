"""What is known of an inference plan: its metrics."""

from __future__ import annotations

from .plan import InferencePlan

__all__ = ["measures"]


def measures(plan: InferencePlan) -> dict[str, float]:
    """Metrics of `names.METRICS`; attainment and goodput where a limit is given."""
    latency = plan.predicted["latency_s"]
    found = dict(plan.predicted) | {
        "n_groups": float(len(plan.groups)),
        "n_crossings": float(plan.crossings()),
        "n_backends": float(len({group.backend for group in plan.groups})),
    }
    kept = plan.slo is None or latency <= plan.slo
    if plan.slo is not None:
        found["attainment"] = float(kept)
    return found | {"goodput": plan.predicted["samples_per_s"] if kept else 0.0}
