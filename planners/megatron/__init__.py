"""Configuration search for decoder transformers: tensor, pipeline and data parallelism and what goes with them."""

from .devices import DeviceCount, devices_for, sweep_devices
from .result import Configuration, SearchResult
from .search import search
from .space import Space

__all__ = [
    "Configuration",
    "DeviceCount",
    "SearchResult",
    "Space",
    "devices_for",
    "search",
    "sweep_devices",
]
