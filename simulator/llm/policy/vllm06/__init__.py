"""The last scheduler of vLLM's first engine (V0), by the rules of vLLM 0.6.6: `scheduler` says what they are."""

from .options import Vllm06Config
from .scheduler import Vllm06Scheduler
from .state import Vllm06Request, Vllm06Step

__all__ = ["Vllm06Config", "Vllm06Request", "Vllm06Scheduler", "Vllm06Step"]
