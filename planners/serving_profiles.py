"""`plan_profiles`: serving profiles of graphs, by the family of planners that makes them; today Alpa's alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..profiles import ProfileSet
    from ..profiles.graph import Graph

__all__ = ["plan_profiles"]


def plan_profiles(
    graphs: Mapping[str, Graph],
    device: str = "v100-16gb",
    *,
    name: str = "planned",
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> ProfileSet:
    """Profiles that the serving world reads, planned from graphs.

    Parameters
    ----------
    graphs : mapping of str to Graph
        Name in the set -> graph.
    device : str
        Type of device.
    name : str
        Name of the set.
    progress : callable, optional
        Called with a line of text per plan.
    **options
        As `planners.alpa.InferenceOptions` has them.

    Raises
    ------
    InputError
        If there is no graph, or an option or the device is wrong.
    """
    from .alpa.inference import InferenceOptions, profile_set

    return profile_set(graphs, device, InferenceOptions(**options), name=name, progress=progress)
