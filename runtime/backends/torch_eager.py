"""torch's own kernels, called one by one: with oneDNN (torch's default), without it, and with channels last."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from ...profiles.backends import Backend, Compiled, SingleRule, is_op, wildcard
from .flat import flat

__all__ = ["TorchNative", "TorchNhwc", "TorchOneDnn"]

NATIVE = frozenset(
    {
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        *("linear", "matmul", "bmm", "mm", "addmm", "gelu", "batch_norm", "layer_norm", "softmax"),
        *("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"),
    }
)
"""Operators for which torch asks oneDNN at all, or might."""


class TorchOneDnn(Backend):
    """torch as it is: oneDNN for convolutions and products, its own kernels for all else. It takes every operator."""

    name = "torch-onednn"
    rule = SingleRule()

    def version(self) -> str:
        """Of torch."""
        import torch

        return torch.__version__

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """Its operators as one function."""
        del example
        return flat(subgraph)


class TorchNative(TorchOneDnn):
    """torch with oneDNN switched off, by a global flag that holds while its units run."""

    name = "torch-native"
    rule = SingleRule(NATIVE)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """The flag. ``torch.backends.mkldnn.flags`` would set others, too, at ten times the price."""
        import torch

        before = torch.backends.mkldnn.enabled
        torch.backends.mkldnn.enabled = False
        try:
            yield
        finally:
            torch.backends.mkldnn.enabled = before


class TorchNhwc(Backend):
    """torch with channels last: units of 4-D convolution and pooling convert what they read and what they give."""

    name = "torch-nhwc"
    conv = is_op("conv2d")(wildcard(), wildcard()).has_attr({"ndim": 4})
    norm = is_op("batch_norm")(conv)
    patterns = (
        conv,
        norm,
        is_op("relu")(norm | conv) | is_op("relu6")(norm) | is_op("hardtanh")(norm),
        is_op("relu")(is_op("add")(norm, wildcard())),
        is_op("max_pool2d")(wildcard()),
        is_op("avg_pool2d")(wildcard()),
    )

    def version(self) -> str:
        """Of torch."""
        import torch

        return torch.__version__

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A function that converts, computes and converts back."""
        import torch

        def last(tensor: Any) -> Any:
            return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

        run = flat(subgraph, last)
        del example

        def converted(*tensors: Any) -> tuple[Any, ...]:
            return tuple([one.contiguous() for one in run(*map(last, tensors))])

        return converted
