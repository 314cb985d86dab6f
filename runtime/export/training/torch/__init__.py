"""A training plan for torch itself: DTensor placements, chains of modules, programs that torchrun starts."""

from .chain import chain_files, why_no_chain
from .files import dtensor_placements, placements_document, torch_files

__all__ = ["chain_files", "dtensor_placements", "placements_document", "torch_files", "why_no_chain"]
