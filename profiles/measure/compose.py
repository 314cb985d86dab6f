"""Measure one model on a pool of workers: samples to layer table, to profile, and the check against whole stages."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...kernels.sizes import activation_bytes, allreduce_bytes, allreduces, output_bytes
from ...kernels.specs import LayerKind, ModelSpec
from ...kernels.timing import Lap
from ..autoparallel import auto_partition, partition_at
from ..comm import CommModel
from ..compose import compose
from ..config import ParallelConfig
from ..hardware import DeviceSpec
from ..layers import Layer, LayerTable
from ..profile import ModelProfile, Provenance
from .comm import AT_LEAST, CALM, LinkSamples, fit_comm
from .pool import WorkerPool
from .record import Interference, MeasuredModel, StageCheck
from .worker import Chain, Samples, StageRun, forget_models, layer_weights, measure_model

__all__ = ["Machine", "measure_one"]

SCOUT_ROUNDS = 2
AGAIN = 0.3
"""Share of the time to run stages in, if the scouted partition turns out not to be the best one."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where models are measured.

    Parameters
    ----------
    cited : DeviceSpec
        Where link figures come from if there is only one worker.
    memory_bytes : float
        What the weights of one worker may take. A model that needs more is timed by one layer of each kind.
    provenance : Provenance
        Of what is measured here; each model's notes are added.
    """

    cited: DeviceSpec
    memory_bytes: float
    provenance: Provenance


def measure_one(
    pool: WorkerPool,
    spec: ModelSpec,
    batches: Sequence[int],
    configs: Sequence[ParallelConfig],
    machine: Machine,
    *,
    seconds: float,
    min_rounds: int,
    seed: int,
) -> MeasuredModel:
    """Measure one model for about `seconds`.

    Parameters
    ----------
    pool : WorkerPool
        The workers; configurations that need more of them are composed and not checked.
    spec : ModelSpec
        The model.
    batches : sequence of int
        Batch sizes.
    configs : sequence of ParallelConfig
        Configurations that the profile shall hold.
    machine : Machine
        Its memory, its links and where figures are said to come from.
    seconds, min_rounds, seed
        Time to spend, rounds per batch size however long they take, and the seed of weights and inputs.
    """
    ops = sorted({config.op for config in configs})
    weights: dict[int, tuple[int, ...]] = pool.call(layer_weights, spec=spec, ops=ops)[0]
    whole = sum(map(sum, weights.values())) <= machine.memory_bytes
    numbers = list(range(spec.n_layers)) if whole else _one_of_each(spec)
    chain = Chain(spec, numbers, ops, seed)

    def table(samples: Sequence[Samples]) -> LayerTable:
        return _table(spec, numbers, weights, samples, machine.provenance)

    def links(samples: Sequence[Samples]) -> tuple[CommModel, dict[str, LinkSamples]]:
        return fit_comm([s.p2p for s in samples], [s.allreduce for s in samples], ops, machine.cited)

    def stage_runs(of: LayerTable, comm: CommModel) -> list[StageRun]:
        checked = [c for c in configs if whole and c.n_devices <= pool.size]
        return [StageRun(c, auto_partition(of, c, comm, min(batches)).starts) for c in checked]

    def more(runs: Sequence[StageRun], share: float, rounds: int, batches: Sequence[int], idle: bool) -> list[Samples]:
        return pool.call(
            measure_model,
            chain=chain,
            batches=batches,
            runs=runs,
            idle=idle,
            seconds=share * seconds,
            min_rounds=rounds,
            # only a worker that hangs takes so long: loading a large model takes minutes
            timeout_s=600.0 + 10.0 * seconds,
        )

    scout = more((), 0.0, SCOUT_ROUNDS, [min(batches)], False)
    runs = stage_runs(table(scout), links(scout)[0])
    samples = more(runs, 1.0, min_rounds, batches, True)
    again = [run for run in stage_runs(table(samples), links(samples)[0]) if run not in runs]
    if again:
        samples = [a.joined(b) for a, b in zip(samples, more(again, AGAIN, min_rounds, batches, False), strict=True)]
    pool.call(forget_models)

    measured, (comm, link_samples) = table(samples), links(samples)
    profile = compose(measured, comm, configs=configs)
    chosen = [run for run in (*runs, *again) if profile.stages[run.config].partition == run.starts]
    checks = tuple(_checks(spec, measured, comm, samples, chosen, batches))
    interference = tuple(_interference(spec, numbers, samples, batches)) if pool.size > 1 and 1 in ops else ()
    profile = _with_measured(profile, checks)
    contention = _contention(samples)
    notes = [profile.provenance.notes, *_notes(checks, interference, whole)]
    if contention > 1 - CALM:
        notes.append(f"other processes took {contention:.0%} of the cores meanwhile")
    profile = replace(profile, provenance=replace(profile.provenance, notes="; ".join(filter(None, notes))))
    return MeasuredModel(measured, comm, link_samples, profile, checks, interference, contention)


def _one_of_each(spec: ModelSpec) -> list[int]:
    first: dict[str, int] = {}
    for i in range(spec.n_layers):
        first.setdefault(spec.kind(i), i)
    return sorted(first.values())


def _table(
    spec: ModelSpec,
    numbers: Sequence[int],
    weights: dict[int, tuple[int, ...]],
    samples: Sequence[Samples],
    provenance: Provenance,
) -> LayerTable:
    latency: dict[LayerKind, dict[int, dict[int, float]]] = {spec.kind(number): {} for number in numbers}
    for op, batch in samples[0].layers:
        rows = [row for worker in samples for row in worker.layers[op, batch]]
        for kind, seconds in _by_kind(spec, numbers, rows).items():
            latency[kind].setdefault(op, {})[batch] = seconds
    return LayerTable(
        spec.name,
        tuple(
            Layer(
                name=name,
                latency=latency[spec.kind(i)],
                weight_bytes={op: float(per_layer[i]) for op, per_layer in weights.items()},
                output_bytes=float(output_bytes(spec, i)),
                allreduce_bytes=float(allreduce_bytes(spec, i, max(weights))),
                allreduces=allreduces(spec, i),
                activation_bytes=float(activation_bytes(spec, i)),
                block=i - 1 if 0 < i < spec.n_layers - 1 else None,
            )
            for i, name in enumerate(spec.layer_names())
        ),
        provenance,
    )


def _by_kind(spec: ModelSpec, numbers: Sequence[int], rows: Sequence[Sequence[Lap]]) -> dict[LayerKind, float]:
    """Median seconds of each kind of layer. Layers of one kind do the same work, so they share one figure."""
    laps: dict[LayerKind, list[Lap]] = {}
    for column, number in enumerate(numbers):
        laps.setdefault(spec.kind(number), []).extend(row[column] for row in rows)
    return {kind: statistics.median(_calm(series)) for kind, series in laps.items()}


def _calm(laps: Iterable[Lap]) -> list[float]:
    """The times of laps during which hardly any other process had the core.

    If there are too few of them, the processor times of the calmest laps, which leave out what other processes took.
    """
    best = sorted(laps, key=lambda lap: -lap.share)
    calm = [lap.seconds for lap in best if lap.share >= CALM]
    # A median of fewer laps would be chance. Processor time is only the second choice: it also leaves out times in
    # which a layer sleeps on purpose.
    return calm if len(calm) >= AT_LEAST else [lap.seconds * lap.share for lap in best[:AT_LEAST]]


def _contention(samples: Sequence[Samples]) -> float:
    """Share of the wall-clock time of all timed layers in which another process had the core."""
    laps = [lap for worker in samples for rows in worker.layers.values() for row in rows for lap in row]
    return 1.0 - sum(lap.seconds * lap.share for lap in laps) / sum(lap.seconds for lap in laps)


def _checks(
    spec: ModelSpec,
    table: LayerTable,
    comm: CommModel,
    samples: Sequence[Samples],
    runs: Iterable[StageRun],
    batches: Sequence[int],
) -> Iterable[StageCheck]:
    for run in runs:
        op, pp, width = run.config.op, run.config.pp, run.config.n_devices
        ends = (*run.starts[1:], spec.n_layers)
        for batch in sorted(batches):
            composed = partition_at(table, run.config, run.starts, comm, batch).stage_s
            for k in range(pp):
                ranks = [r for r in range(len(samples) // width * width) if r % width // op == k]
                laps = [lap for r in ranks for lap in samples[r].stages[run, batch]]
                # Split stages wait for each other, so that a full share of the core does not mean
                # undisturbed.
                seconds = _calm(laps) if op == 1 else [lap.seconds for lap in laps]
                hops = [
                    # A hop begins when both ends are there: before that the receiver waits for the sender's layers,
                    # or the sender for it.
                    got - max(sent, ready)
                    for r in ranks
                    if k < pp - 1
                    for (sent, _), (ready, got) in zip(
                        samples[r].sends[run, batch], samples[r + op].receives[run, batch], strict=True
                    )
                ]
                yield StageCheck(
                    model=spec.name,
                    config=run.config,
                    batch=batch,
                    stage=k,
                    layers=(run.starts[k], ends[k]),
                    composed_s=composed[k],
                    measured_s=statistics.median(seconds),
                    hop_s=statistics.median(hops) if hops else 0.0,
                    n=len(seconds),
                )


def _interference(
    spec: ModelSpec, numbers: Sequence[int], samples: Sequence[Samples], batches: Sequence[int]
) -> Iterable[Interference]:
    for batch in sorted(batches):
        idle = _by_kind(spec, numbers, samples[0].idle[batch])
        busy = _by_kind(spec, numbers, samples[0].layers[1, batch])
        kinds: list[LayerKind] = [spec.kind(i) for i in range(spec.n_layers)]
        yield Interference(spec.name, batch, sum(idle[k] for k in kinds), sum(busy[k] for k in kinds))


def _with_measured(profile: ModelProfile, checks: Sequence[StageCheck]) -> ModelProfile:
    stages = dict(profile.stages)
    for config, stage in profile.stages.items():
        rows: dict[int, list[float]] = {}
        for check in checks:
            if check.config == config:
                rows.setdefault(check.batch, []).append(check.measured_s)
        stages[config] = replace(stage, source="composed", measured={b: tuple(row) for b, row in rows.items()})
    return replace(profile, stages=stages)


def _notes(checks: Sequence[StageCheck], interference: Sequence[Interference], whole: bool) -> Iterable[str]:
    if not whole:
        yield "too large for one device: one layer of each kind timed, no whole stage run"
    for config in sorted({check.config for check in checks}):
        worst = max((check for check in checks if check.config == config), key=lambda check: abs(check.error))
        yield f"{config}: composed against {worst.n} runs of whole stages: {worst.error:+.1%} at worst"
    for item in interference:
        yield f"batch {item.batch}: {item.slowdown:.2f} times as long with busy neighbours as with idle ones"
