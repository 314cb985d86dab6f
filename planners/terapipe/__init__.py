"""TeraPipe: pipelines over slices of a sequence (Li et al., ICML '21): which tokens go in which slice."""

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
