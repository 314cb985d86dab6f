"""`Work`: what one step of any scheduler asks of an engine; one function per family of schedulers makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....profiles.llm.iteration import Iteration
from ..memory.accounting import memory_use
from ..memory.contiguous import ContiguousStep
from .fastertransformer import FasterTransformerScheduler
from .orca import OrcaScheduler
from .request import Status
from .vllm02 import Vllm02Scheduler, Vllm02Step
from .vllm06 import Vllm06Scheduler, Vllm06Step
from .vllm_v1 import V1Scheduler, V1Step

__all__ = ["Work", "work_02", "work_06", "work_contiguous", "work_paper", "work_v1"]


@dataclass(slots=True)
class Work:
    """One decision in terms that every engine understands. Requests are named by their ids.

    Parameters
    ----------
    iteration : Iteration, optional
        What the model computes; None if nothing.
    emits : list
        Requests of which every running sequence has a new token when the step is done.
    admitted, preempted, ignored : list
        Requests that run for the first time, that are preempted, and that never run (again).
    cached : dict
        For admitted requests, prompt tokens that a prefix cache held.
    swap_out, swap_in, copies : int
        Blocks to move and to copy first.
    adapter_loads, adapter_copies : int
        LoRA adapters to read from the disk and to copy into a slot first.
    running, waiting : int
        Requests that hold device memory, and that wait for it (swapped ones included).
    used_tokens, wasted_tokens : int
        Token slots of device memory that are held, and those of them that hold no token.
    capacity_tokens : int
        Token slots in all.
    shared_tokens : int
        Token slots that sharing saves: those of all sequences that run, if each had its blocks to itself, less what
        they hold together (vLLM Fig. 5.15).
    """

    iteration: Iteration | None = None
    emits: list[Any] = field(default_factory=list[Any])
    admitted: list[Any] = field(default_factory=list[Any])
    preempted: list[Any] = field(default_factory=list[Any])
    ignored: list[Any] = field(default_factory=list[Any])
    cached: dict[Any, int] = field(default_factory=dict[Any, int])
    swap_out: int = 0
    swap_in: int = 0
    copies: int = 0
    running: int = 0
    waiting: int = 0
    used_tokens: int = 0
    wasted_tokens: int = 0
    capacity_tokens: int = 0
    shared_tokens: int = 0
    adapter_loads: int = 0
    adapter_copies: int = 0


def work_02(scheduler: Vllm02Scheduler, step: Vllm02Step, padded: bool) -> Work:
    """A step of vLLM 0.2."""
    iteration, size, tables, wasted = None, scheduler.config.block_size, scheduler.memory.tables, 0.0
    prompts = step.scheduled[len(step.scheduled) - step.prompts :]
    before = [scheduler.config.prefix_tokens(group.request) for group in prompts]  # tokens in reserved blocks
    lengths = [group.having(Status.RUNNING)[0].length for group in prompts]
    rest = [length - n for length, n in zip(lengths, before, strict=True)]
    width = max(rest, default=0)
    chunks = tuple((width if padded else new, n) for new, n in zip(rest, before, strict=True))
    if chunks:
        iteration = Iteration(chunks, outputs=len(chunks))
    running = context = blocks = 0
    for group in scheduler.running:
        for sequence in group.sequences:
            if sequence.status is Status.RUNNING:
                length, table = sequence.length, tables[sequence.number]
                running += 1
                context += length
                blocks += len(table)
                if len(table) * size > length:  # in a prompt step the newest token may have no slot yet
                    wasted += (len(table) * size - length) / table[-1].shares
    if step.kind in ("decode", "mixed") and running:  # such a step schedules all that run
        iteration = Iteration(chunks, running - len(chunks), context - sum(lengths), running)
    pool = scheduler.memory.gpu
    held = pool.size - pool.free_blocks
    idle = scheduler.memory.idle_reserved if scheduler.memory.reserved else 0
    return Work(
        iteration,
        emits=[group.request.id for group in step.scheduled],
        admitted=[g.request.id for g in prompts],
        preempted=[group.request.id for group in step.preempted],
        ignored=[group.request.id for group in step.ignored],
        cached={g.request.id: n for g, n in zip(prompts, before, strict=True) if n},
        swap_out=len(step.swap_out),
        swap_in=len(step.swap_in),
        copies=len(step.copies),
        running=len(scheduler.running),
        waiting=len(scheduler.waiting) + len(scheduler.swapped),
        used_tokens=held * size,
        wasted_tokens=round(wasted),
        capacity_tokens=pool.size * size,
        shared_tokens=(blocks - (held - idle)) * size,
    )


def work_paper(scheduler: Vllm02Scheduler, step: Vllm02Step, padded: bool) -> Work:
    """A step of the paper's vLLM, which has no padding: all its tokens are one sequence (§5.4.3)."""
    return work_02(scheduler, step, padded=False)


def work_06(scheduler: Vllm06Scheduler, step: Vllm06Step, padded: bool) -> Work:
    """A step of vLLM 0.6."""
    prefill: list[tuple[int, int]] = []
    decodes = context = 0
    for request, tokens in step.scheduled.items():
        end = request.computed + tokens
        fresh = tokens - step.cached.get(request, 0)
        if fresh == 1 and end > 1:  # one token on a context costs what a decode costs, be it a prompt's last chunk
            decodes += 1
            context += end
        else:
            prefill.append((fresh, end - fresh))
    size, pool = scheduler.config.block_size, scheduler.memory.gpu
    held, blocks = pool.size - pool.free_blocks, sum(len(r.blocks) for r in scheduler.running)
    return Work(
        Iteration(tuple(prefill), decodes, context, len(step.samples)) if step.scheduled else None,
        [r.request.id for r in step.samples],
        admitted=[r.request.id for r in step.new],
        preempted=[r.request.id for r in step.preempted],
        ignored=[r.request.id for r in step.ignored],
        cached={r.request.id: step.cached.get(r, 0) for r in step.new},
        swap_out=len(step.swap_out),
        swap_in=len(step.swap_in),
        running=len(scheduler.running),
        waiting=len(scheduler.waiting) + len(scheduler.swapped),
        used_tokens=held * size,
        wasted_tokens=blocks * size - sum(r.filled for r in scheduler.running),  # blocks that are shared are full
        capacity_tokens=pool.size * size,
        shared_tokens=(blocks - held) * size,
        adapter_loads=step.loads,
        adapter_copies=step.copies,
    )


def work_v1(scheduler: V1Scheduler, step: V1Step, padded: bool) -> Work:
    """A step of today's vLLM."""
    prefill: list[tuple[int, int]] = []
    decodes = context = 0
    for request, tokens in step.scheduled.items():
        end = request.computed
        if tokens == 1 and end > 1:  # one token on a context costs what a decode costs, be it a prompt's last chunk
            decodes += 1
            context += end
        else:
            prefill.append((tokens, end - tokens))
    size, groups = scheduler.config.block_size, scheduler.config.groups
    usable = scheduler.pool.size - 1
    held, blocks = usable - scheduler.pool.free_blocks, sum(map(scheduler.held_of, scheduler.running))
    return Work(
        Iteration(tuple(prefill), decodes, context, len(step.samples)) if step.scheduled else None,
        [r.request.id for r in step.samples],
        admitted=[r.request.id for r in step.new],
        preempted=[r.request.id for r in step.preempted],
        cached={r.request.id: step.cached[r] for r in step.new},
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        used_tokens=held * size,
        # Blocks that are shared are full: what is not filled is each request's own.
        wasted_tokens=groups * sum(scheduler.slots_of(r) * size - r.computed for r in scheduler.running),
        capacity_tokens=usable * size,
        shared_tokens=(blocks - held) * size,
        adapter_loads=step.loads,
        adapter_copies=step.copies,
    )


def work_contiguous(scheduler: OrcaScheduler | FasterTransformerScheduler, step: ContiguousStep, padded: bool) -> Work:
    """A step of Orca or FasterTransformer."""
    use, slots = memory_use(scheduler), scheduler.config.num_slots
    return Work(
        step.iteration if step.scheduled else None,
        emits=[r.request.id for r in step.scheduled if not r.finished],
        admitted=[r.request.id for r in step.new],
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        used_tokens=round(slots * use.held),
        wasted_tokens=round(slots * (use.held - use.used)),
        capacity_tokens=slots,
    )
