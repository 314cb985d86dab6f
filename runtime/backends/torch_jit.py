"""TorchScript, frozen: with oneDNN Graph, or optimized for inference; graph libraries that come with torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...profiles.backends import GRAPH_LIBRARY, Backend, Compiled, TvmRule
from .dense import dense

__all__ = ["TorchJit", "TorchJitOptimized"]

WARM_UP = 4
"""Calls until its partitions are compiled: it looks at shapes and strides first, and compiles for what it saw."""


class TorchJit(Backend):
    """``torch.jit.trace``, ``freeze``, and oneDNN Graph's partitions (``enable_onednn_fusion``).

    The switch for oneDNN Graph is global; it is on while a unit is compiled and warmed up, and then as it was. A
    partition is compiled for the strides that it saw and takes others without a word, and wrongly: its callable makes
    every input contiguous.
    """

    name = "torch-jit"
    kind = GRAPH_LIBRARY
    rule = TvmRule()

    def version(self) -> str:
        """Of torch."""
        import torch

        return torch.__version__

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A frozen TorchScript module, warmed up."""
        import torch

        before = torch.jit.onednn_fusion_enabled()
        torch.jit.enable_onednn_fusion(True)
        try:
            return _warm(self._frozen(subgraph, example), example)
        finally:
            torch.jit.enable_onednn_fusion(before)

    def _frozen(self, subgraph: Any, example: Sequence[Any]) -> Any:
        import torch

        given = tuple(one.clone().contiguous() for one in example)
        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch.jit is deprecated, and works
            given = tuple(one.clone() for one in given)
            return torch.jit.freeze(torch.jit.trace(subgraph.eval(), given, check_trace=False))


class TorchJitOptimized(TorchJit):
    """``torch.jit.trace``, ``freeze`` and ``optimize_for_inference``, without oneDNN Graph."""

    name = "torch-jit-optimized"

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A frozen TorchScript module with oneDNN's layouts, warmed up."""
        import torch

        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = torch.jit.optimize_for_inference(self._frozen(subgraph, example))
        return _warm(run, example)


def _warm(run: Any, example: Sequence[Any]) -> Compiled:
    called = dense(run, example)
    for _ in range(WARM_UP):
        called(*example)
    return called
