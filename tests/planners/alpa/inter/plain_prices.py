"""A pricer without collectives, which stands in for the intra-operator pass: work and memory fall with the devices."""

from __future__ import annotations

import numpy as np
from meshwright.errors import InfeasibleError
from meshwright.planners.alpa.inter.pricing.pricer import StagePlan
from meshwright.planners.alpa.inter.pricing.table import Prices
from meshwright.profiles import DEVICES
from meshwright.profiles.graph.costs import model as costs
from meshwright.profiles.graph.memory import parameter_bytes, saved
from meshwright.simulator.training.plan.entries import OperatorEntry

KEPT = {"none": 1.0, "selective": 0.6, "full": 0.2}
AGAIN = {"none": 0.0, "selective": 0.1, "full": 1.0}


class PlainPrices:
    """Every operator takes 1/n of its time on n devices, and `loss` of it more for each doubling."""

    source = "plain"

    def __init__(self, device="v100-16gb", loss=0.05, kept=1.0):
        self.model = costs.roofline(DEVICES[device])
        self.loss, self.kept = loss, kept
        self.asked, self.known = [], {}

    def _parts(self, graph, first, last):
        key = (graph.name, graph.batch, len(graph.operators), first, last)
        if key not in self.known:
            self.known[key] = self._sums(graph, first, last)
        return self.known[key]

    def _sums(self, graph, first, last):
        ops = graph.operators[first:last]
        times = [self.model.times(op, {}) for op in ops]
        names = {name for op in ops for name in op.inputs}
        state = sum(
            t.elements * sum(parameter_bytes(t.dtype)) for t in graph.parameters if t.name in names and t.trainable
        )
        held = sum(graph.bytes_of(name) for name in saved(graph, range(first, last)))
        return sum(t.forward_s for t in times), sum(t.backward_s for t in times), state, held * self.kept

    def least_seconds(self, graph):
        forward, backward, _, _ = self._parts(graph, 0, len(graph.operators))
        return forward + backward

    def _share(self, mesh):
        n = mesh.shape[0] * mesh.shape[1]
        return (1 + self.loss * np.log2(n) * (1.0 if mesh.shape[0] <= mesh.shape[1] else 1.1)) / n

    def intervals(self, graph, layers, mesh, recompute, microbatches):
        self.asked.append((mesh.shape, recompute, microbatches))
        n = len(layers)
        shape = (n, n, 1)
        values = [np.full(shape, np.inf) for _ in range(5)]
        for i in range(n):
            for j in range(i, n):
                plan = self.stage(graph, layers[i][0], layers[j][1], mesh, recompute, microbatches, 1, 1e30)
                micro = plan.forward_s + plan.backward_input_s
                row = (micro, plan.reduce_s, plan.state_bytes, plan.activation_bytes, plan.work_bytes)
                for k, value in enumerate(row):
                    values[k][i, j, 0] = value
        return Prices(*values)

    def stage(self, graph, first, last, mesh, recompute, microbatches, held, memory_bytes):
        forward, backward, state, kept = self._parts(graph, first, last)
        share, n = self._share(mesh), mesh.shape[0] * mesh.shape[1]
        kept = kept * KEPT[recompute] / n
        if state / n + held * kept > memory_bytes * (1 + 1e-9):
            raise InfeasibleError("too much")
        names = {name: "R" for op in graph.operators[first:last] for name in op.inputs if name in graph.tensors}
        entry = {op.name: OperatorEntry(axes=("", ""), result="R", operands=("R",) * len(op.inputs))
                 for op in graph.operators[first:last]}  # fmt: skip
        return StagePlan(
            forward * share, (backward + AGAIN[recompute] * forward) * share, 0.0, 1e-4 * np.log2(n), 0.0,
            state / n, kept, 0.0, entry, {}, names,
        )  # fmt: skip
