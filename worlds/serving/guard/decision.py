"""`Decision`: what a serving planner decided, without the circumstances; what a baseline keeps of a plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ....planners import ScheduledPlan
from ....profiles.config import ParallelConfig
from ....simulator.placement import Group, Placement, PlacementSchedule
from ....simulator.serving.plan.file import Plan

__all__ = ["Decision", "GroupRecord", "Window"]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class GroupRecord(_Entry):
    """A group: its parallel configuration, its devices stage by stage, its models."""

    config: Annotated[str, Field(pattern=r"^op[1-9][0-9]{0,5}pp[1-9][0-9]{0,5}$")]
    devices: tuple[int, ...]
    models: tuple[str, ...]


class Window(_Entry):
    """A placement, and when it begins, seconds."""

    start: float = Field(default=0.0, ge=0)
    groups: tuple[GroupRecord, ...] = Field(min_length=1)

    def placement(self) -> Placement:
        """As the simulator's object."""
        return Placement(Group(ParallelConfig.parse(g.config), g.models, g.devices) for g in self.groups)


class Decision(_Entry):
    """A placement, or for a planner that changes it over time one for each window.

    Parameters
    ----------
    windows : tuple of Window
        One, or a schedule.
    schedule, carry : bool
        Whether it is a `PlacementSchedule`, and its rule at boundaries.
    """

    windows: tuple[Window, ...] = Field(min_length=1)
    schedule: bool = False
    carry: bool = False

    @classmethod
    def of(cls, plan: Plan | ScheduledPlan) -> Decision:
        """What a plan decides."""
        placement = plan.placement
        if isinstance(placement, Placement):
            return cls(windows=(_window(0.0, placement),))
        starts, placements = placement.starts, placement.placements
        windows = tuple(_window(s, p) for s, p in zip(starts, placements, strict=True))
        return cls(windows=windows, schedule=True, carry=placement.carry)

    def placement(self) -> Placement | PlacementSchedule:
        """What `simulate` takes.

        Raises
        ------
        InputError
            If it names a device twice, or too few of them.
        """
        placements = [window.placement() for window in self.windows]
        if not self.schedule:
            return placements[0]
        return PlacementSchedule([w.start for w in self.windows], placements, carry=self.carry)


def _window(start: float, placement: Placement) -> Window:
    return Window(
        start=start,
        groups=tuple(
            GroupRecord(config=str(g.config), devices=g.devices or (), models=g.models) for g in placement.groups
        ),
    )
