"""Token-by-token LLM serving: paged KV memory and iteration-level schedulers, clock-free (vLLM, thesis ch. 5)."""

from .drive import drive
from .request import LLMRequest

__all__ = ["LLMRequest", "drive"]
