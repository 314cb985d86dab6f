"""Profiles: the costs of models on devices, measured or cited.

Begin with `load` (a shipped set of profiles, or a file), `ModelProfile` (latency and memory of one model, per parallel
configuration) and `DeviceSpec` (a device). `LayerTable`, `CommModel` and `compose` make profiles from layers, and the
room `measure` measures them here. The room `llm` holds the costs of token-by-token serving, the room `graph` training
graphs and their cost model, and the room `alpaserve` the origin of the shipped V100 profiles.
"""

from .alpaserve.shipped import model_set
from .autoparallel import Partition, auto_partition, computation_partition, equal_layers
from .comm import CommModel, fit_line
from .compose import compose
from .config import ParallelConfig
from .devices import DEVICES
from .hardware import DeviceSpec, LinkSpec, device
from .layers import Layer, LayerTable
from .profile import ModelProfile, Provenance, StageProfile
from .profile_set import ProfileSet
from .store import ProfileWarning, doubts, load, load_layers, save, save_layers, shipped

__all__ = [
    "DEVICES",
    "CommModel",
    "DeviceSpec",
    "Layer",
    "LayerTable",
    "LinkSpec",
    "ModelProfile",
    "ParallelConfig",
    "Partition",
    "ProfileSet",
    "ProfileWarning",
    "Provenance",
    "StageProfile",
    "auto_partition",
    "computation_partition",
    "compose",
    "device",
    "doubts",
    "equal_layers",
    "fit_line",
    "load",
    "load_layers",
    "model_set",
    "save",
    "save_layers",
    "shipped",
]
