"""`measure_training`: measures operators and collectives for plans of a graph, and keeps what is done in a file."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

from ....errors import InputError
from ....files import check_target
from ....kernels.timing import Lap
from ...graph.costs.measured.profile import CollectiveCurve, MeasuredOperator, TrainingProfile
from ...graph.costs.model import OperatorTimes
from ...graph.graph import Graph
from ...graph.operator import DTYPE_BYTES
from ...graph.structure import check_loss
from ..comm import CALM, fit_comm
from ..device import DeviceFacts, cited_spec, device_facts, measure_device
from ..pool import WorkerPool, device_count
from .collectives import collective_laps, message_spans
from .laps import Laps, operator_laps
from .shapes import Shape, shapes_of

__all__ = ["Asked", "measure_training"]

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
TOGETHER = 64
"""Operators of one round, and shapes at most; after each such set the file is written. A guess: enough that weights are
cold, few enough that little is lost with a kill."""
TOGETHER_BYTES = 2**30
"""Bytes of the operands of one round, at most; a guess that fits any device that trains."""
SIZES = tuple(4**k for k in range(5, 14))
FAST_SIZES = (2**12, 2**16, 2**20, 2**22)
"""Bytes of collectives: 1 KiB to 64 MiB; few of them with `fast`."""
MESSAGES = (4096, 2**18, 2**20)
MOST_ROUNDS, MOST_DEVICES = 1000, 4096
"""What is taken for a slip of the hand above it: hours of laps, cuts that no collective of a stage has."""
LEAST = 3
"""Undisturbed laps that a figure is taken from."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What to measure, and how.

    Parameters
    ----------
    batches : tuple of int
        Samples of a microbatch.
    devices : int, optional
        Most devices of a stage, and how many compute at once as far as there are so many; by default all.
    on : {"cpu", "cuda"}
        Cores or GPUs.
    rounds : int
        Laps of each operator and collective.
    fast : bool
        Fewer sizes of collectives.
    most : int
        Most shapes: whole operators come first, then those that are cut by few devices.
    seed : int
        Of operands.

    Raises
    ------
    InputError
        On numbers out of range.
    """

    batches: tuple[int, ...]
    devices: int | None = None
    on: str = "cpu"
    rounds: int = 7
    fast: bool = False
    most: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1:
            raise InputError(f"batches: expected samples of a microbatch, such as 1,4 (got {self.batches})")
        for name in ("devices", "rounds", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name}: expected a positive number (got {value})")
        for name, most in (("devices", MOST_DEVICES), ("rounds", MOST_ROUNDS)):
            value = getattr(self, name)
            if value is not None and value > most:
                raise InputError(f"{name}: expected at most {most:,} (got {value})")

    @property
    def dtype(self) -> str | None:
        """Type that is computed in: single precision on cores, as real runs there; the graph's own on GPUs."""
        return "float32" if self.on == "cpu" else None


def measure_training(
    graph: Graph, asked: Asked, out: str | Path, progress: Callable[[str], None] | None = None
) -> TrainingProfile:
    """Measure what plans of a graph ask for, into a file; what the file holds already is not measured again.

    Parameters
    ----------
    graph : Graph
        What will be planned.
    asked : Asked
        What to measure, and how.
    out : path
        The profile. It is written after every set of shapes: one that was interrupted goes on there, and graphs
        that are measured one after another share a file.
    progress : callable, optional
        Called with a line that says what is being done.

    Raises
    ------
    InputError
        If the graph is one of inference, the file is another device's or no profile, the graph does not scale to a
        batch, no shape fits into a device's memory, or torch is missing.
    RunError
        If a worker fails.
    """
    check_loss(graph)
    tell = progress or _silent
    target = check_target(out)
    before = TrainingProfile.load(target) if target.exists() else None
    here = device_count(asked.on)
    shapes = shapes_of(graph, asked.batches, asked.devices or max(1, here), asked.dtype)
    with WorkerPool(max(1, min(asked.devices or here, here)), asked.on) as pool:
        facts = pool.call(device_facts)[0]
        shapes = _fitting(shapes, facts.memory_bytes / (pool.size if asked.on == "cpu" else 1), tell)
        profile = _begun(pool, facts, asked, before, target, tell)
        known, laps = profile.by_key, list[Laps]()
        todo = [shape for shape in shapes[: asked.most] if shape.local.key not in known]
        tell(f"{len(shapes)} shapes of operators, {len(todo)} to measure")
        if len(shapes) > asked.most:
            tell(f"{len(shapes) - asked.most} shapes are left out: most is {asked.most}; they are scaled")
        done = 0
        for some in _sets(todo):
            profile, found = _measured(pool, profile, some, asked, tell)
            laps.extend(found)
            done += len(some)
            profile.save(target)
            tell(f"{done} of {len(todo)} shapes measured")
    if laps:
        profile = replace(profile, own=_own(laps))
        profile.save(target)
    return profile


def _silent(line: str) -> None:
    """No progress wanted."""


def _fitting(shapes: Sequence[Shape], memory: float, tell: Callable[[str], None]) -> list[Shape]:
    """Shapes whose operands, result and gradients a device holds."""
    found = [shape for shape in shapes if _bytes(shape) <= memory]
    if not found:
        least = min(map(_bytes, shapes))
        raise InputError(
            f"batches: the least operator holds {least:.3g} bytes, a device {memory:.3g}; give fewer samples"
        )
    if len(found) < len(shapes):
        tell(f"{len(shapes) - len(found)} shapes hold more than a device; they are scaled")
    return found


def _begun(
    pool: WorkerPool, facts: DeviceFacts, asked: Asked, before: TrainingProfile | None, target: Path,
    tell: Callable[[str], None],
) -> TrainingProfile:  # fmt: skip
    """The profile so far: the file's, or a new one with device, links and collectives."""
    if before is not None:
        here = (facts.name, facts.versions.get("torch"), asked.dtype, pool.size)
        there = (before.machine, before.versions.get("torch"), before.dtype, before.devices)
        if here != there:
            said = [f"{a} with torch {b}, {c or 'own types'}, {n} at once" for a, b, c, n in (there, here)]
            raise InputError(f"{target}: was measured on {said[0]}, this is {said[1]}; give another file")
        return before
    tell("device, links and collectives")
    cited, size = cited_spec(facts, asked.on), pool.size
    rounds = 2 * asked.rounds
    spans = pool.call(message_spans, sizes=MESSAGES, rounds=rounds) if size > 1 else [{}]
    comm, _ = fit_comm(spans, [{} for _ in spans], (), cited)
    groups = [n for n in range(2, size + 1) if size % n == 0]
    sizes = FAST_SIZES if asked.fast else SIZES
    answers = pool.call(collective_laps, kinds=KINDS, groups=groups, sizes=sizes, rounds=rounds) if groups else []
    curves = [
        CollectiveCurve(kind, devices, sizes, tuple(_slowest(answers, (kind, devices, n)) for n in sizes))
        for kind in KINDS
        for devices in groups
    ]
    profile = TrainingProfile(
        device=measure_device(pool, facts, comm.p2p, asked.on), machine=facts.name,
        date=datetime.now(UTC).date().isoformat(), versions=facts.versions, devices=size, rounds=asked.rounds,
        dtype=asked.dtype, collectives=tuple(curves),
    )  # fmt: skip
    profile.save(target)
    return profile


def _slowest(answers: Sequence[dict[tuple[str, int, int], list[float]]], key: tuple[str, int, int]) -> float:
    """Median over the rounds of the slowest worker: a collective is done when all have its result."""
    return statistics.median(map(max, zip(*(one[key] for one in answers if key in one), strict=True)))


def _sets(shapes: Sequence[Shape]) -> Iterator[list[Shape]]:
    """Shapes that are measured together: as many in each set as in any other, so that none is warmer."""
    sets, held = list[list[Shape]](), 0.0
    for shape in shapes:
        mine = _bytes(shape)
        if not sets or len(sets[-1]) >= TOGETHER or held + mine > TOGETHER_BYTES:
            sets.append([])
            held = 0.0
        sets[-1].append(shape)
        held += mine
    if len(sets) > 1 and len(sets[-1]) < len(sets[-2]):
        both = [*sets.pop(-2), *sets.pop()]
        half = (len(both) + 1) // 2
        sets += [both[:half], both[half:]]
    yield from sets


def _filled(shapes: Sequence[Shape]) -> list[Shape]:
    """A set, again and again, up to what is measured together: layers repeat, and none finds the memory of another."""
    found, held = list(shapes), sum(map(_bytes, shapes))
    for shape in islice(cycle(shapes), max(0, TOGETHER - len(shapes))):
        held += _bytes(shape)
        if held > TOGETHER_BYTES:
            break
        found.append(shape)
    return found


def _bytes(shape: Shape) -> float:
    """Operands, result and their gradients."""
    op = shape.local.op
    return 2 * DTYPE_BYTES[op.dtype] * sum(math.prod(op.shape_of(d)) for d in (*op.parsed.operands, op.parsed.result))


def _measured(
    pool: WorkerPool, profile: TrainingProfile, some: Sequence[Shape], asked: Asked, tell: Callable[[str], None]
) -> tuple[TrainingProfile, list[Laps]]:
    every = _filled(some)
    answers = pool.call(operator_laps, shapes=every, rounds=asked.rounds, dtype=asked.dtype, seed=asked.seed)
    laps: dict[str, list[Laps]] = {}
    for shape, mine in zip(every, zip(*answers, strict=True), strict=True):
        why = next((one for one in mine if isinstance(one, str)), None)
        if why is None:
            laps.setdefault(shape.local.key, []).extend(mine)
        elif shape.local.key not in laps:
            laps[shape.local.key] = []
            tell(f"{shape.whole.name} ({shape.whole.kind}) cannot be measured by itself and is scaled: {why}")
    found = [MeasuredOperator(shape.local, _times(laps[shape.local.key])) for shape in some if laps[shape.local.key]]
    return replace(profile, operators=(*profile.operators, *found)), [lap for some in laps.values() for lap in some]


def _times(laps: Sequence[Laps]) -> OperatorTimes:
    """Medians over rounds and workers, which did the same work."""
    forward, back, inputs = (
        _typical([lap for one in laps for lap in of(one)])
        for of in (lambda one: one.forward, lambda one: one.back, lambda one: one.inputs)
    )
    if not laps[0].weights:
        return OperatorTimes(forward, back, 0.0)
    # The two halves share work where both are wanted at once: together they take what the whole took.
    return OperatorTimes(forward, min(inputs, back), max(0.0, back - inputs))


def _typical(laps: Sequence[Lap]) -> float:
    """Median of the laps in which the worker had its core; of processor time where these are too few."""
    if not laps:
        return 0.0
    calm = [lap.seconds for lap in laps if lap.share >= CALM]
    if len(calm) >= min(LEAST, len(laps)):
        return statistics.median(calm)
    return statistics.median(lap.seconds * lap.share for lap in laps)


def _own(laps: Sequence[Laps]) -> float:
    every = [lap for one in laps for lap in (*one.forward, *one.back, *one.inputs)]
    return sum(lap.seconds * lap.share for lap in every) / sum(lap.seconds for lap in every)
