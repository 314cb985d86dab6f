"""Measure models on this machine: layers in their place, links between devices, whole stages as the check.

Everything runs in the conditions of a real run: one worker process per device, pinned, one torch thread, and
all devices at work at once. See docs/measure.md.
"""

from __future__ import annotations

import datetime
import difflib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ... import __version__
from ...errors import InputError
from ...kernels.specs import SPECS, ModelSpec
from ..config import ParallelConfig
from ..profile import Provenance
from ..profile_set import ProfileSet
from .compose import Machine, measure_one
from .device import DeviceFacts, cited_spec, device_facts, measure_device
from .pool import WorkerPool, device_count
from .record import MeasuredModel, Measurement

__all__ = ["measure", "take_measurement"]

Progress = Callable[[float, str], None]
"""Called with the share of the work that is done, 0 to 1, and what comes next."""

SECONDS = 15.0
"""Seconds for each model, and fewer for a first look: guesses at what a user will wait for."""
FAST_SECONDS = 5.0
ROUNDS = 4
"""Rounds that the time is cut into, so that a machine that slows down for a while slows all figures alike."""
FAST_ROUNDS = 2
FITS = 0.8
"""Share of the free memory that the weights of a model may take to be timed as a whole."""


def measure(
    specs: Iterable[ModelSpec | str],
    device: str = "cpu",
    batches: Sequence[int] = (1, 2, 4),
    op_degrees: Sequence[int] = (1, 2),
    pp_degrees: Sequence[int] = (1, 2),
    *,
    seconds: float | None = None,
    fast: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProfileSet:
    """Profiles of `specs`, measured on this machine; `take_measurement` gives all that was found on the way.

    Parameters
    ----------
    specs : iterable of ModelSpec or str
        Models, or names of shipped ones. Models of one shape are measured once.
    device : {"cpu", "cuda"}
        One CPU core, or one GPU, is one device.
    batches : sequence of int
        Batch sizes.
    op_degrees, pp_degrees : sequence of int
        Intra- and inter-operator degrees. An op degree above the number of devices present cannot be measured
        and is refused; a configuration of more stages than there are devices is composed, not checked.
    seconds : float, optional
        Time per model shape; 15, or 5 if `fast`.
    fast : bool
        Fewer rounds.
    seed : int
        Seed of weights and inputs.
    progress : callable, optional
        Called with the share done and what comes next.

    Raises
    ------
    InputError
        If torch or the device is missing, a model is unknown or cannot be split so, or a degree or batch is
        invalid.
    RunError
        If a worker process dies.
    """
    return take_measurement(
        specs, device, batches, op_degrees, pp_degrees, seconds=seconds, fast=fast, seed=seed, progress=progress
    ).profiles


def take_measurement(
    specs: Iterable[ModelSpec | str],
    device: str = "cpu",
    batches: Sequence[int] = (1, 2, 4),
    op_degrees: Sequence[int] = (1, 2),
    pp_degrees: Sequence[int] = (1, 2),
    *,
    seconds: float | None = None,
    fast: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """`measure`, with the layer tables, the links, the checks and the device besides."""
    began = time.perf_counter()
    models = _resolve(specs)
    sizes, ops, pps = (
        _degrees(n, v) for n, v in (("batches", batches), ("op_degrees", op_degrees), ("pp_degrees", pp_degrees))
    )
    size = _workers(device, ops, pps)
    for spec, op in ((spec, op) for spec in models for op in ops):
        try:
            spec.check_op(op)
        except ValueError as error:
            raise InputError(f"measure: {error}; leave this degree out") from None
    shapes = {spec.shape: spec for spec in reversed(models)}
    budget = seconds if seconds is not None else FAST_SECONDS if fast else SECONDS
    tell = progress or (lambda share, what: None)
    tell(0.0, f"starting {size} workers")
    with WorkerPool(size, device) as pool:
        facts: DeviceFacts = pool.call(device_facts)[0]
        room = FITS * facts.free_bytes / (size if device == "cpu" else 1)
        machine = Machine(cited_spec(facts, device), room, _provenance(facts, pool))
        by_shape: dict[ModelSpec, MeasuredModel] = {}
        for i, (shape, spec) in enumerate(shapes.items()):
            tell(0.1 + 0.85 * i / len(shapes), spec.name)
            by_shape[shape] = measure_one(
                pool,
                spec,
                sizes,
                [ParallelConfig(op, pp) for op in ops for pp in pps if pp <= spec.n_layers],
                machine,
                seconds=budget,
                min_rounds=FAST_ROUNDS if fast else ROUNDS,
                seed=seed,
            )
        tell(0.95, "device")
        here = measure_device(pool, facts, next(iter(by_shape.values())).comm.p2p, device)
    tell(1.0, "done")
    found = {spec.name: by_shape[spec.shape].named(spec.name) for spec in models}
    rates = f"{here.peak_flops / 1e9:.0f} GFLOP/s and {here.memory_bandwidth_bytes_per_s / 1e9:.1f} GB/s per device"
    return Measurement(
        ProfileSet(
            f"measured-{device}",
            machine.cited.name,
            {name: m.profile for name, m in found.items()},
            replace(machine.provenance, notes=f"{machine.provenance.notes}; matrix product and copy: {rates}"),
        ),
        here,
        facts,
        found,
        time.perf_counter() - began,
    )


def _resolve(specs: Iterable[ModelSpec | str]) -> list[ModelSpec]:
    models: list[ModelSpec] = []
    for given in specs:
        if isinstance(given, str) and given not in SPECS:
            near = difflib.get_close_matches(given, SPECS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "shipped:"
            raise InputError(f"measure: unknown model {given!r}; {hint} shipped: {', '.join(SPECS)}")
        models.append(SPECS[given] if isinstance(given, str) else given)
    if not models:
        raise InputError("measure: no model given; name at least one")
    names = [spec.name for spec in models]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"measure: model {twice[0]!r} is given twice; names must be unique")
    return models


def _degrees(what: str, values: Sequence[int]) -> list[int]:
    if not values or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values):
        raise InputError(f"measure: {what} must be positive integers, at least one (got {list(values)})")
    return sorted(set(values))


def _workers(device: str, ops: Sequence[int], pps: Sequence[int]) -> int:
    """As many workers as the widest configuration has devices, at least two (neighbours), at most all present."""
    if device not in ("cpu", "cuda"):
        raise InputError(f"measure: device must be 'cpu' or 'cuda' (got {device!r})")
    present = device_count(device)
    if present == 0:
        raise InputError(f"measure: no {device} device found; use device='cpu'")
    if max(ops) > present:
        raise InputError(
            f"measure: op degree {max(ops)} needs as many devices, {present} present; leave it out of op_degrees"
        )
    return min(present, max(2, max(ops) * max(pps)))


def _provenance(facts: DeviceFacts, pool: WorkerPool) -> Provenance:
    where = f"cores {', '.join(map(str, pool.cores))}" if pool.cores else f"{pool.size} GPUs"
    return Provenance(
        source="meshwright measure serving: layers timed in their place, medians",
        device=facts.name,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        versions={"meshwright": __version__, **facts.versions},
        notes=f"{where}: one worker process and one torch thread each, all at work at once; clock: {facts.clock}",
    )
