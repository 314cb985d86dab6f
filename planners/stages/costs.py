"""`StageCosts`: seconds and bytes of any set of operators as one pipeline stage, for GraphPipe and its baselines alike.

This is ESTIMATETPS of the paper's Algorithm 2. A stage that runs microbatches of b samples on d data-parallel devices
(b/d samples on each) takes, per sample,

    TPS = max(Σ forward + backward seconds at b/d samples + sending of b samples, receiving of b samples) / b
          + (all-reduce + update) / B.

What a stage receives comes in beside its computation, but one message after the other, each no faster than its sender
sends it: a stage that many feed can be no faster, however many devices it has.

The cost model is asked for exactly b/d samples. This matters: matrix products of few samples fill their tiles and waves
badly, so the seconds per sample fall as b/d grows. Almost everything is a sum over operators. The exceptions are
parameters and values that several operators share: a stage keeps them once. Tables of which unit uses which of them
count these exactly for any set.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# Compiled functions have no types.
# pyright: reportUnnecessaryIsInstance=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...profiles.graph import CostModel, Graph, roofline
from ...reprs import Shown
from ...simulator.cluster import Cluster
from ...simulator.mesh import Mesh
from ..batches import check_batch
from .costs_kernel import set_bytes
from .footprint import Footprint, tensor_table
from .tables import kept_table, listed, parameter_table, result_tables, touching, unit_seconds, unit_work

__all__ = ["SetCosts", "StageCosts", "stage_mesh"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def stage_mesh(cluster: Cluster, devices: int) -> tuple[int, int] | None:
    """The mesh (hosts, devices on each host) of a stage with this many devices, or None if it cannot have so many.

    A stage may have a power of two that divides a node, or whole nodes. Stages of these sizes can always be placed
    beside each other (`place_stages`).
    """
    width = cluster.devices_per_node
    if devices < width:
        return (1, devices) if devices & (devices - 1) == 0 and width % devices == 0 else None
    return (devices // width, width) if devices % width == 0 and devices // width <= cluster.nodes else None


@dataclass(frozen=True, eq=False, repr=False)
class SetCosts(Shown):
    """Costs of many sets of operators at once.

    All arrays have the same shape, one entry for each set; the seconds have one more axis, over numbers of samples.

    Parameters
    ----------
    forward_s, backward_input_s, backward_weight_s : ndarray, shape (…, n_samples)
        Seconds of one microbatch on one device, which has `StageCosts.samples` of its samples.
    state_bytes : ndarray
        Weights, gradients and optimiser state; a copy on each device.
    gradient_bytes, update_bytes : ndarray
        Bytes that are all-reduced once an iteration, and bytes that the optimiser's step reads and writes.
    activation_bytes, work_bytes : ndarray
        Bytes of one sample: what is kept for the backward pass, and the largest temporary of any operator.
    received_bytes, sent_bytes, returned_bytes : ndarray
        Bytes of one sample: results of other sets that this one reads, its results that others read, and gradients of
        what it received, which go back.
    """

    forward_s: Floats
    backward_input_s: Floats
    backward_weight_s: Floats
    state_bytes: Floats
    gradient_bytes: Floats
    update_bytes: Floats
    activation_bytes: Floats
    work_bytes: Floats
    received_bytes: Floats
    sent_bytes: Floats
    returned_bytes: Floats

    def at(self, index: object) -> SetCosts:
        """Some of the sets."""
        return SetCosts(**{name: getattr(self, name)[index] for name in _FIELDS})

    @classmethod
    def joined(cls, parts: Sequence[SetCosts]) -> SetCosts:
        """Several arrays of sets, one after another."""
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in _FIELDS})


_FIELDS = tuple(SetCosts.__dataclass_fields__)


@dataclass(frozen=True, eq=False, repr=False)
class StageCosts(Shown):
    """Costs of stages of one graph on one cluster. Build one with `StageCosts.of`.

    A *unit* is what no stage boundary cuts: one operator, or a group of them (`units.group_operators`).

    Parameters
    ----------
    graph : Graph
        The model, at any batch size.
    cluster : Cluster
        The devices.
    units : tuple of tuple of int
        Operators of each unit, by position in the graph.
    global_batch : int
        B, samples of one iteration.
    microbatches, devices : tuple of int
        Microbatch sizes (in samples) and data-parallel degrees for which there are costs.
    samples : tuple of int
        All numbers b/d of samples that one device can have; the last axis of the seconds.
    seconds : ndarray, shape (3, n_units, n_samples)
        Forward, backward to inputs, backward to weights, per microbatch.
    parameters : ndarray of bool, shape (n_parameters, n_units)
        Which units read each parameter. Parameters that exactly the same units read are merged into one row, here and
        in the tables below. `parameter_sizes` (3, n_parameters) has their state, gradient and update bytes.
    kept : ndarray of bool, shape (n_values, n_units)
        Which units keep each value of a sample in flight, and `kept_sizes` (n_values,): bytes of one sample.
    makers, readers : ndarray of bool, shape (n_results, n_units)
        Which unit makes each result that other units read, and which read it; `result_sizes` (2, n_results): bytes of
        one sample, and of the gradient that comes back.
    work : ndarray, shape (n_units,)
        Largest temporary, bytes of one sample.
    optimizer : str
        Name of the optimiser, which decides the bytes of its states.
    source : str
        Where the seconds come from.
    overlap : bool
        Whether sending overlaps with computation. If so, the longer of the two counts, else their sum. Receiving always
        does: only where it takes longer than both does it count.
    """

    graph: Graph
    cluster: Cluster
    units: tuple[tuple[int, ...], ...]
    global_batch: int
    microbatches: tuple[int, ...]
    devices: tuple[int, ...]
    samples: tuple[int, ...]
    seconds: Floats
    parameters: Bools
    parameter_sizes: Floats
    kept: Bools
    kept_sizes: Floats
    makers: Bools
    readers: Bools
    result_sizes: Floats
    work: Floats
    optimizer: str
    source: str
    overlap: bool

    @classmethod
    def of(
        cls, graph: Graph, cluster: Cluster, *, global_batch: int, microbatches: Sequence[int],
        devices: Sequence[int], units: Sequence[Sequence[int]] | None = None, costs: CostModel | None = None,
        optimizer: str = "adam", overlap: bool = False,
    ) -> StageCosts:  # fmt: skip
        """Price every unit at every number of samples that a device can have.

        Parameters
        ----------
        graph, cluster, global_batch, optimizer, overlap
            As for the class.
        microbatches, devices : sequence of int
            Candidates: microbatch sizes (divisors of the global batch) and data-parallel degrees. A pair whose degree
            does not divide the microbatch has no price (`column` is −1).
        units : sequence of sequence of int, optional
            Operators of each unit; by default every operator by itself.
        costs : CostModel, optional
            By default a roofline of the cluster's devices.

        Raises
        ------
        InputError
            If a microbatch does not divide the global batch, no degree divides any, or the graph cannot be scaled.
        """
        check_batch(global_batch, "stages: ")
        sizes, degrees = tuple(sorted(set(microbatches))), tuple(sorted(set(devices)))
        for b in sizes:
            if b < 1 or global_batch % b:
                raise InputError(f"stages: microbatch: {b} samples do not divide the global batch of {global_batch}")
        samples = tuple(sorted({b // d for b in sizes for d in degrees if b % d == 0}))
        if not samples:
            raise InputError(
                f"stages: none of {degrees} devices divides a microbatch of {sizes} samples; use larger microbatches"
            )
        groups = tuple((i,) for i in range(len(graph.operators))) if units is None else tuple(map(tuple, units))
        if sorted(i for group in groups for i in group) != list(range(len(graph.operators))):
            raise InputError(f"stages: units: expected each of {len(graph.operators)} operators in one unit")
        model = roofline(cluster.spec) if costs is None else costs
        unit_of = np.empty(len(graph.operators), np.int64)
        for u, group in enumerate(groups):
            unit_of[list(group)] = u
        n = len(groups)
        return cls(
            graph, cluster, groups, global_batch, sizes, degrees, samples,
            unit_seconds(graph, unit_of, n, samples, model), *parameter_table(graph, unit_of, n, optimizer),
            *kept_table(graph, groups), *result_tables(graph, unit_of, n), unit_work(graph, groups), optimizer,
            model.source, overlap,
        )  # fmt: skip

    def held_as(self, footprint: Footprint) -> StageCosts:
        """The same prices with the memory of another runtime: "saved", as it is made, or "flexflow".

        See `footprint.tensor_table`. Without buffers that are used twice there are no temporaries on top.
        """
        if footprint == "saved":
            return self
        table, sizes = tensor_table(self.graph, self.units)
        return replace(self, kept=table, kept_sizes=sizes, work=np.zeros(self.n_units))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.units)

    def column(self, microbatch: int, devices: int) -> int:
        """Index of b samples on d devices in the last axis of the seconds.

        −1 if d does not divide b, or no stage may have d devices.
        """
        if microbatch % devices or stage_mesh(self.cluster, devices) is None:
            return -1
        return self.samples.index(microbatch // devices) if microbatch // devices in self.samples else -1

    def of_sets(self, masks: Bools) -> SetCosts:
        """Costs of arbitrary sets of units; each row of `masks` (m, n_units) is one set."""
        rows = masks.astype(np.float64)
        forward, back, weight = (rows @ self.seconds[k] for k in range(3))
        tables = self._lists
        found = set_bytes(
            masks, tables[0], self.parameter_sizes, tables[1], self.kept_sizes, tables[2], tables[3],
            self.result_sizes, self.work,
        )  # fmt: skip
        return SetCosts(forward, back, weight, *np.ascontiguousarray(found.T))

    @cached_property
    def _lists(self) -> tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], ...]:
        """Units of each row of the tables of parameters, kept values, makers and readers, as (start, units)."""
        return tuple(listed(table) for table in (self.parameters, self.kept, self.makers, self.readers))

    def of_ranges(self, order: Sequence[int] | None = None) -> SetCosts:
        """Costs of all runs of neighbouring units in an order.

        Entry [i, j] is the run of units i … j of that order, both included; it is zero where j < i.

        Parameters
        ----------
        order : sequence of int, optional
            A permutation of the units; by default their own order.
        """
        turn = np.arange(self.n_units) if order is None else np.asarray(order, dtype=np.int64)
        n = self.n_units
        # Differences of prefix sums: O(n²) for all runs, where `of_sets` would take O(n³).
        ends = np.concatenate([np.zeros((3, 1, len(self.samples))), np.cumsum(self.seconds[:, turn], axis=1)], axis=1)
        upper = np.triu(np.ones((n, n)))
        seconds = (ends[:, None, 1:] - ends[:, :-1, None]) * upper[None, :, :, None]
        work = np.maximum.accumulate(np.where(upper > 0, self.work[turn][None, :], 0.0), axis=1) * upper
        made = self.makers[:, turn].argmax(axis=1)
        sent = np.zeros((n + 1, n + 1))
        for p, mask, size in zip(made, self.readers[:, turn], self.result_sizes[0], strict=True):
            last = int(np.flatnonzero(mask).max(initial=p))  # runs that hold the maker and end before its last reader
            # Corners of the rectangle first ≤ p, p ≤ end < last; the two cumulative sums below fill it in.
            sent[0, p] += size
            sent[p + 1, p] -= size
            sent[0, last] -= size
            sent[p + 1, last] += size
        received = touching(self.readers[:, turn], self.result_sizes, made)
        sent = sent.cumsum(axis=0).cumsum(axis=1)[:n, :n] * upper
        forward, back, weight = np.maximum(seconds, 0.0)  # a difference of prefix sums may round to just below zero
        state, gradient, update = touching(self.parameters[:, turn], self.parameter_sizes)
        kept = touching(self.kept[:, turn], self.kept_sizes[None])[0]
        return SetCosts(forward, back, weight, state, gradient, update, kept, work, received[0], sent, received[1])

    def iteration_s(self, sets: SetCosts, devices: int) -> tuple[Floats, Floats]:
        """Seconds of the all-reduce of the gradients, and of the optimiser's step. Each happens once an iteration."""
        step = sets.update_bytes / self.cluster.spec.memory_bandwidth_bytes_per_s
        shape = stage_mesh(self.cluster, devices)
        if devices == 1 or shape is None:
            return np.zeros(sets.gradient_bytes.shape), step
        view = Mesh(self.cluster, *shape).view((devices, 1))
        if view.tables is not None:
            flat = [view.seconds("all_reduce", float(n), (0,)) for n in sets.gradient_bytes.ravel()]
            return np.array(flat).reshape(sets.gradient_bytes.shape), step
        link = view.link((0,))
        # A ring all-reduce has d − 1 steps of reduce-scatter and d − 1 of all-gather, each with 1/d of the bytes.
        ring = 2 * (devices - 1) * (link.latency_s + sets.gradient_bytes / devices / link.bandwidth_bytes_per_s)
        return np.where(sets.gradient_bytes > 0, ring, 0.0), step

    def transfer_s(self, sets: SetCosts, microbatch: int, devices: int) -> Floats:
        """Seconds in which a stage sends one microbatch's results forward and its gradients back.

        All devices of the stage send at once, each its own samples. If the cluster has several nodes, they send over
        the network adapters, as if every neighbour were on another node: the search does not yet know where the stages
        will be placed, and this is the cautious assumption.
        """
        spec, one, shape = self.cluster.spec, self.cluster.nodes == 1, stage_mesh(self.cluster, devices)
        link = spec.intra_node if one else spec.inter_node
        lanes = devices if one or shape is None else shape[0] * self.cluster.adapters(shape[1])
        sent = [(bytes_, (bytes_ > 0) * link.latency_s) for bytes_ in (sets.sent_bytes, sets.returned_bytes)]
        return sum((m * microbatch / (link.bandwidth_bytes_per_s * lanes) + s for m, s in sent), 0 * sets.sent_bytes)

    def received_s(self, sets: SetCosts, microbatch: int) -> Floats:
        """Seconds for which one microbatch's messages to a stage occupy its way in, one after another.

        These are the results that it reads and the gradients of those that it sent. Who will send them is not known
        yet. They are priced as if each sender had one device, whose link or adapter is then what limits a message,
        however many adapters the receiver has: the cautious assumption, like that of `transfer_s`.
        """
        turned = replace(sets, sent_bytes=sets.received_bytes, returned_bytes=sets.sent_bytes)
        return self.transfer_s(turned, microbatch, 1)

    def tps(self, sets: SetCosts, microbatch: int, devices: int) -> Floats:
        """Seconds per sample of each set, as a stage of d devices that runs microbatches of b samples.

        Infinite where d does not divide b.
        """
        column = self.column(microbatch, devices)
        if column < 0:
            return np.full(sets.state_bytes.shape, np.inf)
        busy = (sets.forward_s + sets.backward_input_s + sets.backward_weight_s)[..., column]
        moved = self.transfer_s(sets, microbatch, devices)
        reduce, step = self.iteration_s(sets, devices)
        each = np.maximum(busy, moved) if self.overlap else busy + moved
        each = np.maximum(each, self.received_s(sets, microbatch))
        return each / microbatch + (reduce + step) / self.global_batch

    def memory(self, sets: SetCosts, microbatch: int, devices: int, in_flight: int) -> Floats:
        """Bytes on each device of a stage that holds the activations of `in_flight` samples.

        The samples are counted over all devices of the stage.
        """
        live = sets.activation_bytes * in_flight + sets.work_bytes * microbatch
        return sets.state_bytes + live / devices
