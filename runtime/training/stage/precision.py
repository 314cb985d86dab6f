"""`Precision`: what of a run is computed in half precision, and what stays in float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ....profiles.graph import Graph, Operator
from ....profiles.graph.compute.loops import Local
from ....profiles.graph.compute.operators import compute, contraction_gradient
from ....simulator.training.plan.file import TrainingPlan
from ..graphs.microbatch_parts import is_uneven
from ..wires.edges import Edge

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PRECISIONS", "Precision", "check_precision"]

PRECISIONS: Mapping[str, str] = MappingProxyType({"full": "", "bf16": "bfloat16", "fp16": "float16"})
"""Option -> the type of what is computed; empty: the run's own."""

SUMMED = frozenset({"norm", "softmax", "loss", "reduction", "attention", "gate"})
"""Kinds that are computed in float32 from half-precision operands, as torch's kernels of these do inside; their results
are rounded once."""

HALF = ("float16", "bfloat16")


def check_precision(word: str, dtype: str, plan: TrainingPlan) -> None:
    """Refuse a precision that a plan is not run in.

    Raises
    ------
    InputError
        On an unknown word, masters that would not be float32, or a plan of token slices or of unequal microbatches.
    """
    if word not in PRECISIONS:
        raise InputError(f"run: precision: expected {', '.join(PRECISIONS)} (got {word!r})")
    if word == "full":
        return
    if dtype != "float32":
        raise InputError(f"run: precision: {word} keeps weights in float32; expected dtype float32 (got {dtype!r})")
    if plan.slices or is_uneven(plan):
        what = "token slices" if plan.slices else "stages of unequal microbatches"
        raise InputError(f"run: precision: a plan of {what} runs in full precision only (got {word!r})")


@dataclass(frozen=True, slots=True)
class Precision:
    """Types of a run's weights and results.

    Weights that are trained are kept twice: in half precision, as operators read them, and as float32 masters, which
    the optimiser steps. Gradients of weights are added up over microbatches and devices in float32. Losses and single
    numbers stay in float32.

    Parameters
    ----------
    low : str
        ``"bfloat16"``, ``"float16"``, or empty: everything is of the run's type.
    typed : bool
        Whether the graph names half-precision types of its own. Then they say what is half precision, and what they
        have in float32 stays so; else everything is but losses and single numbers.
    plain : frozenset of str
        Inputs that stay as they are given.
    """

    low: str = ""
    typed: bool = False
    plain: frozenset[str] = frozenset()

    @classmethod
    def of(cls, word: str, graph: Graph) -> Precision:
        """The precision that a run's option names, one of `PRECISIONS`."""
        typed = any(x.dtype in HALF for x in (*graph.parameters, *graph.operators))
        plain = frozenset(t.name for t in graph.inputs if typed and t.dtype not in HALF)
        return cls(PRECISIONS[word], typed, plain)

    @property
    def half(self) -> Any:
        """torch's half-precision type."""
        import torch

        return getattr(torch, self.low)

    def kept_low(self, dtype: str, trained: bool) -> bool:
        """Whether a parameter, of this type in the graph, is kept in half precision between iterations."""
        return bool(self.low) and (dtype in HALF if self.typed else trained)

    def lowered(self, name: str, x: Tensor) -> Tensor:
        """An input of the graph, as operators read it."""
        stays = not self.low or not x.is_floating_point() or name in self.plain
        return x if stays else x.to(self.half)

    def compute(self, local: Local, operands: Sequence[Tensor]) -> Tensor:
        """The result of an operator, computed and rounded as this precision says."""
        import torch

        if not self.low:
            return compute(local, operands)
        result = torch.float32 if self._stays(local.op) else self.half
        work = torch.float32 if local.op.kind in SUMMED else result
        made = compute(local, [x.to(work) if x.is_floating_point() else x for x in operands])
        return made.to(result) if made.is_floating_point() else made

    def contraction_gradient(self, local: Local, operands: Sequence[Tensor], k: int, gradient: Tensor) -> Tensor:
        """Gradient of a contraction's k-th operand, of that operand's type."""
        if not self.low:
            return contraction_gradient(local, operands, k, gradient)
        found = contraction_gradient(local, [x.to(gradient.dtype) for x in operands], k, gradient)
        return found.to(operands[k].dtype)

    def summed(self, gradient: Tensor) -> Tensor:
        """A weight's gradient of one microbatch, as it is added to others: a tensor of its own."""
        return gradient.float() if self.low and gradient.element_size() == 2 else gradient.clone()

    def sent(self, edges: Iterable[Edge], graph: Graph) -> list[Edge]:
        """Edges between stages, with the type of those whose values stay in float32."""
        wide = {op.name for op in graph.operators if self.low and self._stays(op)}
        return [replace(edge, dtype="float32") if edge.name in wide and not edge.dtype else edge for edge in edges]

    def tied(self, edges: Iterable[Edge]) -> list[Edge]:
        """Edges of gradients of shared parameters, which are sums in float32."""
        return [replace(edge, dtype="float32") if self.low else edge for edge in edges]

    def _stays(self, op: Operator) -> bool:
        """Whether a result is kept in float32."""
        return op.kind == "loss" or not op.shape or (self.typed and op.dtype not in HALF)
