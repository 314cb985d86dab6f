"""Serving profiles from graphs: Alpa's passes as AlpaServe extends them for inference (AlpaServe, OSDI '23, §4.1).

Begin with `profile_graph`, which makes a `ModelProfile` of any graph, or `profile_set`. `plan_forward` is the intra-op
pass with the inference objective: forward operators only, no data parallelism. `units` cuts its plan into the layers
that the stage programme (`meshwright.profiles.auto_partition`) deals out to pipeline stages.
"""

from __future__ import annotations

from .forward import forward_graph
from .options import InferenceOptions
from .profile import Planned, plan_model, profile_graph, profile_set
from .solve import ForwardPlan, plan_forward
from .units import Unit, units

__all__ = [
    "ForwardPlan", "InferenceOptions", "Planned", "Unit", "forward_graph", "plan_forward", "plan_model",
    "profile_graph", "profile_set", "units",
]  # fmt: skip
