"""Who loses blocks, and how: by recomputation or by swapping, where blocks run out or where someone is more urgent."""

from __future__ import annotations

from .....errors import RunError
from ...memory.blocks import Allocation
from ...memory.caching_tables import CachingTables
from .options import Vllm06Config
from .state import Budget, Vllm06Request, Vllm06Step
from .tokens import new_tokens

__all__ = ["give_way", "preempt"]


def preempt(config: Vllm06Config, memory: CachingTables, request: Vllm06Request, step: Vllm06Step) -> None:
    """Take a running request's blocks, to be computed again, or move them to the host.

    Raises
    ------
    RunError
        If the host has no room.
    """
    step.preempted.append(request)
    if config.preemption_mode != "swap":
        memory.free(request)
        request.computed, request.decoding, request.resumed = 0, False, True
        return
    if not memory.can_swap_out(request):
        raise RunError(
            f"request {request.request.id!r}: preempted, but num_cpu_blocks has no room to swap its "
            f"{len(request.blocks)} blocks to; raise num_cpu_blocks"
        )
    step.swap_out += memory.swap_out(request)


def give_way(
    config: Vllm06Config,
    memory: CachingTables,
    running: list[Vllm06Request],
    waiting: list[Vllm06Request],
    budget: Budget,
    step: Vllm06Step,
) -> None:
    """Sort both queues by priority; the least urgent that run give way to who waits first, as long as it lacks room.

    It is admitted by the next step. Who waits first is told by the last time the queue was sorted, as in vLLM.
    """
    running.sort(key=_rank)
    if waiting:
        first = waiting.pop(0)
        fresh, _ = new_tokens(config, memory.gpu, first, budget, False)
        while running and running[-1].rank > first.rank:
            if memory.can_allocate(first) is Allocation.OK and budget.fits(fresh):
                break
            victim = running.pop()
            budget.seqs -= 1
            preempt(config, memory, victim, step)
            waiting.insert(0, victim)
        waiting.insert(0, first)
    waiting.sort(key=_rank)


def _rank(request: Vllm06Request) -> tuple[int, float]:
    return request.rank
