"""What one worker does to measure one model: it times layers in their place, alone and beside others, and whole stages.

One round of each kind follows the other, so that a machine that slows down for a while slows all kinds alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING

from ...kernels.sizes import output_bytes
from ...kernels.specs import ModelSpec, hidden_shape
from ...kernels.timing import Lap
from ..config import ParallelConfig
from .comm import Span, allreduce_laps, p2p_spans
from .pool import Worker

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["Chain", "Samples", "StageRun", "forget_models", "layer_weights", "measure_model"]

REQUESTS = 2
SMALL_BYTES = 4096
"""The message that fixes the latency end of a link's line; the other one is what the model really sends."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers of a model that every worker builds and times one after the other.

    Parameters
    ----------
    spec : ModelSpec
        The model.
    numbers : sequence of int
        The layers: all of them, or one of each kind if the whole does not fit on a device.
    ops : sequence of int
        Intra-op degrees that they are built for.
    seed : int
        Seed of weights and inputs.
    """

    spec: ModelSpec
    numbers: Sequence[int]
    ops: Sequence[int]
    seed: int


@dataclass(frozen=True, slots=True)
class StageRun:
    """Stages to run whole: a configuration and the first layer of each of its stages."""

    config: ParallelConfig
    starts: tuple[int, ...]


@dataclass(slots=True)
class Samples:
    """Everything one worker timed for one model.

    Parameters
    ----------
    layers : dict
        (op, batch) -> rows, one per round, of seconds per layer of the chain, beside busy neighbours,
        collectives left out.
    idle : dict
        batch -> rows of the same at op degree 1, all other workers idle; filled on worker 0.
    stages : dict
        (run, batch) -> laps of this worker's stage, one per request, collectives included.
    sends, receives : dict
        (run, batch) -> (begin, end) on the clock that all workers share, one per request; empty where this
        worker's stage does not send or receive.
    p2p, allreduce : dict
        Bytes -> (begin, end), and (op degree, bytes) -> laps, one per message timed by itself.
    """

    layers: dict[tuple[int, int], list[list[Lap]]] = field(default_factory=dict)
    idle: dict[int, list[list[Lap]]] = field(default_factory=dict)
    stages: dict[tuple[StageRun, int], list[Lap]] = field(default_factory=dict)
    sends: dict[tuple[StageRun, int], list[Span]] = field(default_factory=dict)
    receives: dict[tuple[StageRun, int], list[Span]] = field(default_factory=dict)
    p2p: dict[int, list[Span]] = field(default_factory=dict)
    allreduce: dict[tuple[int, int], list[Lap]] = field(default_factory=dict)

    def joined(self, later: Samples) -> Samples:
        """These samples followed by `later` ones."""
        out = Samples()
        for name in (f.name for f in fields(self)):
            target = getattr(out, name)
            for part in (getattr(self, name), getattr(later, name)):
                for key, rows in part.items():
                    target.setdefault(key, []).extend(rows)
        return out


class _Collective:
    """An all-reduce that can be switched off: off while layers are timed, on while whole stages run."""

    def __init__(self) -> None:
        self.add_up: Callable[[Tensor], Tensor] | None = None

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor if self.add_up is None else self.add_up(tensor)


@dataclass(slots=True)
class _Model:
    """One worker's share of a model at one intra-op degree."""

    layers: list[nn.Module]
    collective: _Collective


def _model(worker: Worker, chain: Chain, op: int) -> _Model:
    from ...kernels.transformer import build_layers

    key = (chain.spec.shape, op, tuple(chain.numbers))
    if key not in worker.cache:
        collective = _Collective()
        layers = [
            build_layers(
                chain.spec, chain.seed, worker.device, worker.rank % op, op, collective if op > 1 else None,
                first=i, last=i + 1,
            )[0]
            for i in chain.numbers
        ]  # fmt: skip
        worker.cache[key] = _Model(layers, collective)
    return worker.cache[key]


def forget_models(worker: Worker) -> None:
    """Free the models that `measure_model` keeps between its calls."""
    worker.cache.clear()
    if worker.device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()


def layer_weights(worker: Worker, *, spec: ModelSpec, ops: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Op degree -> weight bytes of each layer on the fullest device."""
    from ...kernels.transformer import weight_bytes

    return {op: weight_bytes(spec, op) for op in ops}


def measure_model(
    worker: Worker,
    *,
    chain: Chain,
    batches: Sequence[int],
    runs: Sequence[StageRun],
    idle: bool,
    seconds: float,
    min_rounds: int,
) -> Samples:
    """Measure one model for about `seconds`; called on all workers at once with the same arguments.

    Parameters
    ----------
    chain : Chain
        The layers.
    batches : sequence of int
        Batch sizes.
    runs : sequence of StageRun
        Stages to run whole; needs all layers in the chain, and ``config.n_devices`` workers each.
    idle : bool
        Whether to time the layers with idle neighbours too.
    seconds : float
        Time to spend; every batch size gets at least `min_rounds` rounds however long they take.
    """
    import torch

    out = Samples()
    spent = dict.fromkeys(batches, 0.0)
    rounds = dict.fromkeys(batches, 0)
    start = time.perf_counter()
    with torch.inference_mode():
        models = {op: _model(worker, chain, op) for op in chain.ops}
        steps = {b: _steps(worker, chain, models, b, runs, idle) for b in batches}
        while True:
            late = time.perf_counter() - start > seconds
            due = [b for b in batches if not late or rounds[b] < min_rounds]
            # Batch sizes that lack rounds first, then the one that has had the least time: large batches get fewer
            # rounds.
            pick = min(due, key=lambda b: (rounds[b] >= min_rounds, spent[b])) if due else 0
            batch = worker.agree(pick)
            if batch == 0:
                return out
            began = time.perf_counter()
            for step in steps[batch]:
                worker.barrier()
                step(out)
            spent[batch] += time.perf_counter() - began
            rounds[batch] += 1


def _steps(
    worker: Worker, chain: Chain, models: dict[int, _Model], batch: int, runs: Sequence[StageRun], idle: bool
) -> list[Callable[[Samples], None]]:
    """What one round at `batch` does, in order; the workers meet at a barrier before each step."""
    from ...kernels.timing import time_chain
    from ...kernels.transformer import make_hidden, make_input

    spec = chain.spec
    tokens = make_input(spec, batch, chain.seed, worker.device)
    for model in models.values():
        time_chain(model.layers, tokens, worker.device)  # warm-up: buffers are allocated, kernels chosen

    def timed(op: int) -> list[Lap]:
        return time_chain(models[op].layers, tokens, worker.device)

    def beside(op: int) -> Callable[[Samples], None]:
        return lambda out: out.layers.setdefault((op, batch), []).append(timed(op))

    def alone(out: Samples) -> None:
        if worker.rank == 0:
            out.idle.setdefault(batch, []).append(timed(1))

    def messages(out: Samples) -> None:
        hidden = make_hidden(spec, batch, chain.seed, worker.device)
        for n_bytes in (SMALL_BYTES, batch * output_bytes(spec, 0)):
            for op, model in models.items():
                work = partial(model.layers[1], hidden)
                if op == min(models):
                    out.p2p.setdefault(n_bytes, []).extend(p2p_spans(worker, n_bytes, work))
                if op > 1:
                    laps = allreduce_laps(worker, op, n_bytes, work)
                    out.allreduce.setdefault((op, n_bytes), []).extend(laps)

    steps = [beside(op) for op in models]
    if worker.size > 1:
        steps.append(messages)
    for run in runs:
        steps.append(_stage_step(worker, chain, models[run.config.op], batch, run))
    return [*steps, alone] if idle and 1 in models else steps


def _stage_step(worker: Worker, chain: Chain, model: _Model, batch: int, run: StageRun) -> Callable[[Samples], None]:
    """Run `run` once per round on as many groups of workers as there are: `REQUESTS` requests through its stages."""
    import torch
    import torch.distributed as dist

    from ...kernels.collective import all_reduce_over
    from ...kernels.timing import synchronize
    from ...kernels.transformer import Stage, make_stage_input

    spec, config, key = chain.spec, run.config, (run, batch)
    op, pp = config.op, config.pp
    add_up = all_reduce_over(worker.groups_of(op)) if op > 1 else None
    if worker.rank // config.n_devices >= worker.size // config.n_devices:
        return lambda out: None  # left over: fewer workers than the configuration has devices
    k = worker.rank % config.n_devices // op
    first, last = (*run.starts, spec.n_layers)[k : k + 2]
    stage = Stage(spec, first, last, model.layers[first:last])
    given = make_stage_input(spec, first, batch, chain.seed, worker.device)
    buffer = torch.empty(hidden_shape(spec, batch), dtype=getattr(torch, spec.dtype), device=worker.device)

    def step(out: Samples) -> None:
        model.collective.add_up = add_up
        try:
            for _ in range(REQUESTS):
                x = given
                if k > 0:
                    began = time.perf_counter()
                    dist.recv(buffer, worker.rank - op)
                    synchronize(worker.device)
                    out.receives.setdefault(key, []).append((began, time.perf_counter()))
                    x = buffer
                began, had = time.perf_counter(), time.thread_time()
                result = stage(x)
                synchronize(worker.device)
                done, had = time.perf_counter(), time.thread_time() - had
                share = 1.0 if worker.device.startswith("cuda") else min(1.0, had / (done - began))
                out.stages.setdefault(key, []).append(Lap(done - began, share))
                if k < pp - 1:
                    dist.send(result, worker.rank + op)
                    out.sends.setdefault(key, []).append((done, time.perf_counter()))
        finally:
            model.collective.add_up = None

    return step
