"""A placement of operators on backends as a folder that runs without Meshwright."""

from .export import export_placement

__all__ = ["export_placement"]
