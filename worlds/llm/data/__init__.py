"""What LLM cases share: decoders, kernel tables and files of traffic, loaded and checked before the first point."""

from .files import decoder_of, one_trace
from .kept import LLMData
from .loading import load_data
from .options import planner_options, said_twice

__all__ = ["LLMData", "decoder_of", "load_data", "one_trace", "planner_options", "said_twice"]
