"""Configuration search for decoder transformers: tensor, pipeline and data parallelism and what goes with them."""

from .devices import DeviceCount, devices_for, sweep_devices
from .emit import training_plan
from .flags import megatron_flags
from .models import GPTS, model_shape
from .options import SOFTWARE, SearchOptions
from .result import Configuration, SearchResult
from .search import search
from .space import ImpossibleError, Space

__all__ = [
    "GPTS",
    "SOFTWARE",
    "Configuration",
    "DeviceCount",
    "ImpossibleError",
    "SearchOptions",
    "SearchResult",
    "Space",
    "devices_for",
    "megatron_flags",
    "model_shape",
    "search",
    "sweep_devices",
    "training_plan",
]
