"""What a backend is: a name, a kind, what it takes, and a function that compiles a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

from .pattern import Pattern
from .rule import PatternRule

__all__ = ["GRAPH_LIBRARY", "KINDS", "OPERATOR_LIBRARY", "Backend", "Compiled"]

OPERATOR_LIBRARY, GRAPH_LIBRARY = "operator library", "graph library"
KINDS = (OPERATOR_LIBRARY, GRAPH_LIBRARY)

Compiled = Callable[..., tuple[Any, ...]]
"""Takes the tensors that a subgraph reads, of any strides, and gives a tuple of new tensors, one for each result."""


class Backend:
    """A kernel library or runtime that takes operators, patterns of them, or whole graphs.

    Give it a `name` and `compile`; all else has a default.

    Attributes
    ----------
    name : str
        By which users name it.
    kind : str
        ``"operator library"``: operators and fused patterns; ``"graph library"``: any subgraph, the whole graph too.
    extra : str
        The extra of Meshwright that brings what it needs; empty: none does.
    patterns : sequence of Pattern
        What it takes, one by one (Method 1).
    rule : PatternRule or None
        What it takes, by a rule (Method 2).
    """

    name: str = ""
    kind: Literal["operator library", "graph library"] = OPERATOR_LIBRARY
    extra: str = ""
    patterns: Sequence[Pattern] = ()
    rule: PatternRule | None = None

    def available(self) -> str:
        """Why it cannot be used here; empty if it can."""
        return ""

    def version(self) -> str:
        """Of what computes; costs are kept by it."""
        return "0"

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A callable that computes a subgraph.

        Parameters
        ----------
        subgraph : torch.fx.GraphModule
            Operators of aten with their parameters inside; it gives a tuple.
        example : sequence of torch.Tensor
            Inputs of the shapes, types and strides that it will get.
        """
        raise NotImplementedError(f"backend {self.name!r} has no compile(subgraph, example)")

    def held(self) -> AbstractContextManager[object]:
        """What must hold while its callables run, such as a global flag; entered once for units in a row."""
        return nullcontext()
