"""The costs that a placement is scored with: those that its plan carries, or a profile set's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from ....errors import InputError
from ....profiles import ModelProfile
from ....simulator import Plan
from ..case import ServingCase
from .requests import single_device

__all__ = ["OtherCostsWarning", "costs_of"]


class OtherCostsWarning(UserWarning):
    """A plan is scored with other costs than it was made with."""


def costs_of(plan: Plan, path: str, case: ServingCase, folder: Path) -> Mapping[str, ModelProfile]:
    """The plan's own costs, or those of the profile set that the case says.

    Raises
    ------
    InputError
        On a profile set of another device, or if the plan does not fit its own cluster.
    """
    own = plan.planned_profiles()
    if "profile" not in case.model_fields_set:
        plan.validate_for(plan.cluster_spec, own)
        return own
    given = single_device(plan, case.profile, folder)
    device = plan.cluster.device.name
    if given.device and given.device != device:
        raise InputError(
            f"profile: {given.name!r} holds for {given.device!r} (got a cluster of {device!r}); take the cluster's own "
            "profile, or plan for the profile's device"
        )
    cells = [(name, group.config) for group in plan.groups for name in group.models]
    other = [(name, c) for name, c in cells if given[name].latency(c) != own[name].latency(c)]
    if other:
        more = f" and {len(other) - 1} more" if len(other) > 1 else ""
        warnings.warn(
            OtherCostsWarning(
                f"{path}: was planned with other latencies than {case.profile} holds "
                f"({other[0][0]}, {other[0][1]}{more}); simulated with the latter"
            ),
            stacklevel=2,
        )
    return given
