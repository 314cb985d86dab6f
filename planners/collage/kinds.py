"""Kinds of operators by how they fuse: TVM's numbers, and the kind of an operator's name."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ...wording import short

__all__ = ["BROADCAST", "ELEMENTWISE", "INJECTIVE", "KINDS", "OPAQUE", "OUT_FUSABLE", "REDUCTION", "TUPLE", "kind_of"]

ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSABLE, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8
KINDS = (ELEMENTWISE, BROADCAST, INJECTIVE, REDUCTION, OUT_FUSABLE, TUPLE, OPAQUE)

NAMES: dict[int, str] = {
    ELEMENTWISE: "elementwise elemwise kelemwise relu relu6 leaky_relu gelu silu swish hardswish hardsigmoid sigmoid "
    "tanh exp log sqrt rsqrt abs neg negative clip clamp cast pow power erf identity copy dropout",
    BROADCAST: "broadcast kbroadcast add subtract sub multiply mul divide div maximum minimum where bias_add",
    INJECTIVE: "injective kinjective view reshape transpose permute flatten batch_flatten squeeze unsqueeze "
    "expand_dims concatenate concat cat split slice strided_slice take pad resize upsample upsampling expand "
    "contiguous chunk",
    REDUCTION: "reduction reduce kcommreduce sum mean max min prod variance norm batch_norm batchnorm layer_norm "
    "layernorm softmax log_softmax argmax",
    OUT_FUSABLE: "out_fusable koutewisefusable contraction convolution attention conv conv1d conv2d conv3d "
    "conv2d_transpose conv3d_transpose conv_transpose2d conv_transpose3d dense linear matmul batch_matmul bmm addmm mm "
    "max_pool2d avg_pool2d max_pool3d avg_pool3d global_avg_pool2d adaptive_avg_pool2d",
    TUPLE: "tuple ktuple",
    OPAQUE: "opaque kopaque",
}
BY_NAME = {name: kind for kind, names in NAMES.items() for name in names.split()}
"""Name -> kind. Normalisations, softmax and reductions are 3, views 2, convolutions and products 4, as for the
operators of our graphs; pooling is 4, as TVM registers it."""


def kind_of(op: Any, at: str = "op") -> int:
    """The kind of an operator: its number itself, or that of its name, in lower case and without ``nn.`` or ``image.``.

    A name that is not known is opaque (8), as an operator is to TVM until somebody registers its kind.

    Raises
    ------
    InputError
        If a number is no kind.
    """
    if isinstance(op, str):
        return BY_NAME.get(op.lower().rpartition(".")[2], OPAQUE)
    if isinstance(op, bool) or op not in KINDS:
        raise InputError(f"{at}: expected a kind of operator, one of {', '.join(map(str, KINDS))} (got {short(op)})")
    return int(op)
