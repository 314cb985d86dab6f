"""`SliceStage`: a stage that runs microbatches one slice of their tokens at a time.

Forward, slices run from first to last: the keys and values of a slice are kept beside those of earlier slices, and
attention reads all of them. Backward, they run from last to first: what a slice contributes to the gradients of earlier
slices' keys and values is added up until those slices run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ....errors import RunError
from ..optimizer import Stepping
from ..stage.layout import OperatorRun
from ..stage.runner import StageRunner
from ..stage.tape import Passing
from ..wires.comm import MeshComm
from ..wires.layout import local_shape
from .layout import SliceLayout, token_dims
from .turns import Turn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SliceStage"]


class SliceStage(StageRunner):
    """Runs one stage by token slices. Where the base class counts microbatches, this class counts slices (turns).

    Parameters
    ----------
    slices : SliceLayout
        The stage's operators, by slice.
    turns : sequence of Turn
        All slices of an iteration.
    comm, parameter, optimizer, loss, redo
        As in `StageRunner`.
    inputs : callable
        (name, microbatch) -> the whole input.
    """

    def __init__(
        self, slices: SliceLayout, turns: Sequence[Turn], comm: MeshComm, *, inputs: Callable[[str, int], Tensor],
        parameter: Callable[[str], Tensor], optimizer: Stepping, loss: str, redo: tuple[tuple[int, ...], ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            slices.any, comm, inputs=lambda name, turn: inputs(name, turns[turn].microbatch), parameter=parameter,
            optimizer=optimizer, microbatches=turns[-1].microbatch + 1, loss=loss, redo=redo,
        )  # fmt: skip
        self.slices, self.turns, self.tokens = slices, turns, slices.tokens
        self._carried: dict[tuple[int, str], Tensor] = {}  # (microbatch, value) -> of all slices so far
        self._due: dict[tuple[int, str], Tensor] = {}  # (microbatch, value) -> gradients that later slices found
        self._counted: dict[int, float] = {}  # microbatch -> labels that count
        names = [run.op.name for run in self.layout.operators]
        self._inputs_with_tokens = frozenset(self.tokens.values) - {*names, *self.layout.received}
        self._at_loss = names.index(loss) if loss in names else -1

    def run_of(self, microbatch: int, i: int) -> OperatorRun:
        """How an operator runs on a slice."""
        return self.slices.operators(self.turns[microbatch])[i]

    def weight(self, microbatch: int) -> float:
        """Weight of a slice's loss in the iteration's.

        Where labels may be ignored, a slice's loss is a sum over its labels, to be divided by the labels that count in
        the whole sequence; else it is already divided by all tokens of the sequence.
        """
        turn = self.turns[microbatch]
        loss = self.layout.operators[self._at_loss].op
        if self._at_loss < 0 or "ignore_index" not in loss.attributes or loss.attributes.get("reduction") == "sum":
            return turn.share
        if turn.microbatch not in self._counted:
            labels = self.inputs(loss.inputs[1], microbatch)
            left_out = int(cast("int", loss.attributes["ignore_index"]))
            self._counted[turn.microbatch] = float(labels.numel() - labels.eq(left_out).sum())
        return turn.share / self._counted[turn.microbatch]

    def samples_of(self, microbatch: int) -> tuple[int, int]:
        """The first sample of a slice's microbatch in the iteration, and how many it has."""
        turn = self.turns[microbatch]
        return sum(t.samples for t in self.turns if t.last and t.microbatch < turn.microbatch), turn.samples

    # Forward: what later slices read is kept beside that of earlier ones.

    def forward(self, microbatch: int, received: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a slice; returns the values that other stages read.

        Raises
        ------
        RunError
            If an earlier slice of its microbatch has not run.
        """
        turn = self.turns[microbatch]
        if turn.slice and microbatch - 1 not in self._running:
            raise RunError(
                f"stage {self.layout.number}: slice {turn.slice} of microbatch {turn.microbatch} is too early"
            )
        if turn.slice == 0:
            self._counted.pop(turn.microbatch, None)
        for name, x in received.items():
            self._carry(turn, name, x)
        return super().forward(microbatch, received)

    def recall(self, microbatch: int, values: Mapping[str, Tensor]) -> None:
        """Set keys and values of whole sequences, as if earlier slices had run: for measuring a slice alone."""
        for name, x in values.items():
            key = self.turns[microbatch].microbatch, name
            self._carried[key], self._due[key] = x, x.new_zeros(x.shape)

    def _operate(self, kept: Passing, i: int, microbatch: int, *, tape: bool, again: bool = False) -> None:
        super()._operate(kept, i, microbatch, tape=tape, again=again)
        name = self.layout.operators[i].op.name
        self._carry(self.turns[microbatch], name, kept.values[name])

    def _carry(self, turn: Turn, name: str, x: Tensor) -> None:
        if name not in self.tokens.carried:
            return
        (d,) = self.tokens.values[name]
        key = turn.microbatch, name
        if key not in self._carried:
            self._carried[key] = x.new_empty((*x.shape[:d], self.tokens.length, *x.shape[d + 1 :]))
        self._carried[key].narrow(d, turn.offset, turn.length).copy_(x)

    def _read(self, kept: Passing, run: OperatorRun, k: int, microbatch: int) -> Tensor:
        """An operand of a slice: the slice's tokens or, where attention reads keys and values, all up to its end."""
        turn, name = self.turns[microbatch], run.op.inputs[k]
        cut = token_dims(run.op.parsed.operands[k], self.tokens.loops.get(run.op.name, {}))
        if self._looks_back(run, k):
            (d,) = cut
            # `.data` shares the memory but not autograd's count of changes, which would refuse the backward pass: the
            # buffer changes later, but only where later slices put their tokens, which this slice does not read.
            every = self._carried[turn.microbatch, name].data
            return run.operands[k].run(self.comm, every.narrow(d, 0, turn.offset + turn.length))
        x = self._value(kept, name, microbatch)
        if name in self._inputs_with_tokens:
            return run.operands[k].run(self.comm, _narrow(x, cut, turn))
        x = run.operands[k].run(self.comm, x)
        return x if name in self.tokens.values else _narrow(x, cut, turn)

    def _looks_back(self, run: OperatorRun, k: int) -> bool:
        """Whether an operand covers this slice and all before it (keys and values do)."""
        name = run.op.inputs[k]
        cut = token_dims(run.op.parsed.operands[k], self.tokens.loops.get(run.op.name, {}))
        return name in self.tokens.carried and list(cut.values()) == ["key"]

    # Backward: what is found for earlier slices waits for them.

    def backward(self, microbatch: int, gradients: Mapping[str, Tensor], *, weights: bool = True) -> dict[str, Tensor]:
        """Run a slice's backward pass; returns the gradients of the values that were received.

        Raises
        ------
        RunError
            If a later slice of its microbatch has not run its backward pass yet.
        """
        turn = self.turns[microbatch]
        if not turn.last and microbatch + 1 in self._running:
            raise RunError(
                f"stage {self.layout.number}: slice {turn.slice} of microbatch {turn.microbatch} goes back too early"
            )
        found = super().backward(microbatch, gradients, weights=weights)
        for name in self.layout.received:
            late = self._late(name, turn)
            if late is not None:
                found[name] = found[name] + late
        if turn.slice == 0:
            for store in (self._carried, self._due):
                for key in [key for key in store if key[0] == turn.microbatch]:
                    del store[key]
        return found

    def _late(self, name: str, turn: Turn) -> Tensor | None:
        """What later slices and this one contributed to the gradient of this slice's keys or values."""
        due = self._due.get((turn.microbatch, name))
        if due is None:
            return None
        (d,) = self.tokens.values[name]
        return due.narrow(d, turn.offset, turn.length)

    def _gradient_of(self, name: str, found: dict[str, Tensor], microbatch: int) -> Tensor | None:
        own, late = found.pop(name, None), self._late(name, self.turns[microbatch])
        return late if own is None else own if late is None else own + late

    def _hand_back(self, run: OperatorRun, k: int, gradient: Tensor, found: dict[str, Tensor], microbatch: int) -> None:
        turn, name = self.turns[microbatch], run.op.inputs[k]
        if self._looks_back(run, k):
            gradient = run.back[k].run(self.comm, gradient)
            key = turn.microbatch, name
            if key not in self._due:
                self._due[key] = self._carried[key].new_zeros(self._carried[key].shape)
            (d,) = self.tokens.values[name]
            self._due[key].narrow(d, 0, turn.offset + turn.length).add_(gradient)
            return
        if name not in self.tokens.values:
            gradient = self._widened(run, k, gradient, turn)
        super()._hand_back(run, k, gradient, found, microbatch)

    def _keep(self, run: OperatorRun, k: int, gradient: Tensor, microbatch: int) -> None:
        super()._keep(run, k, self._widened(run, k, gradient, self.turns[microbatch]), microbatch)

    def _widened(self, run: OperatorRun, k: int, gradient: Tensor, turn: Turn) -> Tensor:
        """Pad the gradient of a tensor of which a slice read some rows (position embeddings) with zeros elsewhere."""
        dims = run.op.parsed.operands[k]
        cut = token_dims(dims, self.tokens.loops.get(run.op.name, {}))
        if not cut:
            return gradient
        shape = local_shape(run.op.shape_of(dims), run.layouts[k], self.comm.shape, run.op.name)
        whole = gradient.new_zeros(shape)
        _narrow(whole, cut, turn).copy_(gradient)
        return whole


def _narrow(x: Tensor, cut: Mapping[int, str], turn: Turn) -> Tensor:
    """The rows of a slice; where the dimension is one of keys, all rows up to the slice's end."""
    for d, role in cut.items():
        x = x.narrow(d, turn.offset, turn.length) if role == "query" else x.narrow(d, 0, turn.offset + turn.length)
    return x
