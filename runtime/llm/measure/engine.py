"""`measure_layers`: the layers and host times of a language model, measured on the present device in the engine.

One worker process per device, pinned to its core with one torch thread, as in a real run; calls in shuffled rounds,
medians; passes that others disturbed are left out. See docs/llm-measure.md.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .... import __version__
from ....errors import InputError, install_hint
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.measure_sizes import Call, Sizes
from ....profiles.llm.measured import LayerMeasurement
from ....profiles.measure.device import DeviceFacts, device_facts
from ....profiles.measure.pool import WorkerPool, device_count
from ....profiles.profile import Provenance
from ....reprs import Shown
from .forward import layers_timed
from .job import Measured, measure_job
from .service import in_service
from .tables import Plan, layer_measurement

__all__ = ["DEFAULTS", "MeasureOptions", "Plan", "measure_in", "measure_layers", "plan_measurement"]

Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and what is under way."""

ROUNDS, FAST_ROUNDS = 6, 3
"""Passes of each call: as few as give a median that single disturbances do not move. Guesses; `Noise` says the spread.
"""
FITS = 0.8
"""Share of the free memory that weights (those of the timed layers and the engine's) and KV cache may take; the rest is
for activations. A guess."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest batch, most sequences, and longest mean context that are measured."""

    max_tokens: int
    max_seqs: int
    max_context: int
    dtype: str


DEFAULTS = {"cpu": Limits(256, 16, 512, "float32"), "cuda": Limits(8192, 256, 8192, "bfloat16")}
"""By kind of device: what is measured where nobody says."""


@dataclass(frozen=True, slots=True, repr=False)
class MeasureOptions(Shown):
    """What is measured of a model, where, and how often.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Kind of device.
    dtype : {"float32", "bfloat16", "float16", "float64"}, optional
        Type of weights, activations and KV cache; the device's of `DEFAULTS` without it.
    tp : int
        Tensor-parallel degree; a process for each.
    max_tokens, max_seqs, max_context : int, optional
        Tokens and sequences of the largest batch, and its longest mean context, tokens; the device's of `DEFAULTS`
        without them.
    block_size : int
        Tokens of a KV block.
    seed : int
        Seed of weights and batches.
    fast : bool
        Fewer sizes, and half the passes of each call.
    clock : {"wall", "core"}
        What times are read from: the wall clock, or the processor time of the measuring thread.

    Raises
    ------
    InputError
        On an unknown device or dtype, or a number out of its range.
    """

    device: str = "cpu"
    dtype: str | None = None
    tp: int = 1
    max_tokens: int | None = None
    max_seqs: int | None = None
    max_context: int | None = None
    block_size: int = 16
    seed: int = 0
    fast: bool = False
    clock: str = "wall"

    def __post_init__(self) -> None:
        if self.device not in DEFAULTS:
            raise InputError(f"measure: device must be 'cpu' or 'cuda' (got {self.device!r})")
        if self.dtype not in (None, "float32", "bfloat16", "float16", "float64"):
            raise InputError(f"--dtype: expected float32, bfloat16, float16 or float64 (got {self.dtype!r})")
        for name, value, least in (("tp", self.tp, 1), ("block-size", self.block_size, 1), ("seed", self.seed, 0)):
            if isinstance(value, bool) or value < least:
                raise InputError(f"--{name}: expected an integer >= {least} (got {value!r})")


def plan_measurement(spec: DecoderSpec, options: MeasureOptions | None = None) -> Plan:
    """Check that a model can be measured so, before anything runs.

    Raises
    ------
    InputError
        On a degree that does not divide the model, or sizes beyond the model's positions.
    """
    asked = options or MeasureOptions()
    limits, tp = DEFAULTS[asked.device], asked.tp
    if spec.heads % tp or spec.ffn % tp:
        raise InputError(f"--tp: {tp} does not divide the {spec.heads} heads and width {spec.ffn} of {spec.name}")
    # A chunk as long as the longest context is measured behind a context as long: both must fit the positions.
    half = spec.max_positions // 2
    context = asked.max_context if asked.max_context is not None else min(limits.max_context, half)
    if context > half:
        raise InputError(
            f"--max-context: {context} is above half of the {spec.max_positions} positions of {spec.name}: batches "
            "whose contexts differ, and chunks behind them, would not fit"
        )
    sizes = Sizes.upto(
        asked.max_tokens or limits.max_tokens, asked.max_seqs or limits.max_seqs, context, fast=asked.fast
    )
    if sizes.tokens[-1] > spec.max_positions:
        sizes = replace(sizes, tokens=(*(t for t in sizes.tokens if t < spec.max_positions), spec.max_positions))
    rounds = FAST_ROUNDS if asked.fast else ROUNDS
    return Plan(
        spec, asked.device, asked.dtype or limits.dtype, tp, asked.block_size, asked.seed, rounds, sizes, asked.clock
    )


def measure_layers(
    spec: DecoderSpec, options: MeasureOptions | None = None, *, progress: Progress | None = None
) -> LayerMeasurement:
    """Measure a model's layers, attention, head and the engine's host times on the present device.

    Parameters
    ----------
    spec : DecoderSpec
        The model; weights are random.
    options : MeasureOptions, optional
        Device, type, degree and sizes.
    progress : callable, optional
        Called with the share done and what is under way.

    Raises
    ------
    InputError
        If torch or the device is missing, or the model cannot be measured so.
    RunError
        If a worker process dies.
    """
    plan = plan_measurement(spec, options)
    tell = progress or _silent
    _there(plan)
    tell(0.0, "starting")
    with WorkerPool(plan.tp, plan.device) as pool:
        found = measure_in(pool, plan, tell)
        if plan.tp > 1:  # the engine itself is served on one device only
            return found
        fast = plan.rounds == FAST_ROUNDS
        times = in_service(pool, plan, found, fast=fast, tell=lambda what: tell(1.0, what))
        return replace(found, times=times)


def measure_in(pool: WorkerPool, plan: Plan, tell: Progress) -> LayerMeasurement:
    """The same in workers that are there already."""
    begun = time.perf_counter()
    facts: DeviceFacts = pool.call(device_facts)[0]
    tell(0.05, "layers and attention")
    calls = affordable(plan, FITS * facts.free_bytes - 2 * plan.spec.weights * plan.number_bytes / plan.tp)
    # An hour, a guess: measurements take minutes, so that only a hang reaches it.
    found: Measured = pool.call(measure_job, timeout_s=3600.0, plan=plan, calls=calls)[0]
    tell(1.0, "done")
    cores = f"core {pool.cores[0]}, one torch thread" if pool.cores else f"{pool.size} GPU{'s' * (pool.size > 1)}"
    provenance = Provenance(
        source="meshwright measure llm: operators of the engine's model timed in their place, medians",
        device=facts.name,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        versions={"meshwright": __version__, **facts.versions},
        notes="; ".join(
            (
                cores,
                facts.clock if plan.clock == "wall" else "processor time of the thread",
                f"{found.layers} of {plan.spec.layers} layers timed",
                f"{found.rounds.repeats} or more undisturbed passes of each call",
                f"parts add up to {found.sum_over_whole:.1%} of passes without stamps",
                f"host times from {sum(host.steps for host in found.hosts.values())} steps of the engine",
                f"{time.perf_counter() - begun:.0f} s",
            )
        ),
    )
    return layer_measurement(plan, found, provenance)


def affordable(plan: Plan, room_bytes: float) -> list[tuple[str, Call]]:
    """Calls whose KV cache fits `room_bytes`, each with the table that it belongs to."""
    sizes, spec = plan.sizes, plan.spec
    layers = layers_timed(spec, plan.number_bytes, plan.tp)
    block = 2 * layers * max(1, spec.kv_heads // plan.tp) * spec.head_dim * plan.number_bytes * plan.block_size
    every = (
        *(("dense", c) for c in sizes.dense()),
        *(("heads", c) for c in sizes.heads()),
        *(("attention", c) for c in sizes.attention()),
        *(("several", c) for c in sizes.several()),
    )
    kept = [(table, call) for table, call in every if call.blocks(plan.block_size) * block <= room_bytes]
    if len({table for table, _ in kept}) < 4:
        raise InputError(
            f"measure: {room_bytes / 2**30:.3g} GiB beside the weights of {spec.name} hold no batch to measure; choose "
            "a smaller model, or more tp"
        )
    return kept


def _silent(share: float, what: str) -> None:
    """No progress wanted."""


def _there(plan: Plan) -> None:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise InputError(f"measure: torch is not installed; measuring needs it: {install_hint('torch')}")
    present = device_count(plan.device)
    if present < plan.tp:
        raise InputError(f"measure: tp {plan.tp} needs as many {plan.device} devices, {present} present")
