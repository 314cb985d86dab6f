"""What token-by-token LLM serving costs: shapes of decoder models, their KV memory, and the time of one iteration."""

from .capacity import KVCapacity, kv_capacity
from .decoder import DecoderSpec, decoder
from .iteration import Iteration, IterationCost
from .zoo import DECODERS

__all__ = ["DECODERS", "DecoderSpec", "Iteration", "IterationCost", "KVCapacity", "decoder", "kv_capacity"]
