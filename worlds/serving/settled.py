"""What a case's profile says where nobody else does: the device type that it holds for."""

from __future__ import annotations

from pathlib import Path

from ...errors import MeshwrightError
from ...profiles import DEVICES, ProfileSet, load, shipped
from .case import ClusterCase, ServingCase

__all__ = ["profile_of", "settled"]


def profile_of(name: str, folder: Path) -> ProfileSet:
    """A profile set: a shipped one, or a file relative to a folder.

    Raises
    ------
    InputError
        If there is none, or it is wrong.
    """
    file = folder / name
    return load(name if name in shipped() or not file.exists() else file)


def settled(case: ServingCase, folder: Path) -> ServingCase:
    """The case with the device type of its profile, where nobody says one.

    A factor of `speed` for the type that is usual speaks of that type. What is wrong with a profile is said where all
    of the case is checked.
    """
    usual = ClusterCase.model_fields["device"].default
    if "device" in case.cluster.model_fields_set or usual in case.speed:
        return case
    if isinstance(case.profile, str):
        if "profile" not in case.model_fields_set:
            return case
        try:
            device = profile_of(case.profile, folder).device
        except (MeshwrightError, OSError):
            return case
    else:
        device = next(iter(case.profile), usual) if len(case.profile) == 1 else usual
    if device == usual or device not in DEVICES:
        return case
    return case.model_copy(update={"cluster": case.cluster.model_copy(update={"device": device})})
