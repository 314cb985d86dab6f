"""The job of a measuring worker: rounds of forward passes, passes without stamps as a check, steps of the engine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....profiles.llm.measure_rounds import OURS, Rounds, run_rounds
from ....profiles.llm.measure_sizes import Call
from ....profiles.measure.pool import Worker
from .forward import ForwardTimer, layers_timed

if TYPE_CHECKING:
    from .tables import Plan

__all__ = ["Host", "Measured", "Step", "engine_options", "measure_job", "whole_job"]

CHECKS = 8
"""Calls that are also run without stamps, spread over all sizes: a few suffice for one median."""
POLICIES = ("vllm-v1", "vllm-0.2")
"""Policies that the engine runs."""
MOST, ENOUGH_STEPS, ATTEMPTS = 64, 12, 12
"""Largest batch, undisturbed steps of each size, and tries, for the host times. Guesses: a dozen steps give a median,
and the line through them holds beyond 64 sequences."""
PROMPT, OUTPUT, GAP_S = 24, 32, 2e-3
"""Tokens of the requests that the engine's host times are taken from, and seconds between them: short ones that come
one by one, so that there are steps with and without a newcomer."""


class Step(NamedTuple):
    """Host time between two passes of the model: from the end of one to the beginning of the next.

    Parameters
    ----------
    sequences : int
        Sequences of the pass before.
    came : int
        Requests that arrived in between.
    tokens : int
        Tokens of the next pass.
    seconds : float
        Seconds between the passes.
    """

    sequences: int
    came: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Host:
    """Host times of the engine between passes of the model.

    Parameters
    ----------
    same, more : tuple of Step
        Steps before which no request came or left, and steps before which some came.
    launch_s, graph_launch_s : float
        Host time to queue one pass's kernels, and one graph; 0 on a CPU, where running is launching.
    cuda_graphs : bool
        Whether decodes run as graphs.
    graph_tokens : int
        Largest captured size.
    on_gpu : bool
        Whether the model ran on a GPU.
    """

    same: tuple[Step, ...]
    more: tuple[Step, ...]
    launch_s: float = 0.0
    graph_launch_s: float = 0.0
    cuda_graphs: bool = False
    graph_tokens: int = 0
    on_gpu: bool = False

    @property
    def steps(self) -> int:
        """Steps that were taken."""
        return len(self.same) + len(self.more)


@dataclass(frozen=True, slots=True)
class Measured:
    """What a worker found.

    Parameters
    ----------
    rounds : Rounds
        Parts of every call, keyed by (table, call).
    layers : int
        Layers that were timed.
    hosts : dict of str to Host
        Policy -> the engine's host times.
    sum_over_whole : float
        Sum of the parts over the pass run without stamps, median over some calls.
    """

    rounds: Rounds
    layers: int
    hosts: dict[str, Host]
    sum_over_whole: float


def measure_job(worker: Worker, plan: Plan, calls: list[tuple[str, Call]]) -> Measured:
    """Measure on this worker; all workers of a tensor-parallel model do the same at the same time."""
    timer = _timer(worker, plan, [call for _, call in calls])
    order = {call: None for _, call in calls}

    def once(key: Any) -> dict[str, float]:
        kind, call = key
        return {"whole": timer.whole(call)} if kind == "whole" else timer.once(call)

    # A call that is in several tables is timed once.
    step = max(1, len(order) // CHECKS)
    check = list(order)[::step]
    keys = [*(("parts", call) for call in order), *(("whole", call) for call in check)]
    on_gpu = timer.ledger.on_gpu
    wall, core = time.perf_counter(), time.thread_time()
    found = run_rounds(
        keys,
        once,
        rounds=plan.rounds,
        extra=0 if plan.tp > 1 else 2 * plan.rounds,  # all ranks must run the same calls
        seed=plan.seed,
        warmup=[("parts", call) for call in check],
        clock=plan.read_clock,
        core_clock=time.perf_counter if on_gpu else time.thread_time,
    )
    ratio = [
        float(np.median(_sums(timer, found.samples["parts", call].kept())))
        / found.samples["whole", call].median("whole")
        for call in check
    ]
    taken = found.taken
    if plan.clock == "core":  # that clock itself does not see the others
        taken = max(0.0, 1 - (time.thread_time() - core) / (time.perf_counter() - wall))
    by_table = {(table, call): found.samples["parts", call] for table, call in calls}
    hosts = {} if plan.tp > 1 else {policy: _host(plan, timer, policy) for policy in POLICIES}
    return Measured(Rounds(by_table, taken), timer.layers, hosts, float(np.median(ratio)))


def whole_job(worker: Worker, plan: Plan, calls: list[Call], rounds: int) -> list[float]:
    """Median seconds of passes run whole, without stamps; of a timer that is kept from job to job."""
    key = "whole", plan.spec, plan.dtype, plan.block_size, tuple(calls)
    if key not in worker.cache:
        worker.cache[key] = _timer(worker, plan, calls)
    timer: ForwardTimer = worker.cache[key]
    found = run_rounds(
        calls,
        lambda call: {"whole": timer.whole(call)},
        rounds=rounds,
        seed=plan.seed,
        warmup=calls[:1],
        clock=plan.read_clock,
    )
    return [found.samples[call].median("whole") for call in calls]


def _timer(worker: Worker, plan: Plan, calls: list[Call]) -> ForwardTimer:
    from ..engine.options import EngineConfig

    options = EngineConfig(device=plan.device, dtype=plan.dtype, seed=plan.seed, tp=plan.tp)
    add_up = join = None
    if plan.tp > 1:
        add_up, join = _exchanges(worker.groups_of(plan.tp), plan.tp)
    return ForwardTimer(
        plan.spec, calls, options, layers=layers_timed(plan.spec, plan.number_bytes, plan.tp),
        block_size=plan.block_size, clock=plan.read_clock, rank=worker.rank, add_up=add_up, join=join,
    )  # fmt: skip


def _exchanges(group: Any, size: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The collectives of a tensor-parallel engine (`engine.processes.groups`), over this worker's group."""
    import torch
    import torch.distributed as dist

    from ....kernels.collective import all_reduce_over, finish

    def join(own: Any) -> Any:
        every = torch.empty((size, *own.shape), dtype=own.dtype, device=own.device)
        work: Any = dist.all_gather(list(every), own.contiguous(), group=group, async_op=True)  # pyright: ignore
        finish(work, every)
        return torch.cat(list(every), -1)

    return all_reduce_over(group), join


def _sums(timer: ForwardTimer, passes: list[dict[str, float]]) -> list[float]:
    """Seconds of whole passes from their parts."""
    once = ("embedding", "forward_rest", "inputs", "final_layernorm_rows", "lm_head", "sampler")
    layers = timer.layers
    return [
        sum(
            seconds * (1 if part in once else 2 * layers if part == "layernorm" else layers)
            for part, seconds in passed.items()
        )
        for passed in passes
    ]


def engine_options(policy: str, block_size: int, blocks: int, seqs: int, tokens: int, longest: int) -> dict[str, Any]:
    """A policy's options by its own names, without swapping."""
    common = {"block_size": block_size, "max_num_seqs": seqs, "max_model_len": longest}
    if policy == "vllm-0.2":
        return {**common, "num_gpu_blocks": blocks, "num_cpu_blocks": 0, "max_num_batched_tokens": max(tokens, longest)}
    return {**common, "num_blocks": blocks, "max_num_batched_tokens": tokens}


def _host(plan: Plan, timer: ForwardTimer, policy: str) -> Host:
    """Steps of the engine at several batch sizes, without the model's time."""
    from ..engine.engine import LLMEngine
    from ..engine.options import EngineConfig

    options = EngineConfig(device=plan.device, dtype=plan.dtype, seed=plan.seed)
    sizes = [n for n in plan.sizes.sequences if n <= MOST]
    blocks = 4 + 2 * sizes[-1] * -(-(PROMPT + OUTPUT) // plan.block_size)
    config = engine_options(policy, plan.block_size, blocks, sizes[-1], PROMPT * sizes[-1], PROMPT + OUTPUT + 1)
    on_gpu = timer.ledger.on_gpu
    same: list[Step] = []
    more: list[Step] = []
    with LLMEngine(plan.spec, policy, config, options=options) as engine:
        model = _Model(engine.runner.run, on_gpu, plan.read_clock)
        engine.runner.run = model
        for _ in range(ATTEMPTS):
            seen = [step.sequences for step in same]
            for size in (n for n in sizes if seen.count(n) < ENOUGH_STEPS):
                found = _steps(engine, model, size)
                same += found[0]
                more += found[1]
        launch = graph = 0.0
        graphs = getattr(engine.runner, "graphs", None) is not None
        if on_gpu:
            launch = timer.launch_seconds(next(iter(plan.sizes.heads())))
            graph = model.queued() if graphs else 0.0
    return Host(tuple(same), tuple(more), launch, graph, graphs, options.graph_sequences if graphs else 0, on_gpu)


def _steps(engine: Any, model: _Model, size: int) -> tuple[list[Step], list[Step]]:
    """The undisturbed steps that serve `size` requests, which come one after another: those between which nobody came
    or went, and those before which some came."""
    from ....simulator.llm.workload.requests import LLMTrace
    from ..engine.serving import serve_trace

    model.passes.clear()
    arrival = [GAP_S * k for k in range(size)]
    serve_trace(engine, LLMTrace(arrival, [PROMPT] * size, [OUTPUT] * size), warmup=False)
    same: list[Step] = []
    more: list[Step] = []
    for one, after in pairwise(model.passes):
        came = after.sequences - one.sequences
        if came >= 0 and (model.on_gpu or after.core - one.core_end >= OURS * (after.begin - one.end)):
            host = after.begin - one.begin - one.seconds() if model.on_gpu else after.begin - one.end
            (more if came else same).append(Step(one.sequences, came, after.tokens, host))
    return same, more


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass of the model within the engine: its batch, and when it began and ended, by both clocks."""

    sequences: int
    tokens: int
    begin: float
    core: float
    end: float
    core_end: float
    events: Any

    def seconds(self) -> float:
        """Device time, on a GPU."""
        first, last = self.events
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3


class _Model:
    """The engine's model, whose passes are noted."""

    def __init__(self, run: Any, on_gpu: bool, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.run, self.on_gpu = run, on_gpu
        self.passes: list[_Pass] = []

    def __call__(self, packed: Any) -> Any:
        begin, core, events = self.clock(), time.thread_time(), None
        if self.on_gpu:
            import torch

            events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            events[0].record()
        logits = self.run(packed)
        if events is not None:
            events[1].record()
        layout = packed.layout
        end = self.clock()
        self.passes.append(_Pass(layout.sequences, layout.tokens, begin, core, end, time.thread_time(), events))
        return logits

    def queued(self) -> float:
        """Median host time to queue a step of decodes, seconds."""
        found = [one.end - one.begin for one in self.passes if one.tokens == one.sequences]
        return float(np.median(found)) if found else 0.0
