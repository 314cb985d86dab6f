"""`AdapterSeats`: the LoRA adapters of a step, of which there may be only so many."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ...memory.adapters import AdapterSlots
from .state import Vllm06Request

__all__ = ["AdapterSeats"]


class AdapterSeats:
    """Which adapters the step that is being decided uses, and which are in slots.

    Parameters
    ----------
    most : int
        Adapters of a step.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken: set[Hashable] = set()
        self._slots = AdapterSlots(most)
        self._order: dict[Hashable, int] = {}  # adapters in the order in which requests named them, from 1 on

    def name(self, lora: Hashable) -> None:
        """A request of this adapter arrived."""
        self._order.setdefault(lora, len(self._order) + 1)

    def begin(self, running: Iterable[Vllm06Request]) -> None:
        """A step begins with the adapters of these requests."""
        self.taken = {r.request.lora for r in running if r.request.lora is not None}

    def lacks(self, request: Vllm06Request) -> bool:
        """Whether the request's adapter would be one too many."""
        lora = request.request.lora
        return lora is not None and lora not in self.taken and len(self.taken) >= self.most

    def take(self, request: Vllm06Request) -> None:
        """The step computes for the request."""
        if request.request.lora is not None:
            self.taken.add(request.request.lora)

    def drop(self, request: Vllm06Request) -> None:
        """The request has no room; that others may have its adapter vLLM does not look at."""
        self.taken.discard(request.request.lora)

    def turn(self, scheduled: tuple[Vllm06Request, int]) -> tuple[int, str]:
        """What a step that uses adapters is sorted by: adapter and name, those without one first."""
        request = scheduled[0].request
        return self._order.get(request.lora, 0), str(request.id)

    def load(self, scheduled: Iterable[Vllm06Request]) -> tuple[int, int]:
        """Bring a step's adapters into slots; those that are read from the disk, and those that are copied."""
        if not self.most:
            return 0, 0
        return self._slots.use(r.request.lora for r in scheduled if r.request.lora is not None)
