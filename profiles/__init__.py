"""Profiles: what models cost on devices. Hardware specs, measured and cited latencies and memory, cost models."""

from .config import ParallelConfig
from .hardware import DEVICES, DeviceSpec, LinkSpec, device
from .profile import ModelProfile, ProfileSet, Provenance, StageProfile

__all__ = [
    "DEVICES",
    "DeviceSpec",
    "LinkSpec",
    "ModelProfile",
    "ParallelConfig",
    "ProfileSet",
    "Provenance",
    "StageProfile",
    "device",
]
