"""How freely an operator can be joined with others: TVM's kinds (its ``OpPatternKind``), by the operator's name."""

from __future__ import annotations

from .graph import Node

__all__ = [
    "BROADCAST",
    "ELEMENTWISE",
    "FUSABLE",
    "INJECTIVE",
    "OPAQUE",
    "REDUCTION",
    "kind_of",
]

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, FUSABLE, OPAQUE = 0, 1, 2, 3, 4, 8
"""Elementwise; with broadcasting; each result of one place of the operands; sums; may take elementwise operators
behind it; none of these. TVM's 7, tuples, does not occur: every node gives one tensor."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FUSABLE = _words(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linear matmul bmm mm addmm "
    "baddbmm scaled_dot_product_attention avg_pool2d avg_pool3d max_pool2d max_pool3d adaptive_avg_pool2d"
)
_REDUCTION = _words("sum mean softmax log_softmax layer_norm group_norm amax amin argmax var std cumsum")
_INJECTIVE = _words(
    "view reshape flatten transpose permute cat stack chunk split narrow slice select squeeze unsqueeze "
    "expand contiguous clone pad upsample_nearest2d upsample_bilinear2d pixel_shuffle t unflatten repeat"
)
_ELEMENTWISE = _words(
    "relu relu6 gelu silu hardswish hardsigmoid sigmoid tanh leaky_relu elu hardtanh exp log sqrt rsqrt "
    "neg abs clamp dropout erf reciprocal softplus mish to"
)
_ARITHMETIC = _words("add sub mul div pow maximum minimum rsub where masked_fill eq ne lt gt le ge")


def kind_of(node: Node) -> int:
    """An operator's kind. Arithmetic on operands of one shape is elementwise, on others a broadcast.

    Batch normalization in evaluation is a broadcast of its statistics; pooling counts as fusable, as in TVM.
    """
    if node.op in _FUSABLE:
        return FUSABLE
    if node.op in _REDUCTION:
        return REDUCTION
    if node.op in _INJECTIVE:
        return INJECTIVE
    if node.op in _ELEMENTWISE:
        return ELEMENTWISE
    if node.op in _ARITHMETIC:
        return ELEMENTWISE if all(shape == node.result.shape for shape in node.shapes) else BROADCAST
    return BROADCAST if node.op in ("batch_norm", "prelu") else OPAQUE
