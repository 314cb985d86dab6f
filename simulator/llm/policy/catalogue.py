"""`POLICIES`: every scheduler by name, with what an engine must know to run it: its options, its limits, its steps."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

import numpy as np

from ....errors import InputError
from ....reprs import Shown
from ..memory.contiguous import ContiguousConfig
from .fastertransformer import FasterTransformerScheduler, fastertransformer_cannot
from .orca import RESERVES, OrcaScheduler, orca_cannot
from .request import LLMRequest
from .sarathi import SarathiConfig, SarathiScheduler, sarathi_cannot, sarathi_fatal
from .vllm02 import PagedConfig, Vllm02Config, Vllm02Scheduler
from .vllm06 import Vllm06Config, Vllm06Scheduler
from .vllm_paper import VllmPaperConfig, VllmPaperScheduler
from .vllm_v1 import V1Config, V1Scheduler
from .work import Work, work_02, work_06, work_contiguous, work_paper, work_v1

__all__ = ["POLICIES", "Policy", "adapters_cannot", "near", "policy_config", "policy_named"]


def _one(config: Any) -> int:
    return 1


@dataclass(frozen=True, slots=True, repr=False)
class Policy(Shown):
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
    timed : bool
        Whether ``schedule`` takes the time of the decision (s): ``schedule(now)``.
    """

    config: type[Any]
    scheduler: Callable[[Any], Any]
    work: Callable[[Any, Any, bool], Work]
    busy: Callable[[Any], bool]
    cannot: Callable[[Any, LLMRequest], str | None]
    fatal: Callable[[Any, LLMRequest], str | None]
    in_flight: Callable[[Any], int] = _one
    timed: bool = False

    def decide(self, scheduler: Any, now: float) -> Any:
        """The scheduler's next step, decided at some time (s)."""
        return scheduler.schedule(now) if self.timed else scheduler.schedule()


def policy_named(name: str) -> Policy:
    """Look a policy up.

    Raises
    ------
    InputError
        On an unknown name.
    """
    given: Any = name
    if not isinstance(given, str) or name not in POLICIES:
        raise InputError(f"policy: unknown policy {name!r}; expected one of {', '.join(POLICIES)}")
    return POLICIES[name]


def adapters_cannot(policy: str, options: Any) -> str | None:
    """Why a policy can serve no request that has a LoRA adapter, or None."""
    if getattr(options, "max_loras", 0):
        return None
    has = "the engine has no slots for adapters; give max_loras" if hasattr(options, "max_loras") else "has no adapters"
    return f"lora: policy {policy!r}: {has}"


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
    known, options = [f.name for f in fields(kind)], cast("Mapping[str, Any]", given)
    for name in options:
        if name not in known:
            raise InputError(f"config: unknown option {name!r}{near(str(name), known)}")
    # NumPy's numbers are as good as Python's.
    plain: dict[str, Any] = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()
    }
    try:
        return kind(**plain)
    except TypeError as error:
        raise InputError(f"config: {str(error).partition(') ')[2] or error}") from None


def near(name: str, known: list[str]) -> str:
    """The end of a message on an unknown name: the one that was meant, or all that are known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(known)}"


def _cannot_02(config: PagedConfig, request: LLMRequest) -> str | None:
    limit = min(config.max_model_len, config.token_budget)
    if request.prompt > limit:
        return (
            f"its prompt of {request.prompt} tokens is above the {limit} that max_model_len and "
            "max_num_batched_tokens allow"
        )
    if request.prompt + request.output > config.max_model_len:
        return _too_long(request, config.max_model_len)
    # What is preempted alone comes back as a prompt, at the longest of prompt + output - 1 tokens, and that must fit
    # beside the watermark.
    if config.prefix_cannot(request) is not None:
        return None  # `_fatal_02` says it
    own = -(-(request.prompt + request.output - 1) // config.block_size)
    need = own - config.prefix_tokens(request) // config.block_size
    room = config.num_gpu_blocks - int(config.watermark * config.num_gpu_blocks)
    room -= sum(-(-tokens // config.block_size) for tokens in config.prefixes)
    if need > room:
        kept = "the watermark leaves" if not config.prefixes else "the watermark and the reserved prefixes leaves"
        return f"needs {need} blocks, num_gpu_blocks {config.num_gpu_blocks} less {kept} {room}"
    return None


def _fatal_02(config: PagedConfig, request: LLMRequest) -> str | None:
    if request.best_of > config.max_num_seqs:
        return f"best_of {request.best_of} is above max_num_seqs {config.max_num_seqs}: it would wait for ever"
    return config.prefix_cannot(request)


def _cannot_06(config: Vllm06Config, request: LLMRequest) -> str | None:
    if request.prompt > config.prompt_limit:
        return (
            f"its prompt of {request.prompt} tokens is above the {config.prompt_limit} that max_model_len and "
            "max_num_batched_tokens allow"
        )
    if request.prompt + request.output > config.max_model_len:
        return _too_long(request, config.max_model_len)
    # Preempted alone, it comes back with all tokens but the last, and that must fit beside the watermark; what is
    # swapped in has slots ahead, too, and those are moved to the host.
    swaps = config.preemption_mode == "swap"
    need = -(-(request.prompt + request.output - 1 + swaps * config.num_lookahead_slots) // config.block_size)
    room = config.num_gpu_blocks - int(config.watermark * config.num_gpu_blocks)
    if need > room:
        return f"needs {need} blocks, num_gpu_blocks {config.num_gpu_blocks} less the watermark leaves {room}"
    return None


def _fatal_06(config: Vllm06Config, request: LLMRequest) -> str | None:
    if request.best_of != 1:
        return "best_of: vLLM 0.6.6 takes samples as requests of their own"
    if request.lora is not None and not config.max_loras:
        return f"lora {request.lora!r}: the engine has no slots for adapters; give max_loras"
    if request.cache_salt is not None and config.enable_prefix_caching:
        return f"cache_salt {request.cache_salt!r}: vLLM 0.6.6 has none"
    return None


def _cannot_v1(config: V1Config, request: LLMRequest) -> str | None:
    if request.prompt < config.max_model_len < request.prompt + request.output:
        return _too_long(request, config.max_model_len)
    return _fatal_v1(config, request)


def _fatal_v1(config: V1Config, request: LLMRequest) -> str | None:
    # The last token is given and never computed: it needs no slot.
    need = config.whole(min(request.prompt + request.output - 1, config.max_model_len))
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
    if request.lora is not None and not config.max_loras:
        return f"lora {request.lora!r}: the engine has no slots for adapters; give max_loras"
    if request.best_of != 1:
        return "best_of: today's vLLM takes samples as requests of their own"
    return None


def _too_long(request: LLMRequest, longest: int) -> str:
    return (
        f"its prompt of {request.prompt} and output of {request.output} tokens are longer than max_model_len {longest}"
    )


def _busy_02(scheduler: Vllm02Scheduler | Vllm06Scheduler) -> bool:
    return bool(scheduler.waiting or scheduler.running or scheduler.swapped)


def _busy_v1(scheduler: V1Scheduler | OrcaScheduler | FasterTransformerScheduler) -> bool:
    return bool(scheduler.waiting or scheduler.running)


def _in_flight_v1(config: V1Config) -> int:
    return config.batches


POLICIES: dict[str, Policy] = {
    "vllm-paper": Policy(VllmPaperConfig, VllmPaperScheduler, work_paper, _busy_02, _cannot_02, _fatal_02),
    "vllm-0.2": Policy(Vllm02Config, Vllm02Scheduler, work_02, _busy_02, _cannot_02, _fatal_02),
    "vllm-0.6": Policy(Vllm06Config, Vllm06Scheduler, work_06, _busy_02, _cannot_06, _fatal_06, timed=True),
    "vllm-v1": Policy(V1Config, V1Scheduler, work_v1, _busy_v1, _cannot_v1, _fatal_v1, _in_flight_v1),
    "sarathi": Policy(SarathiConfig, SarathiScheduler, work_v1, _busy_v1, sarathi_cannot, sarathi_fatal),
    **{
        f"orca-{reserve}": Policy(
            ContiguousConfig,
            partial(OrcaScheduler, reserve=reserve),
            work_contiguous,
            _busy_v1,
            partial(orca_cannot, reserve=reserve),
            partial(orca_cannot, reserve=reserve),
        )
        for reserve in RESERVES
    },
    "fastertransformer": Policy(
        ContiguousConfig,
        FasterTransformerScheduler,
        work_contiguous,
        _busy_v1,
        fastertransformer_cannot,
        fastertransformer_cannot,
    ),
}
"""Name -> policy."""
