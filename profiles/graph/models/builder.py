"""`Builder`: writes a graph operator by operator; sizes and batch marks of loops come from the operands."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....errors import InputError
from ....reprs import Shown
from ..graph import Graph
from ..notation import Dims, parse
from ..operator import Loop, Operator, Scalar, Tensor

__all__ = ["Builder", "Model"]


@dataclass(repr=False)
class Builder(Shown):
    """A graph under construction.

    Parameters
    ----------
    name : str
        Name of the graph.
    batch : int
        Samples of one microbatch.
    dtype : str
        Of parameters and activations, where nothing else is said.
    """

    name: str
    batch: int = 1
    dtype: str = "float16"
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    parameters: list[Tensor] = field(default_factory=list[Tensor])
    operators: list[Operator] = field(default_factory=list[Operator])
    layer: int = -1
    """Tag of the operators added from here on."""
    known: dict[str, tuple[tuple[int, ...], tuple[bool, ...]]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], tuple[bool, ...]]]
    )
    """Name -> shape, and for each dimension whether it grows with the batch."""

    def input(self, name: str, *shape: int, dtype: str = "int64") -> str:
        """Add an input whose first dimension is the batch; `shape` is the rest."""
        full = (self.batch, *shape)
        self.inputs.append(Tensor(name, full, dtype, batch_dims=(0,)))
        self.known[name] = (full, (True, *(False for _ in shape)))
        return name

    def parameter(self, name: str, *shape: int) -> str:
        """Add a trainable parameter, once: a name that is there already is that parameter (weights read twice)."""
        if name not in self.known:
            self.parameters.append(Tensor(name, shape, self.dtype))
            self.known[name] = (shape, tuple(False for _ in shape))
        return name

    def add(
        self, name: str, kind: str, formula: str, *inputs: str, statistic: str = "", whole: str = "",
        sizes: Mapping[str, int] | None = None, saves: tuple[int, ...] = (), flops: float = -1.0,
        dtype: str | None = None, **attributes: Scalar,
    ) -> str:  # fmt: skip
        """Add an operator; its name is returned, to be read by others.

        Parameters
        ----------
        name, kind, formula, saves, flops, dtype
            As in `Operator`.
        *inputs : str
            Names of the tensors that it reads.
        statistic, whole : str
            Names of the loops that have these splits, separated by blanks.
        sizes : mapping, optional
            Trip counts that the operands do not tell.
        **attributes
            As in `Operator`.

        Raises
        ------
        InputError
            If the operands contradict each other or leave a loop without a size.
        """
        parsed = parse(formula)
        found: dict[str, int] = dict(sizes or {})
        grows: set[str] = set()
        if len(parsed.operands) != len(inputs):
            raise InputError(
                f"operator {name!r}: formula {formula!r} has {len(parsed.operands)} operands, not {inputs}"
            )
        for dims, read in zip(parsed.operands, inputs, strict=True):
            if read not in self.known:
                raise InputError(f"operator {name!r} reads {read!r}, which is not defined")
            _sizes(name, formula, dims, *self.known[read], found, grows)
        unsized = [x for x in parsed.loops if x not in found]
        if unsized:
            raise InputError(f"operator {name!r}: formula {formula!r}: no size for loop {unsized[0]!r}; give sizes")
        split = dict.fromkeys(statistic.split(), "statistic") | dict.fromkeys(whole.split(), "whole")
        loops = tuple(
            Loop(x, found[x], x in grows, split.get(x, "free"))  # pyright: ignore[reportArgumentType]
            for x in parsed.loops
        )
        op = Operator(
            name, kind, formula, inputs, loops, dtype or self.dtype, float(flops), saves, attributes, self.layer
        )
        self.operators.append(op)
        self.known[name] = (op.shape, tuple(any(x in grows for x in group) for group in parsed.result))
        return name

    def graph(self, items_per_sample: float, items: str, source: str) -> Graph:
        """The finished graph, checked."""
        return Graph(
            self.name, self.batch, tuple(self.inputs), tuple(self.parameters), tuple(self.operators),
            float(items_per_sample), items, source,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Model(Shown, ABC):
    """A model whose training graph is written operator by operator; the fields of a kind are its sizes.

    Parameters
    ----------
    dtype : str
        Of parameters and activations.
    """

    dtype: str = "float32"

    def graph(self, name: str, batch: int = 1, *, source: str = "") -> Graph:
        """The training graph under a name, for microbatches of `batch` samples; `source` says where the sizes are from.

        Raises
        ------
        InputError
            If the sizes do not go together.
        """
        b = Builder(name, batch, self.dtype)
        per_sample, items = self.write(b)
        return b.graph(per_sample, items, source)

    @abstractmethod
    def write(self, b: Builder) -> tuple[int, str]:
        """Write the operators; what is counted in a sample, and how many of it there are: (1, "images")."""


def _sizes(
    name: str, formula: str, dims: Dims, shape: tuple[int, ...], batch: tuple[bool, ...], found: dict[str, int],
    grows: set[str],
) -> None:  # fmt: skip
    """Learn trip counts and batch marks from one operand: of a dimension's loops at most one may be unknown."""
    if len(dims) != len(shape):
        raise InputError(
            f"operator {name!r}: formula {formula!r}: an operand of shape {shape} has {len(dims)} dimensions"
        )
    for group, size, growing in zip(dims, shape, batch, strict=True):
        unknown = [x for x in group if x not in found]
        rest = math.prod(found[x] for x in group if x in found)
        if len(unknown) > 1:
            raise InputError(f"operator {name!r}: formula {formula!r}: no sizes for loops {unknown}; give sizes")
        if unknown:
            found[unknown[0]] = size // rest if rest and size % rest == 0 else -1
        elif rest != size:
            raise InputError(
                f"operator {name!r}: formula {formula!r}: loops {group} of {rest} run over a size of {size}"
            )
        if growing and group:
            grows.add(group[0])
