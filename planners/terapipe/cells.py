"""`Cell`: seconds of a run of operators for one slice: b samples, i tokens, and j tokens of context before them.

The cost model prices the operators at the sizes of the slice, and the mesh prices their collectives, whose bytes shrink
with the slice. For a slice that is the whole sequence, the seconds equal the stage's own (Alpa's `score`); tests hold
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...profiles.graph import CostModel, Operator, OperatorTimes
from ...profiles.graph.token_loops import TokenLoops, sliced
from ...simulator.mesh import LogicalMesh
from ..alpa.intra import IntraPlan
from .latency import SliceLatency, fit_latency

__all__ = ["Cell", "Sent", "Work"]

Floats = npt.NDArray[np.float64]
_PROBES = 9
"""Number of lengths, and of contexts, at which the overhead of context is computed to fit Eq. 2.9. A guess: it gives
about 36 pairs for each number of samples, for four coefficients; a fifth of the pairs tests the fit."""


@dataclass(frozen=True, slots=True)
class Work:
    """The computation of several equal operators of a cell.

    Parameters
    ----------
    number : tuple
        A key that equal operators share, in all cells of the pricer.
    operator : Operator
        The operator, for one sample on each replica and whole sequences.
    loops : TokenLoops
        Which of the operator's loops run over tokens.
    parts : dict
        Loop -> number of pieces.
    inputs, weights : bool
        Whether the backward pass makes gradients of its activations, and of its weights.
    again : bool
        Whether the backward pass computes it again (recomputation).
    count : int
        Number of equal operators that this one stands for.
    """

    number: tuple[object, ...]
    operator: Operator
    loops: TokenLoops
    parts: dict[str, int]
    inputs: bool
    weights: bool
    again: bool
    count: int


@dataclass(frozen=True, slots=True)
class Sent:
    """Several equal collectives of a cell.

    `grows` is the number of loops over tokens with which their bytes grow; 0 means that they do not depend on the
    slice.
    """

    backward: bool
    kind: str
    axes: tuple[int, ...]
    n_bytes: float
    grows: int
    count: int


@dataclass(frozen=True, eq=False)
class Cell:
    """Operators first … last − 1 on a logical mesh (data-parallel replicas, tensor-parallel devices).

    Parameters
    ----------
    plan : IntraPlan
        How the operators are sharded, for one sample on each replica.
    mesh : LogicalMesh
        The mesh that they run on.
    tokens : int
        L, tokens of a sequence.
    costs : CostModel
        Seconds of operators.
    work, sent
        What a cell computes, and what it communicates.
    square_bytes : float
        Those of the plan's activation bytes that grow with length · (length + context): attention scores that are kept.
    carried_bytes : float
        Gradients of keys and values, which a sample's slices add up; bytes on one device.
    known : dict
        What the cost model has said about operators of slices; shared by all cells of a pricer.
    """

    plan: IntraPlan
    mesh: LogicalMesh
    tokens: int
    costs: CostModel
    work: tuple[Work, ...]
    sent: tuple[Sent, ...]
    square_bytes: float
    carried_bytes: float
    known: dict[tuple[object, ...], OperatorTimes] = field(repr=False)

    def seconds(self, samples: int, length: int, context: int = 0) -> tuple[float, float]:
        """Forward and backward seconds of one slice of `samples` per replica, exactly as the cost model has them."""
        parts = [self._computing(w, samples, length, context) for w in self.work]
        return (
            sum(p[0] for p in parts) + self._sending(False, samples, length, context),
            sum(p[1] for p in parts) + self._sending(True, samples, length, context),
        )

    def latencies(self, samples: Sequence[int], unit: int) -> tuple[SliceLatency, SliceLatency]:
        """Forward and backward seconds as Eq. 2.9 has them: exact without context, with a fitted overhead of
        context."""
        lengths = np.arange(unit, self.tokens + 1, unit)
        probes = np.unique(np.linspace(1, len(lengths), min(_PROBES, len(lengths))).round().astype(int)) * unit
        rows: list[tuple[int, int, int, float, float]] = []
        for b in samples:
            rows += [(int(i), 0, b, *self.seconds(b, int(i))) for i in lengths]
            for i in probes:
                base = self._attention_seconds(b, int(i), 0)
                whole = next(r for r in rows if r[0] == i and r[2] == b and r[1] == 0)
                for j in (x for x in probes if x + i <= self.tokens):
                    more = self._attention_seconds(b, int(i), int(j))
                    rows.append((int(i), int(j), b, whole[3] + more[0] - base[0], whole[4] + more[1] - base[1]))
        i, j, b, forward, backward = (np.array(column) for column in zip(*rows, strict=True))
        return fit_latency(i, j, forward, b), fit_latency(i, j, backward, b)

    def busy(self, samples: int, tokens: Sequence[int]) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Seconds for which the collectives of all slices of `samples` per replica keep links busy, forward and
        backward, as `LogicalMesh.busy` counts them."""
        found = np.zeros((2, 2 + len(self.mesh.mesh.cluster.levels)))
        for k, length in enumerate(tokens):
            share = self._shares(samples, length, sum(tokens[:k]))
            for x in self.sent:
                busy = self.mesh.busy(x.kind, x.n_bytes * share[x.grows], x.axes)  # pyright: ignore[reportArgumentType]
                found[int(x.backward)] += x.count * np.array(busy)
        return tuple(found[0].tolist()), tuple(found[1].tolist())

    def activation_bytes(self, tokens: Sequence[int]) -> float:
        """Bytes on one device that are kept for the backward pass of one sample per replica, cut into these slices."""
        share = sum(i * sum(tokens[: k + 1]) for k, i in enumerate(tokens)) / self.tokens**2
        return self.plan.activation_bytes - self.square_bytes * (1.0 - share)

    def _attention_seconds(self, samples: int, length: int, context: int) -> tuple[float, float]:
        """The part of `seconds` that depends on the context."""
        parts = [self._computing(w, samples, length, context) for w in self._contextual]
        return (
            sum(p[0] for p in parts) + self._sending(False, samples, length, context),
            sum(p[1] for p in parts) + self._sending(True, samples, length, context),
        )

    @cached_property
    def _contextual(self) -> tuple[Work, ...]:
        return tuple(w for w in self.work if w.loops.key)

    def _computing(self, w: Work, samples: int, length: int, context: int) -> tuple[float, float]:
        key = (*w.number, samples, length, context if w.loops.key else 0)
        t = self.known.get(key)
        if t is None:
            op = sliced(_grown(w.operator, samples), w.loops, length, context)
            t = self.known[key] = self.costs.times(op, w.parts)
        back = (t.backward_input_s if w.inputs else 0.0) + (t.backward_weight_s if w.weights else 0.0)
        return w.count * t.forward_s, w.count * (back + (t.forward_s if w.again else 0.0))

    def _sending(self, backward: bool, samples: int, length: int, context: int) -> float:
        share = self._shares(samples, length, context)
        return sum(
            x.count * self.mesh.seconds(x.kind, x.n_bytes * share[x.grows], x.axes)  # pyright: ignore[reportArgumentType]
            for x in self.sent
            if x.backward == backward
        )

    def _shares(self, samples: int, length: int, context: int) -> tuple[float, float, float]:
        """What a slice has of a sample's bytes, by the loops over tokens with which they grow."""
        return 1.0, samples * length / self.tokens, samples * length * (length + context) / self.tokens**2


def _grown(op: Operator, samples: int) -> Operator:
    """The operator for more samples per replica."""
    if samples == 1:
        return op
    loops = tuple(replace(x, size=x.size * samples) if x.batch else x for x in op.loops)
    grown = np.prod([b.size / a.size for a, b in zip(op.loops, loops, strict=True)])
    return replace(op, loops=loops, flops=op.flops * float(grown))
