"""TeraPipe: pipeline parallelism over slices of a sequence (Li et al., ICML '21).

Begin with `planner` (`plan`), or with `slicing` (`slice_tokens`), the paper's dynamic programme by itself. The planner
goes through `layouts` (degrees of parallelism), prices a stage's slices (`cell_pricer`, `cells`, `messages`,
`pipeline`), chooses slices (`choose`, `directions`), and writes the plan (`emit`). `latency` fits Eq. 2.9 to
measurements, which `slice_profile` holds. The room `v100` models the paper's own hardware.
"""

from __future__ import annotations

from .directions import PipelineSlicing, score_pipeline, slice_pipeline
from .latency import SliceLatency, fit_latency
from .options import TeraPipeOptions
from .planner import plan
from .slice_profile import SliceProfile, part_bounds
from .slicing import Slice, Slicing, score_slices, slice_tokens, uniform_slices

__all__ = [
    "PipelineSlicing", "Slice", "SliceLatency", "SliceProfile", "Slicing", "TeraPipeOptions", "fit_latency",
    "part_bounds", "plan", "score_pipeline", "score_slices", "slice_pipeline", "slice_tokens", "uniform_slices",
]  # fmt: skip
