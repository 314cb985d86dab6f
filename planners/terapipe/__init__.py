"""TeraPipe: pipelines over slices of a sequence (Li et al., ICML '21): which tokens go in which slice."""

from __future__ import annotations

from .slicing import Slice, Slicing, score_slices, slice_tokens, uniform_slices

__all__ = ["Slice", "Slicing", "score_slices", "slice_tokens", "uniform_slices"]
