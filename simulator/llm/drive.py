"""`drive`: run a scheduler without a clock, one iteration at a time, and record every decision.

It exists to compare a policy with the real scheduler step by step: both must decide alike on the same requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from ...errors import InputError
from .memory.contiguous import ContiguousConfig
from .policy.catalogue import POLICIES, adapters_cannot, near, policy_config, policy_named
from .policy.request import LLMRequest
from .policy.sarathi import SarathiConfig
from .policy.vllm02 import PagedConfig, Vllm02Scheduler
from .policy.vllm06 import Vllm06Config, Vllm06Scheduler
from .policy.vllm_v1 import V1Config, V1Scheduler, V1Step
from .policy.work import work_02, work_06, work_contiguous, work_paper, work_v1

__all__ = ["drive"]

MAX_STEPS = 1_000_000
"""Default limit of `drive`: so many steps are no comparison that a person reads, but a policy that never ends."""

Record = dict[str, Any]


def drive(
    policy: str,
    config: PagedConfig | Vllm06Config | V1Config | SarathiConfig | ContiguousConfig | Mapping[str, Any],
    requests: Iterable[LLMRequest | Mapping[str, Any]],
    *,
    max_steps: int = MAX_STEPS,
) -> list[Record]:
    """Run a scheduling policy until every request is finished.

    Parameters
    ----------
    policy : str
        ``"vllm-paper"`` (the vLLM paper's), ``"vllm-0.2"`` (0.2.7), ``"vllm-0.6"`` (0.6.6, the last of the first
        engine), ``"vllm-v1"`` (today's), ``"sarathi"`` (Sarathi-Serve's), one of the paper's baselines, ``"orca-max"``,
        ``"orca-pow2"``, ``"orca-oracle"``, ``"fastertransformer"``, or a policy of your own that is in `POLICIES`: its
        records are those of the family whose steps it has.
    config : mapping, PagedConfig, Vllm06Config, V1Config, SarathiConfig or ContiguousConfig
        Engine arguments, by vLLM's own names; of the baselines ``num_slots, max_model_len, max_num_seqs``.
    requests : iterable of mapping or LLMRequest
        ``id, arrive_step, prompt, output, best_of=1, priority=0, tokens=None, lora=None, cache_salt=None``. A request
        arrives before the decision of its step; requests of one step arrive in the order given.
    max_steps : int
        Raise rather than go on beyond this many.

    Returns
    -------
    list of dict
        One record per step, read right after its decision. ``vllm-paper`` and ``vllm-0.2``: ``step, kind, scheduled,
        num_batched_tokens, swap_out, swap_in, copies, ignored, waiting, running, swapped, free_gpu, free_cpu,
        finished``. ``vllm-0.6``, to which the number of the step is the time: the same but ``kind, copies``, with
        ``scheduled`` a mapping from id to tokens, prompts first, and ``prompts`` (how many), ``cached`` (tokens of
        these that the prefix cache holds), ``preempted``. ``vllm-v1`` and ``sarathi``: ``step, scheduled, preempted,
        running, waiting, free_blocks, new, new_computed, finished``. The baselines: ``step, kind, scheduled,
        num_batched_tokens, waiting, running, slots (id -> slots held), free_slots, finished``. ``finished`` lists the
        requests that the step finishes. Under ``pipeline_parallel_size`` several steps are under way, those without
        work included: one is completed when as many are decided as may be.

    Raises
    ------
    InputError
        On an unknown policy, option or field, a request that can never run, or two of one id.
    """
    found = policy_named(policy)
    most: Any = max_steps
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InputError(f"max_steps: expected an integer >= 1 (got {most!r})")
    given: Any = requests
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"requests: expected an iterable of mappings or LLMRequest (got {type(given).__name__})")
    arrivals = [_request(r) for r in requests]
    seen: set[str | int] = set()
    for request in arrivals:
        if request.id in seen:
            raise InputError(f"requests: two have the id {request.id!r}")
        seen.add(request.id)
    arrivals.sort(key=lambda r: r.arrival)  # stable: requests of one step keep the order given
    doors = {
        work_02: _drive_02,
        work_paper: _drive_02,
        work_06: _drive_06,
        work_v1: _drive_v1,
        work_contiguous: _drive_contiguous,
    }
    door = doors.get(found.work)
    if door is None:
        raise InputError(f"policy: {policy!r}: drive records steps that {', '.join(w.__name__ for w in doors)} read")
    return door(policy, config, arrivals, max_steps)


def _drive_02(policy: str, config: Any, arrivals: list[LLMRequest], max_steps: int) -> list[Record]:
    options = policy_config(POLICIES[policy].config, config)
    _check(policy, options, arrivals)
    scheduler: Vllm02Scheduler = POLICIES[policy].scheduler(options)
    records: list[Record] = []
    for step in _steps(scheduler, arrivals, max_steps):
        decision = scheduler.schedule()
        if decision.kind == "idle" and not decision.ignored and scheduler.swapped:
            group = scheduler.swapped[0]
            raise InputError(
                f"request {group.request.id!r}: swapped out, and the whole pool of {options.num_gpu_blocks} blocks has "
                f"no room for its {len(scheduler.memory.held(group))} and one more for each of its sequences; raise "
                "num_gpu_blocks"
            )
        record = {
            "step": step,
            "kind": decision.kind,
            "scheduled": [g.request.id for g in decision.scheduled],
            **_of_both(scheduler, decision),
            "copies": len(decision.copies),
        }
        record["finished"] = [g.request.id for g in scheduler.complete(decision)]
        records.append(record)
    return records


def _drive_06(policy: str, config: Any, arrivals: list[LLMRequest], max_steps: int) -> list[Record]:
    options = policy_config(POLICIES[policy].config, config)
    _check(policy, options, arrivals)
    scheduler: Vllm06Scheduler = POLICIES[policy].scheduler(options)
    records: list[Record] = []
    for step in _steps(scheduler, arrivals, max_steps):
        decision = scheduler.schedule(float(step))
        if not (decision.scheduled or decision.preempted or decision.ignored or scheduler.running):
            stuck = (scheduler.swapped or scheduler.waiting)[:1]
            if stuck:
                raise InputError(
                    f"request {stuck[0].request.id!r}: its {stuck[0].length} tokens fit neither the step nor the pool, "
                    "with nothing else running; raise max_num_batched_tokens or num_gpu_blocks"
                )
        record = {
            "step": step,
            "scheduled": {r.request.id: tokens for r, tokens in decision.scheduled.items()},
            "prompts": decision.prompts,
            "cached": {r.request.id: tokens for r, tokens in decision.cached.items()},
            **_of_both(scheduler, decision),
            "preempted": [r.request.id for r in decision.preempted],
        }
        record["finished"] = [r.request.id for r in scheduler.complete(decision)]
        records.append(record)
    return records


def _of_both(scheduler: Any, decision: Any) -> Record:
    """What the steps of both schedulers of vLLM's first engine have in common."""
    listed = {name: getattr(scheduler, name) for name in ("waiting", "running", "swapped")}
    return {
        "num_batched_tokens": decision.num_batched_tokens,
        "swap_out": len(decision.swap_out),
        "swap_in": len(decision.swap_in),
        **{name: [r.request.id for r in those] for name, those in {"ignored": decision.ignored, **listed}.items()},
        "free_gpu": scheduler.memory.gpu.free_blocks,
        "free_cpu": scheduler.memory.cpu.free_blocks,
    }


def _drive_v1(policy: str, config: Any, arrivals: list[LLMRequest], max_steps: int) -> list[Record]:
    options = policy_config(POLICIES[policy].config, config)
    _check(policy, options, arrivals)
    scheduler: V1Scheduler = POLICIES[policy].scheduler(options)
    records: list[Record] = []
    deep = options.batches if isinstance(options, V1Config) and options.pipeline_parallel_size > 1 else 1
    flying: deque[tuple[V1Step, Record]] = deque()
    for step in _steps(scheduler, arrivals, max_steps):
        decision = scheduler.schedule()
        if not (decision.scheduled or decision.preempted or scheduler.running) and scheduler.waiting:
            stuck = scheduler.waiting[0]
            raise InputError(
                f"request {stuck.request.id!r}: its {stuck.length} tokens fit neither the step nor the pool, with "
                "nothing else running; raise max_num_batched_tokens or num_blocks"
            )
        record = {
            "step": step,
            "scheduled": {r.request.id: tokens for r, tokens in decision.scheduled.items()},
            "preempted": [r.request.id for r in decision.preempted],
            "running": [r.request.id for r in scheduler.running],
            "waiting": [r.request.id for r in scheduler.waiting],
            "free_blocks": scheduler.pool.free_blocks,
            "new": [r.request.id for r in decision.new],
            "new_computed": {r.request.id: decision.cached[r] for r in decision.new},
            "finished": [],
        }
        records.append(record)
        flying.append((decision, record))
        # As vLLM's engine (`step_with_batch_queue`): decide until as many steps are under way as may be.
        if len(flying) == deep:
            done, its = flying.popleft()
            its["finished"] = [r.request.id for r in scheduler.complete(done)]
    return records


def _drive_contiguous(policy: str, config: Any, arrivals: list[LLMRequest], max_steps: int) -> list[Record]:
    options = policy_config(POLICIES[policy].config, config)
    _check(policy, options, arrivals)
    scheduler = POLICIES[policy].scheduler(options)
    records: list[Record] = []
    for step in _steps(scheduler, arrivals, max_steps):
        decision = scheduler.schedule()
        slots = {r.request.id: r.slots for r in scheduler.running}
        record = {
            "step": step,
            "kind": decision.kind,
            "scheduled": [r.request.id for r in decision.scheduled],
            "num_batched_tokens": decision.num_batched_tokens,
            "waiting": [r.request.id for r in scheduler.waiting],
            "running": [r.request.id for r in scheduler.running],
            "slots": slots,
            "free_slots": options.num_slots - sum(slots.values()),
        }
        record["finished"] = [r.request.id for r in scheduler.complete(decision)]
        records.append(record)
    return records


def _steps(scheduler: Any, arrivals: list[LLMRequest], max_steps: int) -> Iterable[int]:
    """Steps until nothing is left, with what arrives before each added."""
    step, arrived = 0, 0
    while True:
        while arrived < len(arrivals) and arrivals[arrived].arrival <= step:
            scheduler.add(arrivals[arrived])
            arrived += 1
        swapped = getattr(scheduler, "swapped", ())
        if arrived == len(arrivals) and not (scheduler.waiting or scheduler.running or swapped):
            return
        if step >= max_steps:
            raise InputError(f"drive: {max_steps} steps did not finish the requests; raise max_steps")
        yield step
        step += 1


def _request(given: LLMRequest | Mapping[str, Any]) -> LLMRequest:
    if isinstance(given, LLMRequest):
        return given
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"requests: expected mappings or LLMRequest (got {given!r})")
    said = dict(given)
    known = ["id", "arrive_step", "prompt", "output", "best_of", "priority", "tokens", "lora", "cache_salt"]
    for name in said:
        if name not in known:
            raise InputError(f"requests: unknown field {name!r}{near(name, known)}")
    missing = [name for name in ("id", "prompt", "output") if name not in said]
    if missing:
        raise InputError(f"requests: a request without {missing[0]} (got {given})")
    tokens = said.pop("tokens", None)
    if tokens is not None:
        tokens = _token_ids(said["id"], tokens)
    return LLMRequest(arrival=said.pop("arrive_step", 0), tokens=tokens, **said)


def _token_ids(name: Any, given: Any) -> tuple[int, ...]:
    try:
        return tuple(map(index, given))
    except TypeError:
        raise InputError(
            f"request {name!r}: tokens: expected the prompt's token ids, integers (got {given!r})"
        ) from None


def _check(policy: str, options: Any, arrivals: list[LLMRequest]) -> None:
    for request in arrivals:
        why = POLICIES[policy].fatal(options, request)
        if request.lora is not None:
            why = adapters_cannot(policy, options) or why
        if why is not None:
            raise InputError(f"request {request.id!r}: {why}")
