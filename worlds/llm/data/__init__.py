"""What LLM cases share: decoders, kernel tables and files of traffic, loaded and checked before the first point."""

from .checks import planner_options
from .files import decoder_of, one_trace
from .kept import LLMData
from .loading import load_data

__all__ = ["LLMData", "decoder_of", "load_data", "one_trace", "planner_options"]
