"""Whether a graph is a decoder of Llama's kind, which nanotron and torchtitan have a model for."""

from __future__ import annotations

from ....errors import InputError
from ....profiles.graph import Graph
from .shape import TransformerSizes, transformer_sizes
from .uniform import ELSE

__all__ = ["check_llama"]


def check_llama(graph: Graph, who: str) -> TransformerSizes:
    """Its sizes.

    Raises
    ------
    InputError
        If it is none; says what differs, and who has no model for it.
    """
    sizes = transformer_sizes(graph)
    missing = [
        what
        for what, there in (
            ("causal attention", sizes.causal), ("a gated MLP", sizes.gated), ("rotary positions", sizes.rotary),
            ("RMS norms", sizes.rms), ("no biases", not sizes.bias), ("no experts", not sizes.experts),
        )
        if not there
    ]  # fmt: skip
    if missing:
        raise InputError(f"export: {who} has models of Llama's kind: {graph.name} lacks {', '.join(missing)}; {ELSE}")
    return sizes
