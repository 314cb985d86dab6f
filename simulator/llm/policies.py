"""`POLICIES`: every scheduler by name, with what an engine must know to run it: its options, its limits, its steps."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from ...errors import InputError
from ...profiles.llm.iteration import Iteration
from .accounting import memory_use
from .contiguous import ContiguousConfig, ContiguousStep
from .fastertransformer import FasterTransformerScheduler, fastertransformer_cannot
from .orca import RESERVES, OrcaScheduler, orca_cannot
from .request import LLMRequest, Status
from .vllm02 import Vllm02Config, Vllm02Scheduler, Vllm02Step
from .vllm_v1 import V1Config, V1Scheduler, V1Step

__all__ = ["POLICIES", "Policy", "Work", "near", "policy_config", "policy_named"]


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
        Requests that run for the first time, that lost their memory, and that never run (again).
    cached : dict
        Of those admitted, prompt tokens that a prefix cache held.
    swap_out, swap_in, copies : int
        Blocks to move and to copy first.
    running, waiting : int
        Requests that hold device memory, and that wait for it (swapped ones included).
    used_tokens, wasted_tokens : int
        Token slots of device memory that are held, and those of them that hold no token.
    capacity_tokens : int
        Token slots in all.
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


def _one(config: Any) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Policy:
    """A scheduler that engines can run.

    Its objects have the life cycle ``add(LLMRequest)``, ``schedule() -> step``, ``complete(step) -> finished``, where
    each thing that finished has the `LLMRequest` as its `request`.

    Parameters
    ----------
    config : type
        Frozen dataclass of its options.
    scheduler : callable
        Options -> a fresh scheduler.
    work : callable
        (scheduler, step, padded) -> what the step asks for; called between ``schedule`` and ``complete``. `padded`:
        whether padding counts as computed.
    busy : callable
        Scheduler -> whether requests are left.
    cannot : callable
        (options, request) -> why the request can never run to its end, or None.
    fatal : callable
        (options, request) -> why the policy could not go on at all with this request, or None.
    in_flight : callable
        Options -> steps that are decided and not completed, at most.
    """

    config: type[Any]
    scheduler: Callable[[Any], Any]
    work: Callable[[Any, Any, bool], Work]
    busy: Callable[[Any], bool]
    cannot: Callable[[Any, LLMRequest], str | None]
    fatal: Callable[[Any, LLMRequest], str | None]
    in_flight: Callable[[Any], int] = _one


def policy_named(name: str) -> Policy:
    """Look a policy up.

    Raises
    ------
    InputError
        On an unknown name.
    """
    if name not in POLICIES:
        raise InputError(f"policy: unknown policy {name!r}; expected one of {', '.join(POLICIES)}")
    return POLICIES[name]


def policy_config(kind: type[Any], given: Any) -> Any:
    """Options of a policy from themselves or a mapping.

    Raises
    ------
    InputError
        On something else, an unknown or a missing option.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"config: expected a mapping or {kind.__name__} (got {type(given).__name__})")
    known = [f.name for f in fields(kind)]
    for name in given:
        if name not in known:
            raise InputError(f"config: unknown option {name!r}{near(str(name), known)}")
    try:
        return kind(**given)
    except TypeError as error:
        raise InputError(f"config: {str(error).partition(') ')[2] or error}") from None


def near(name: str, known: list[str]) -> str:
    """The end of a message on an unknown name: the one that was meant, or all that are known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(known)}"


def _cannot_02(config: Vllm02Config, request: LLMRequest) -> str | None:
    limit = min(config.max_model_len, config.token_budget)
    if request.prompt > limit:
        return (
            f"its prompt of {request.prompt} tokens is above the {limit} that max_model_len and "
            "max_num_batched_tokens allow"
        )
    if request.prompt + request.output > config.max_model_len:
        return _too_long(request, config.max_model_len)
    # A group decodes only with one block more free than it holds; alone and preempted, it must fit a prompt again.
    need = -(-(request.prompt + request.output - 1) // config.block_size)
    room = config.num_gpu_blocks - int(config.watermark * config.num_gpu_blocks)
    if need > room:
        return f"needs {need} blocks, num_gpu_blocks {config.num_gpu_blocks} less the watermark leaves {room}"
    return None


def _fatal_02(config: Vllm02Config, request: LLMRequest) -> str | None:
    if request.best_of > config.max_num_seqs:
        return f"best_of {request.best_of} is above max_num_seqs {config.max_num_seqs}: it would wait for ever"
    return None


def _cannot_v1(config: V1Config, request: LLMRequest) -> str | None:
    if request.prompt < config.max_model_len < request.prompt + request.output:
        return _too_long(request, config.max_model_len)
    return _fatal_v1(config, request)


def _fatal_v1(config: V1Config, request: LLMRequest) -> str | None:
    need = -(-min(request.prompt + request.output - 1, config.max_model_len) // config.block_size)
    if request.prompt >= config.max_model_len:
        return (
            f"its prompt of {request.prompt} tokens leaves no room for an output in max_model_len "
            f"{config.max_model_len}"
        )
    if need > config.num_blocks - 1:
        return f"needs {need} blocks, num_blocks {config.num_blocks} leaves {config.num_blocks - 1}"
    if not config.enable_chunked_prefill and request.prompt > config.max_num_batched_tokens:
        return (
            f"its prompt of {request.prompt} tokens does not fit max_num_batched_tokens "
            f"{config.max_num_batched_tokens} whole; enable chunked prefill"
        )
    if request.best_of != 1:
        return "best_of: today's vLLM takes samples as requests of their own"
    return None


def _too_long(request: LLMRequest, longest: int) -> str:
    return (
        f"its prompt of {request.prompt} and output of {request.output} tokens are longer than max_model_len {longest}"
    )


def _work_02(scheduler: Vllm02Scheduler, step: Vllm02Step, padded: bool) -> Work:
    iteration, size, tables, wasted = None, scheduler.config.block_size, scheduler.memory.tables, 0.0
    if step.kind == "prompt":
        lengths = [group.having(Status.RUNNING)[0].length for group in step.scheduled]
        width = max(lengths)
        iteration = Iteration(tuple((width if padded else n, 0) for n in lengths), outputs=len(lengths))
    running = context = 0
    for group in scheduler.running:
        for sequence in group.sequences:
            if sequence.status is Status.RUNNING:
                length, table = sequence.length, tables[sequence.number]
                running += 1
                context += length
                if len(table) * size > length:  # in a prompt step the newest token may have no slot yet
                    wasted += (len(table) * size - length) / table[-1].shares
    if step.kind == "decode" and running:  # a decode step schedules all that run
        iteration = Iteration((), running, context, running)
    pool = scheduler.memory.gpu
    return Work(
        iteration,
        emits=[group.request.id for group in step.scheduled],
        admitted=[g.request.id for g in step.scheduled] if step.kind == "prompt" else [],
        preempted=[group.request.id for group in step.preempted],
        ignored=[group.request.id for group in step.ignored],
        swap_out=len(step.swap_out),
        swap_in=len(step.swap_in),
        copies=len(step.copies),
        running=len(scheduler.running),
        waiting=len(scheduler.waiting) + len(scheduler.swapped),
        used_tokens=(pool.size - pool.free_blocks) * size,
        wasted_tokens=round(wasted),
        capacity_tokens=pool.size * size,
    )


def _work_v1(scheduler: V1Scheduler, step: V1Step, padded: bool) -> Work:
    prefill: list[tuple[int, int]] = []
    decodes = context = 0
    for request, tokens in step.scheduled.items():
        end = request.computed
        if tokens == 1 and end > 1:
            decodes += 1
            context += end
        else:
            prefill.append((tokens, end - tokens))
    size = scheduler.config.block_size
    usable = scheduler.pool.size - 1
    return Work(
        Iteration(tuple(prefill), decodes, context, len(step.samples)) if step.scheduled else None,
        [r.request.id for r in step.samples],
        admitted=[r.request.id for r in step.new],
        preempted=[r.request.id for r in step.preempted],
        cached={r.request.id: step.cached[r] for r in step.new},
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        used_tokens=(usable - scheduler.pool.free_blocks) * size,
        # Blocks that are shared are full: what is not filled is each request's own.
        wasted_tokens=sum(len(r.blocks) * size - r.computed for r in scheduler.running),
        capacity_tokens=usable * size,
    )


def _work_contiguous(scheduler: OrcaScheduler | FasterTransformerScheduler, step: ContiguousStep, padded: bool) -> Work:
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


def _busy_02(scheduler: Vllm02Scheduler) -> bool:
    return bool(scheduler.waiting or scheduler.running or scheduler.swapped)


def _busy_v1(scheduler: V1Scheduler | OrcaScheduler | FasterTransformerScheduler) -> bool:
    return bool(scheduler.waiting or scheduler.running)


def _in_flight_v1(config: V1Config) -> int:
    return 2 if config.async_scheduling else 1


POLICIES: dict[str, Policy] = {
    "vllm-0.2": Policy(Vllm02Config, Vllm02Scheduler, _work_02, _busy_02, _cannot_02, _fatal_02),
    "vllm-v1": Policy(V1Config, V1Scheduler, _work_v1, _busy_v1, _cannot_v1, _fatal_v1, _in_flight_v1),
    **{
        f"orca-{reserve}": Policy(
            ContiguousConfig,
            partial(OrcaScheduler, reserve=reserve),
            _work_contiguous,
            _busy_v1,
            partial(orca_cannot, reserve=reserve),
            partial(orca_cannot, reserve=reserve),
        )
        for reserve in RESERVES
    },
    "fastertransformer": Policy(
        ContiguousConfig,
        FasterTransformerScheduler,
        _work_contiguous,
        _busy_v1,
        fastertransformer_cannot,
        fastertransformer_cannot,
    ),
}
"""Name -> policy."""
