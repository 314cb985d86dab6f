"""What the inference world calls its metrics."""

from __future__ import annotations

__all__ = ["METRICS"]

METRICS = {
    "attainment": "1 where a call keeps slo, else 0",
    "goodput": "samples per second, where slo is kept; else 0",
    "latency_s": "predicted time of one call, seconds",
    "samples_per_s": "samples per second, one call after another",
    "single_s": "predicted time of the fastest backend that runs the network alone, seconds",
    "speedup": "that time over the placement's",
    "n_groups": "units that the network is cut into",
    "n_crossings": "values that go from one backend to another",
    "n_backends": "backends that the placement uses",
}
"""What a study knows of a case."""
