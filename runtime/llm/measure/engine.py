"""`measure_layers`: the layers and host times of a language model, measured on the present device in the engine.

One worker process per device, pinned to its core with one torch thread, as in a real run; calls in shuffled rounds,
medians; passes that others disturbed are left out. See docs/llm-measure.md.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .... import __version__
from ....errors import InputError, install_hint
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.measure_sizes import Call, Sizes
from ....profiles.llm.measured import LayerMeasurement
from ....profiles.measure.device import DeviceFacts, device_facts
from ....profiles.measure.pool import WorkerPool, device_count
from ....profiles.profile import Provenance
from .forward import layers_timed
from .job import Measured, measure_job
from .tables import Plan, layer_measurement

__all__ = ["DEFAULTS", "Plan", "measure_in", "measure_layers", "plan_measurement"]

Progress = Callable[[float, str], None]
"""Called with the share that is done, 0 to 1, and what is under way."""

ROUNDS, FAST_ROUNDS = 6, 3
FITS = 0.8
"""Share of the free memory that weights (those of the timed layers and the engine's) and KV cache may take."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Largest batch, most sequences, and longest mean context that are measured."""

    max_tokens: int
    max_seqs: int
    max_context: int
    dtype: str


DEFAULTS = {"cpu": Limits(256, 16, 512, "float32"), "cuda": Limits(8192, 256, 8192, "bfloat16")}
"""By kind of device: what is measured where nobody says."""


def plan_measurement(
    spec: DecoderSpec,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    tp: int = 1,
    max_tokens: int | None = None,
    max_seqs: int | None = None,
    max_context: int | None = None,
    block_size: int = 16,
    seed: int = 0,
    fast: bool = False,
    clock: str = "wall",
) -> Plan:
    """Check what was asked for, before anything runs.

    Raises
    ------
    InputError
        On an unknown device or dtype, a degree that does not divide the model, sizes beyond the model's positions, or
        more devices than there are.
    """
    if device not in DEFAULTS:
        raise InputError(f"measure: device must be 'cpu' or 'cuda' (got {device!r})")
    limits = DEFAULTS[device]
    dtype = dtype or limits.dtype
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise InputError(f"--dtype: expected float32, bfloat16, float16 or float64 (got {dtype!r})")
    for name, value, least in (("--tp", tp, 1), ("--block-size", block_size, 1), ("--seed", seed, 0)):
        if isinstance(value, bool) or value < least:
            raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
    if spec.heads % tp or spec.ffn % tp:
        raise InputError(f"--tp: {tp} does not divide the {spec.heads} heads and width {spec.ffn} of {spec.name}")
    half = spec.max_positions // 2
    context = max_context if max_context is not None else min(limits.max_context, half)
    if context > half:
        raise InputError(
            f"--max-context: {context} is above half of the {spec.max_positions} positions of {spec.name}: batches "
            "whose contexts differ, and chunks behind them, would not fit"
        )
    sizes = Sizes.upto(max_tokens or limits.max_tokens, max_seqs or limits.max_seqs, context, fast=fast)
    if sizes.tokens[-1] > spec.max_positions:
        sizes = replace(sizes, tokens=(*(t for t in sizes.tokens if t < spec.max_positions), spec.max_positions))
    return Plan(spec, device, dtype, tp, block_size, seed, FAST_ROUNDS if fast else ROUNDS, sizes, clock)


def measure_layers(spec: DecoderSpec, *, progress: Progress | None = None, **options: Any) -> LayerMeasurement:
    """Measure a model's layers, attention, head and the engine's host times on the present device.

    Parameters
    ----------
    spec : DecoderSpec
        The model; weights are random.
    progress : callable, optional
        Called with the share done and what is under way.
    **options
        As in `plan_measurement`.

    Raises
    ------
    InputError
        If torch or the device is missing, or an option is wrong.
    RunError
        If a worker process dies.
    """
    plan = plan_measurement(spec, **options)
    tell = progress or _silent
    _there(plan)
    tell(0.0, "starting")
    with WorkerPool(plan.tp, plan.device) as pool:
        return measure_in(pool, plan, tell)


def measure_in(pool: WorkerPool, plan: Plan, tell: Progress) -> LayerMeasurement:
    """The same in workers that are there already."""
    begun = time.perf_counter()
    facts: DeviceFacts = pool.call(device_facts)[0]
    tell(0.05, "layers and attention")
    calls = affordable(plan, FITS * facts.free_bytes - 2 * plan.spec.weights * plan.number_bytes / plan.tp)
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
