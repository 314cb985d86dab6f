"""Graphs of several branches that meet at a concatenation: MMT, DLRM, CANDLE-Uno and a case study (GraphPipe §3.10.3).

Operators stand branch after branch, each branch reads an input of its own, and every layer has a `layer` tag of its
own. What the chapter leaves open (loss, head, number of layers after the interaction) is the builders' choice and said
in their docstrings. How many branches there are is a parameter: the chapter counts them in two ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....errors import InputError
from .builder import Builder, Model
from .transformer import Transformer, block, cross_entropy, linear, mlp
from .transformer import attention as self_attention

__all__ = ["DLRM", "MMT", "CandleUno", "CaseStudy"]


@dataclass(frozen=True, kw_only=True, repr=False)
class _Branches(Model):
    branches: int

    def __post_init__(self) -> None:
        if self.branches < 1:
            raise InputError(f"branches: expected a positive integer (got {self.branches})")


@dataclass(frozen=True, kw_only=True, repr=False)
class MMT(_Branches, Transformer):
    """Multi-modal transformer: branches of transformer layers, concatenated at the end.

    A branch reads features of its modality [batch, seq, hidden]: no vocabulary is printed. Its layers are encoder
    layers (norms before the blocks, not causal). The head takes the mean over positions and projects it to classes.
    A sample has one sequence of every modality.

    Parameters
    ----------
    branches, layers : int
        Branches, and transformer layers of each.
    ffn, classes : int
        Hidden size of the MLPs, and classes.
    hidden, heads, seq, attention, dtype
        As in `Transformer`.
    """

    branches: int = 4
    layers: int = 8
    hidden: int = 1024
    heads: int = 16
    ffn: int = 4096
    seq: int = 256
    classes: int = 1000
    dtype: str = "float32"

    def __post_init__(self) -> None:
        _Branches.__post_init__(self)
        Transformer.__post_init__(self)

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        heads, hidden, ffn = replace(self.attention_heads(), causal=False), self.hidden, self.ffn
        ends: list[str] = []
        for k in range(self.branches):
            x = b.input(f"features.{k}", self.seq, hidden, dtype=self.dtype)
            for i in range(self.layers):
                b.layer, at = k * self.layers + i, f"branches.{k}.layers.{i}"
                x = block(b, at, x, hidden, heads, lambda at, y: mlp(b, f"{at}.mlp", y, hidden, ffn))
            ends.append(x)
        b.layer = -1
        x = _joined(b, "b s", ends, [hidden] * self.branches)
        x = b.add("pool", "reduction", "b s h -> b h", x, fn="mean")
        x = linear(b, "head", x, "b h, h c -> b c", bias="c", h=self.branches * hidden, c=self.classes)
        cross_entropy(b, x, b.input("labels"), "b", "c")
        return 1, "samples"


@dataclass(frozen=True, kw_only=True, repr=False)
class CaseStudy(_Branches, Transformer):
    """The synthetic model of §3.7.4: in each branch one multi-head attention and two linear layers, four times.

    Sizes are not printed: they are MMT's. No norms and no residual sums, as described; a relu between the linear
    layers. There is nothing after the concatenation but the loss, the mean squared error.

    Parameters
    ----------
    branches, repeats : int
        Branches, and sequences of attention and two linear layers in each.
    ffn : int
        Width between the linear layers.
    hidden, heads, seq, attention, dtype
        As in `Transformer`.
    """

    branches: int = 2
    repeats: int = 4
    hidden: int = 1024
    heads: int = 16
    ffn: int = 4096
    seq: int = 256
    dtype: str = "float32"

    def __post_init__(self) -> None:
        _Branches.__post_init__(self)
        Transformer.__post_init__(self)

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        heads, hidden, ffn = replace(self.attention_heads(), causal=False), self.hidden, self.ffn
        ends: list[str] = []
        for k in range(self.branches):
            x = b.input(f"features.{k}", self.seq, hidden, dtype=self.dtype)
            for i in range(self.repeats):
                b.layer, at = k * self.repeats + i, f"branches.{k}.layers.{i}"
                x = self_attention(b, f"{at}.attention", x, hidden, heads)
                x = linear(b, f"{at}.up", x, "b s h, h f -> b s f", bias="f", h=hidden, f=ffn)
                x = b.add(f"{at}.relu", "elementwise", "b s f -> b s f", x, saves=(-1,), fn="relu")
                x = linear(b, f"{at}.down", x, "b s f, f h -> b s h", bias="h", h=hidden, f=ffn)
            ends.append(x)
        b.layer = -1
        x = _joined(b, "b s", ends, [hidden] * self.branches)
        goal = b.input("targets", self.seq, self.branches * hidden, dtype=self.dtype)
        _squared_error(b, x, goal, "b s h")
        return 1, "samples"


@dataclass(frozen=True, kw_only=True, repr=False)
class DLRM(_Branches):
    """DLRM: dense branches of feed-forward layers and sparse branches of embedding bags, concatenated.

    The rows that a bag names are concatenated, not summed: bag x width features. How many feed-forward layers follow
    the interaction is not printed: as many as in a dense branch. A projection to the two classes of a click ends it.

    Parameters
    ----------
    branches, sparse : int
        Dense branches; sparse branches, 0: as many.
    layers, hidden : int
        Feed-forward layers of a dense branch, and their width; dense features have this width, too.
    rows, width, bag : int
        Rows of an embedding table, their width, and how many of them a sample names.
    post : int
        Feed-forward layers after the concatenation.
    classes, dtype
        Classes, and the type of parameters and activations.
    """

    branches: int = 7
    sparse: int = 0
    layers: int = 4
    hidden: int = 4096
    rows: int = 1_000_000
    width: int = 64
    bag: int = 100
    post: int = 4
    classes: int = 2

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        hidden, sparse = self.hidden, self.sparse or self.branches
        ends = _dense(b, "dense", "dense", self.branches, self.layers, hidden)
        for k in range(sparse):
            b.layer, at = self.branches * self.layers + k, f"sparse.{k}"
            ids, table = b.input(f"{at}.rows", self.bag), b.parameter(f"{at}.weight", self.rows, self.width)
            x = b.add(at, "embedding", "v h, b s -> b s h", table, ids, saves=(1,))
            ends.append(b.add(f"{at}.bag", "view", "b s h -> b (s h)", x))
        b.layer = -1
        sizes = [hidden] * self.branches + [self.bag * self.width] * sparse
        x, size = _joined(b, "b", ends, sizes), sum(sizes)
        for i in range(self.post):
            b.layer = self.branches * self.layers + sparse + i
            x, size = _feed_forward(b, f"post.{i}", x, size, hidden), hidden
        b.layer = -1
        x = linear(b, "head", x, "b h, h c -> b c", bias="c", h=size, c=self.classes)
        cross_entropy(b, x, b.input("labels"), "b", "c")
        return 1, "samples"


@dataclass(frozen=True, kw_only=True, repr=False)
class CandleUno(_Branches):
    """CANDLE-Uno: branches of feed-forward layers, concatenated; a projection to the one value that is predicted.

    Features have the width of the layers. The loss is the mean squared error of a drug's response, as in CANDLE.

    Parameters
    ----------
    branches, layers, hidden : int
        Branches, feed-forward layers of each, and their width.
    dtype : str
        Of parameters and activations.
    """

    branches: int = 7
    layers: int = 4
    hidden: int = 4096

    def write(self, b: Builder) -> tuple[int, str]:
        """See `Model`."""
        ends = _dense(b, "features", "branches", self.branches, self.layers, self.hidden)
        b.layer = -1
        x = _joined(b, "b", ends, [self.hidden] * self.branches)
        x = linear(b, "head", x, "b h, h c -> b c", bias="c", h=self.branches * self.hidden, c=1)
        _squared_error(b, x, b.input("targets", 1, dtype=self.dtype), "b c")
        return 1, "samples"


def _dense(b: Builder, features: str, name: str, branches: int, layers: int, hidden: int) -> list[str]:
    """Branches of feed-forward layers, each from features of its own; their ends."""
    ends: list[str] = []
    for k in range(branches):
        x = b.input(f"{features}.{k}", hidden, dtype=b.dtype)
        for i in range(layers):
            b.layer = k * layers + i
            x = _feed_forward(b, f"{name}.{k}.layers.{i}", x, hidden, hidden)
        ends.append(x)
    return ends


def _feed_forward(b: Builder, name: str, x: str, size: int, out: int) -> str:
    """A projection with bias and relu."""
    x = linear(b, name, x, "b h, h f -> b f", bias="f", h=size, f=out)
    return b.add(f"{name}.relu", "elementwise", "b f -> b f", x, saves=(-1,), fn="relu")


def _joined(b: Builder, dims: str, parts: Sequence[str], sizes: Sequence[int]) -> str:
    """Branches one after another along the last dimension, which is then cut by nobody."""
    if len(parts) == 1:
        return parts[0]
    loops = [f"p{k}" for k in range(len(parts))]
    formula = ", ".join(f"{dims} {loop}" for loop in loops) + f" -> {dims} h"
    return b.add(
        "concat", "view", formula, *parts, whole=" ".join(("h", *loops)), sizes={"h": sum(sizes)}, fn="cat",
        dim=len(dims.split()),
    )  # fmt: skip


def _squared_error(b: Builder, x: str, goal: str, dims: str) -> None:
    b.add("loss", "loss", f"{dims}, {dims} ->", x, goal, saves=(0, 1), dtype="float32", fn="mse", reduction="mean")
