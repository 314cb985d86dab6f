"""`StageRunner`: runs one stage on one device: forward pass, backward pass, gradient reduction and update.

The backward pass can be run in two halves, to the inputs and to the weights, as zero-bubble schedules need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ....errors import RunError
from ....profiles.graph.compute.draws import Draws, draws_at_random
from ....profiles.graph.compute.loops import Local
from ....profiles.graph.running import updated
from ..optimizer import Shard, Step, Stepping
from ..wires.bundles import run_bundled
from ..wires.comm import Axes, MeshComm
from ..wires.layout import Layout, whole
from ..wires.routes import Route, route
from .layout import OperatorRun, StageLayout
from .precision import Precision
from .tape import Passing, Taped, hidden_results

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["StageRunner"]


Slot = tuple[str, str, Layout, Axes]
"""One use of a parameter: its name, the operator, the layout in which that reads it, and the axes along which gradients
of this use are partial sums. Gradients of one slot can be added up before they are summed over devices."""


class StageRunner:
    """Holds one device's shards of a stage, and computes with them.

    Parameters
    ----------
    layout : StageLayout
        The stage's operators, layouts and routes.
    comm : MeshComm
        The collectives of the stage's mesh.
    inputs : callable
        (name, microbatch) -> the whole input.
    parameter : callable
        Name -> the whole parameter's initial value.
    optimizer : Stepping
        Makes the steps.
    microbatches : int
        Microbatches of an iteration; gradients are their mean.
    loss : str
        Name of the graph's loss.
    redo : sequence of sequence of int, optional
        Groups of operators, by position in the stage, whose results are recomputed in the backward pass.
    precision : Precision, optional
        What is computed in half precision; by default nothing.
    """

    def __init__(
        self, layout: StageLayout, comm: MeshComm, *, inputs: Callable[[str, int], Tensor],
        parameter: Callable[[str], Tensor], optimizer: Stepping, microbatches: int, loss: str,
        redo: tuple[tuple[int, ...], ...] = (), precision: Precision | None = None,
    ) -> None:  # fmt: skip
        self.layout, self.comm, self.inputs = layout, comm, inputs
        self.precision = precision or Precision()
        self.optimizer, self.microbatches, self.loss = optimizer, microbatches, loss
        self.weights: dict[str, Tensor] = {}
        self.masters: dict[str, Tensor] = {}
        """Float32 masters of weights that are kept in half precision, in the layout of their optimiser states."""
        self.steps: dict[str, Step] = {}
        mesh, every = layout.mesh, layout.parameters.items()
        self._to_state = {n: route(p.storage, p.state, p.full, p.itemsize, mesh, (), True) for n, p in every}
        self._to_storage = {n: route(p.state, p.storage, p.full, p.itemsize, mesh, (), True) for n, p in every}
        comm.phase = "setup"
        for name, p in every:
            lie = route(whole(len(p.full)), p.storage, p.full, p.itemsize, mesh)
            self.weights[name] = lie.run(comm, parameter(name)).clone()
            if p.trained:  # frozen weights and buffers are read, and never stepped
                mine = self._to_state[name].run(comm, self.weights[name])
                self.steps[name] = optimizer.begin(name, mine, self._shard(name))
            if self.weights[name].is_floating_point() and self.precision.kept_low(p.dtype, p.trained):
                if p.trained:
                    self.masters[name] = self._to_state[name].run(comm, self.weights[name]).clone()
                self.weights[name] = self.weights[name].to(self.precision.half)
        self._seed, self._iteration = 0, 0
        self._running: dict[int, Passing] = {}
        self._parts: dict[Slot, Tensor] = {}
        self.gradients: dict[str, Tensor] = {}
        self.losses: dict[int, float] = {}
        self._redo = {i: group for group in redo for i in group}
        self._firsts = {run.twin for run in layout.operators if run.twin >= 0}
        self._hidden = hidden_results(layout, redo) - {loss}

    def begin(self, seed: int, iteration: int) -> None:
        """Say which iteration comes: what operators draw at random in it follows from it and the seed."""
        self._seed, self._iteration = seed, iteration

    # A microbatch's life: `forward`, then `backward`, which does both halves or leaves one to `backward_weights`.

    def forward(self, microbatch: int, received: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a microbatch's forward pass; returns the values that other stages read.

        Parameters
        ----------
        microbatch : int
            Number of the microbatch.
        received : mapping
            Name of a value of another stage -> this device's shard of it.
        """
        self.comm.phase = "forward"
        kept = self._running[microbatch] = Passing(dict(received))
        for i in range(len(self.layout.operators)):
            self._operate(kept, i, microbatch, tape=i not in self._redo)
        if self.loss in kept.values:
            self.losses[microbatch] = float(kept.values[self.loss])
        out = {name: kept.values[name] for name in self.layout.sent}
        for name in self._hidden:
            del kept.values[name]
        kept.copies.clear()
        return out

    def _operate(self, kept: Passing, i: int, microbatch: int, *, tape: bool, again: bool = False) -> None:
        """Run an operator and, if `tape`, keep what its backward pass needs.

        Gathered operands are dropped, to be gathered again, but not where the operator itself is being recomputed
        (`again`): its backward pass follows at once.
        """
        import torch

        run = self.run_of(microbatch, i)
        drop = tape and not again and any(run.again)
        operands = [self._operand(kept, i, k, microbatch) for k in range(len(run.op.inputs))]
        leaves = [
            x.requires_grad_() if w and tape and not drop else x for x, w in zip(operands, run.wants, strict=True)
        ]
        statistics: list[Tensor] = []
        self.comm.record = statistics if drop else None
        with torch.set_grad_enabled(tape and not drop):
            made = self.precision.compute(self._local(run, microbatch, first=not again), leaves)
        self.comm.record = None
        if drop:
            left = [None if a else x for a, x in zip(run.again, leaves, strict=True)]
            kept.tape[i] = Taped(run, left, None, statistics)
        elif tape and any(run.wants):
            kept.tape[i] = Taped(run, list(leaves), made)
        kept.values[run.op.name] = run.result.run(self.comm, made.detach())

    def _operand(self, kept: Passing, i: int, k: int, microbatch: int) -> Tensor:
        """An operand in the layout in which the operator reads it, detached: a leaf of the operator's own graph."""
        run = self.run_of(microbatch, i)
        first = run.twin if run.twin >= 0 else i
        if k == 0 and first in kept.copies:
            return kept.copies[first].detach()
        x = self._read(kept, run, k, microbatch).detach()
        if k == 0 and first in self._firsts:
            kept.copies[first] = x
        return x.detach()

    def run_of(self, microbatch: int, i: int) -> OperatorRun:
        """How an operator runs on a microbatch."""
        return self.layout.operators[i]

    def weight(self, microbatch: int) -> float:
        """Weight of a microbatch's loss in the iteration's mean."""
        return 1.0 / self.microbatches

    def samples_of(self, microbatch: int) -> tuple[int, int]:
        """The microbatch's first sample in the iteration, and how many it has."""
        return microbatch * self.layout.samples, self.layout.samples

    def _local(self, run: OperatorRun, microbatch: int, *, first: bool = False) -> Local:
        """The operator, with what it draws; the first time that it runs, a norm's running statistics see it."""
        running = run.op.running
        if first and running is not None and running.mean in self.weights:
            return replace(run.local, noted=partial(updated, run.op, self.weights))
        if not draws_at_random(run.op):
            return run.local
        draws = Draws(self._seed, self._iteration, *self.samples_of(microbatch))
        return replace(run.local, draws=draws)

    def _read(self, kept: Passing, run: OperatorRun, k: int, microbatch: int) -> Tensor:
        """An operand, brought to the layout in which the operator reads it."""
        return run.operands[k].run(self.comm, self._value(kept, run.op.inputs[k], microbatch))

    def _value(self, kept: Passing, name: str, microbatch: int) -> Tensor:
        if name in kept.values:
            return kept.values[name]
        if name in self.weights:
            return self.weights[name]
        kept.values[name] = self.precision.lowered(name, self.inputs(name, microbatch))
        return kept.values[name]

    def backward(self, microbatch: int, gradients: Mapping[str, Tensor], *, weights: bool = True) -> dict[str, Tensor]:
        """Run a microbatch's backward pass; returns the gradients of the values that were received.

        Parameters
        ----------
        microbatch : int
            Number of the microbatch.
        gradients : mapping
            Name of a value that other stages read -> this device's shard of its gradient.
        weights : bool
            Whether to compute the weights' gradients too, or to leave them to `backward_weights`.
        """
        import torch

        self.comm.phase = "backward"
        kept = self._running[microbatch]
        found = dict(gradients)
        if self.loss in kept.values:
            found[self.loss] = torch.full_like(kept.values[self.loss], self.weight(microbatch))
        for i in range(len(self.layout.operators) - 1, -1, -1):
            run = self.run_of(microbatch, i)
            if i in self._redo and i not in kept.tape and any(run.wants):
                for j in self._redo[i]:
                    self._operate(kept, j, microbatch, tape=True, again=True)
                kept.copies.clear()
            gradient = self._gradient_of(run.op.name, found, microbatch)
            taped = kept.tape.pop(i, None)
            if gradient is not None and taped is not None:
                self._back(kept, i, taped, run.result.back(self.comm, gradient), found, weights, microbatch)
            if i in kept.shared:  # backward, the first of the operators that share a copy is the last to add to it
                self._hand_back(run, 0, kept.shared.pop(i), found, microbatch)
            kept.copies.pop(i, None)
        # A sender waits for a gradient of everything that it sent, also where the loss does not depend on it.
        unread = [name for name in self.layout.received if name not in found]
        found |= {name: torch.zeros_like(kept.values[name]) for name in unread}
        if weights:
            del self._running[microbatch]
        else:
            kept.values.clear()
        return found

    def _back(
        self, kept: Passing, i: int, taped: Taped, gradient: Tensor, found: dict[str, Tensor], weights: bool,
        microbatch: int,
    ) -> None:  # fmt: skip
        run = taped.run
        if taped.made is None:
            for k, x in enumerate(taped.operands):
                if x is None:
                    taped.operands[k] = self._operand(kept, i, k, microbatch)
        of_weights = [k for k, name in enumerate(run.op.inputs) if run.wants[k] and name in self.weights]
        of_values = [k for k, name in enumerate(run.op.inputs) if run.wants[k] and name not in self.weights]
        split = not weights and bool(of_weights)
        if split:
            kept.weights.append((taped, gradient))
        now = of_values if split else [*of_values, *of_weights]
        for k, g in self._gradients(taped, now, gradient, split, microbatch):
            if k in of_weights:
                self._keep(run, k, g, microbatch)
            elif k == 0 and (run.twin >= 0 or i in self._firsts):
                at = run.twin if run.twin >= 0 else i
                kept.shared[at] = kept.shared[at] + g if at in kept.shared else g
            else:
                self._hand_back(run, k, g, found, microbatch)

    def _gradient_of(self, name: str, found: dict[str, Tensor], microbatch: int) -> Tensor | None:
        """The gradient of a result; complete, since all operators that read the result have run backward."""
        return found.pop(name, None)

    def _hand_back(self, run: OperatorRun, k: int, gradient: Tensor, found: dict[str, Tensor], microbatch: int) -> None:
        """Bring an operand's gradient to the layout in which the operand is stored, and add it to what is there."""
        self._found(found, run.op.inputs[k], run.back[k].run(self.comm, gradient))

    @staticmethod
    def _found(found: dict[str, Tensor], name: str, gradient: Tensor) -> None:
        found[name] = found[name] + gradient if name in found else gradient

    def _gradients(
        self, taped: Taped, operands: list[int], gradient: Tensor, split: bool, microbatch: int
    ) -> list[tuple[int, Tensor]]:  # fmt: skip
        """This device's gradients of some operands, before any sum over devices."""
        import torch

        if not operands:
            return []
        run = taped.run
        # Gradients of products need the operands only: without a taped result, computing it again would be wasted.
        if taped.made is None and run.op.kind in ("contraction", "dispatch"):
            xs = [x for x in taped.operands if x is not None]
            return [(k, self.precision.contraction_gradient(run.local, xs, k, gradient)) for k in operands]
        made = taped.made
        if made is None:
            for k, wants in enumerate(run.wants):
                x = taped.operands[k]
                if wants and x is not None:
                    x.requires_grad_()
            self.comm.replay = list(taped.statistics)
            with torch.enable_grad():
                xs = [x for x in taped.operands if x is not None]
                made = self.precision.compute(self._local(run, microbatch), xs)
            self.comm.replay = None
            if split:
                taped.made = made
        leaves = [x for k in operands if (x := taped.operands[k]) is not None]
        back = torch.autograd.grad(made, leaves, gradient, retain_graph=split)
        return list(zip(operands, back, strict=True))

    def backward_weights(self, microbatch: int) -> None:
        """Compute the weights' gradients of a microbatch whose `backward` left them out."""
        self.comm.phase = "backward"
        for taped, gradient in self._running.pop(microbatch).weights:
            run = taped.run
            mine = [k for k, name in enumerate(run.op.inputs) if run.wants[k] and name in self.weights]
            for k, g in self._gradients(taped, mine, gradient, False, microbatch):
                self._keep(run, k, g, microbatch)

    def _keep(self, run: OperatorRun, k: int, gradient: Tensor, microbatch: int) -> None:
        """Add a microbatch's gradient of a weight to those of earlier microbatches."""
        slot = (run.op.inputs[k], run.op.name, run.layouts[k], run.lacks[k])
        if slot in self._parts:
            self._parts[slot].add_(gradient)
        else:
            self._parts[slot] = self.precision.summed(gradient)

    # Once an iteration.

    def reduce(self) -> None:
        """Sum the weights' gradients over devices, into the layout of each parameter's optimiser state."""
        if self._running:
            raise RunError(f"stage {self.layout.number}: microbatches {sorted(self._running)} have no backward pass")
        self.comm.phase = "reduce"
        self.gradients = {}
        routes: list[Route] = []
        for name, _, layout, lacks in self._parts:
            p = self.layout.parameters[name]
            routes.append(route(layout, p.state, p.full, p.itemsize, self.layout.mesh, lacks, True))
        totals = run_bundled(self.comm, routes, list(self._parts.values()))
        for (name, *_), total in zip(self._parts, totals, strict=True):
            self.gradients[name] = self.gradients[name] + total if name in self.gradients else total
        self._parts = {}

    def update(self, iteration: int, scale: float = 1.0) -> None:
        """Step every parameter that has a gradient; gather weights whose state is sharded further than they are.

        Parameters
        ----------
        iteration : int
            From 0.
        scale : float
            What gradients are multiplied by (`own.clipping`).
        """
        self.comm.phase = "update"
        names = list(self.gradients)
        plain = [name for name in names if name not in self.masters]
        parts = run_bundled(self.comm, [self._to_state[n] for n in plain], [self.weights[n] for n in plain])
        masters = {**self.masters, **dict(zip(plain, parts, strict=True))}
        states = [masters[name] for name in names]
        for name, mine in zip(names, states, strict=True):
            gradient = self.gradients[name]
            self.steps[name].apply(mine, gradient if scale == 1.0 else gradient * scale, iteration)
        new = [x.to(self.weights[name].dtype) for name, x in zip(names, states, strict=True)]
        whole = run_bundled(self.comm, [self._to_storage[n] for n in names], new)
        self.weights.update(zip(names, whole, strict=True))

    def counts_for(self, name: str) -> bool:
        """Whether, of the devices that hold the same part of a gradient, this is the first."""
        cut = {axis for axes in self.layout.parameters[name].state for axis in axes}
        return all(place == 0 for axis, place in enumerate(self.comm.place) if axis not in cut)

    def _shard(self, name: str) -> Shard:
        p = self.layout.parameters[name]

        def add(x: Tensor, dims: tuple[int, ...]) -> Tensor:
            return self.comm.all_reduce(x, tuple(axis for d in dims for axis in p.state[d]))

        return Shard(p.full, add)

    @property
    def counts(self) -> Counter[str]:
        """Collectives so far: '<pass>.<collective>' -> number."""
        return Counter({name: n for name, n in self.comm.counts.items() if not name.startswith("setup.")})
