"""`Operator`: one node of a graph, described by its loops, so that ways to run it in parallel are derived."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, cast

from ...errors import InputError
from ...reprs import Shown
from .aten import check_call
from .fused.part import FusedPart
from .notation import Dims, Formula, parse
from .running import Running

__all__ = ["DTYPE_BYTES", "KINDS", "Loop", "Operator", "Tensor"]

DTYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int64": 8, "int32": 4, "int8": 1, "bool": 1}
)

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "contraction": "sum of products: matmul, batched matmul, any einsum; FLOPs 2 x product of the loops",
        "convolution": "convolution, or transposed one, over whole spatial dimensions; FLOPs 2 x product of the loops",
        "attention": "fused attention; FLOPs of its two contractions",
        "dispatch": "contraction with a one-hot mask: MoE dispatch and combine",
        "grouped": "a product whose rows each take the matrix that an index picks: experts without a capacity; FLOPs "
        "2 x product of the loops but the picked one",
        "embedding": "rows of a table by index; no FLOPs",
        "loss": "cross entropy of logits and labels; one value",
        "norm": "layer, RMS or batch norm; `statistic` loops are the normalised ones, or it is given its statistics",
        "softmax": "softmax over its `statistic` or `whole` loops",
        "gate": "MoE top-k gating: probabilities to a dispatch mask",
        "reduction": "sum, mean or max over the reduced loops",
        "pool": "spatial pooling",
        "elementwise": "one function of each element",
        "view": "reshape, transpose, slice: moves nothing that counts",
        "call": "a call of torch's aten library that no other kind says; cut over the batch or not at all",
    }
)
"""Kind of operator -> what it does."""

HEAVY = frozenset({"contraction", "convolution", "attention", "dispatch", "grouped", "embedding"})
Scalar = str | int | float | bool | tuple[int, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Loop(Shown):
    """One loop of an operator.

    Parameters
    ----------
    name : str
        Name of the loop in the formula.
    size : int
        Trip count.
    batch : bool
        Whether it grows with the samples of a microbatch.
    split : {"free", "statistic", "whole"}
        What cutting it over devices costs. Free: nothing, or an all-reduce of the result if it is reduced.
        Statistic: an all-reduce of one value per other loop (a norm's sums). Whole: it cannot be cut.
    """

    name: str
    size: int
    batch: bool = False
    split: Literal["free", "statistic", "whole"] = "free"

    def __post_init__(self) -> None:
        if not _positive(self.size):
            raise InputError(f"loop {self.name!r}: expected a positive size (got {self.size!r})")
        if self.split not in ("free", "statistic", "whole"):
            raise InputError(f"loop {self.name!r}: expected split free, statistic or whole (got {self.split!r})")


@dataclass(frozen=True, slots=True, repr=False)
class Tensor(Shown):
    """A parameter or an input of the graph.

    Parameters
    ----------
    name : str
        Unique in the graph, operators included. For a parameter of a torch module: its qualified name.
    shape : tuple of int
        Full shape.
    dtype : str
        A key of `DTYPE_BYTES`.
    batch_dims : tuple of int
        Dimensions that grow with the samples of a microbatch (inputs only).
    trainable : bool
        Whether it gets a gradient and an optimiser state (parameters only).
    part : FusedPart, optional
        Of which parameter of the module it is a part, where the graph holds that in parts.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float16"
    batch_dims: tuple[int, ...] = ()
    trainable: bool = True
    part: FusedPart | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_BYTES:
            raise InputError(f"tensor {self.name!r}: unknown dtype {self.dtype!r}; known: {', '.join(DTYPE_BYTES)}")
        if not all(map(_positive, self.shape)):
            raise InputError(f"tensor {self.name!r}: expected positive sizes (got shape {self.shape})")
        if any(not 0 <= d < len(self.shape) for d in self.batch_dims):
            raise InputError(
                f"tensor {self.name!r}: batch_dims: expected dimensions of {self.shape} (got {self.batch_dims})"
            )
        if self.part is not None:
            self.part.check(self.shape, self.name)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size, bytes."""
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, repr=False)
class Operator(Shown):
    """One operator with one result.

    Parameters
    ----------
    name : str
        Unique in the graph.
    kind : str
        A key of `KINDS`.
    formula : str
        Loops of its operands and result; see `notation`.
    inputs : tuple of str
        Names of the operators, parameters or graph inputs that it reads, in the formula's order.
    loops : tuple of Loop
        All loops of the formula.
    dtype : str
        Type of the result.
    flops : float, optional
        Forward floating-point operations of the full operator; by default 2 x product of the loops for contractions
        (4 x for fused attention; of a convolution without its input's spatial loops, of a transposed one without its
        result's), product of the loops for reductions and losses, the number of result elements for others, 0 for
        views and embeddings.
    saves : tuple of int
        What the backward pass needs: operand positions, −1 for the result.
    attributes : mapping
        What executing it needs beyond the formula: ``fn`` of an elementwise operator, ``eps``, ``causal``, ``stride`` …
    layer : int
        Repeated block of the model that it belongs to; −1: none.
    nodes : tuple of str
        Calls of the exported program that it came from (`inference_program`); in traced graphs of inference only.
    running : Running, optional
        Buffers that a batch norm updates with its statistics.

    Raises
    ------
    InputError
        If kind, formula, inputs and loops do not go together.
    """

    name: str
    kind: str
    formula: str
    inputs: tuple[str, ...]
    loops: tuple[Loop, ...]
    dtype: str = "float16"
    flops: float = -1.0
    saves: tuple[int, ...] = ()
    attributes: Mapping[str, Scalar] = field(default_factory=lambda: MappingProxyType({}))
    layer: int = -1
    nodes: tuple[str, ...] = ()
    running: Running | None = None

    def __post_init__(self) -> None:
        where = f"operator {self.name!r}"
        if self.kind not in KINDS:
            raise InputError(f"{where}: unknown kind {self.kind!r}; known: {', '.join(KINDS)}")
        if self.dtype not in DTYPE_BYTES:
            raise InputError(f"{where}: unknown dtype {self.dtype!r}; known: {', '.join(DTYPE_BYTES)}")
        formula = parse(self.formula)
        if len(formula.operands) != len(self.inputs):
            raise InputError(
                f"{where}: formula {self.formula!r} has {len(formula.operands)} operands, not {self.inputs}"
            )
        if {x.name for x in self.loops} != set(formula.loops) or len(self.loops) != len(formula.loops):
            raise InputError(f"{where}: expected loops {formula.loops} (got {tuple(x.name for x in self.loops)})")
        if any(not -1 <= i < len(self.inputs) for i in self.saves):
            raise InputError(f"{where}: saves: expected operand positions or −1 (got {self.saves})")
        if not math.isfinite(self.flops):
            raise InputError(f"{where}: flops: expected a finite number (got {self.flops})")
        for key, value in self.attributes.items():
            if not _plain(value):
                raise InputError(
                    f"{where}: attribute {key!r}: expected text, a finite number or integers (got {value!r})"
                )
        if self.running is not None and (self.kind != "norm" or len(formula.operands[0]) < 2):
            raise InputError(f"{where}: running: expected a norm of channels, the second dimension")
        if self.kind == "call":
            try:
                check_call(self.attributes, len(self.inputs), frozenset(formula.loops), frozenset(DTYPE_BYTES))
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        if self.flops < 0:
            object.__setattr__(self, "flops", self._default_flops())

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        # Worker processes get graphs, and a read-only mapping cannot be sent: the operator is built anew there.
        said = {one.name: getattr(self, one.name) for one in fields(self)} | {"attributes": dict(self.attributes)}
        return partial(type(self), **said), ()

    def _default_flops(self) -> float:
        everything = float(math.prod(x.size for x in self.loops))
        if self.kind in ("contraction", "dispatch"):
            return 2.0 * everything
        if self.kind == "grouped":
            picked = str(self.attributes.get("pick", ""))
            return 2.0 * math.prod(x.size for x in self.loops if x.name != picked)
        if self.kind == "attention":
            return 4.0 * everything
        if self.kind == "convolution":
            # The input's spatial loops are no loops of its own: they follow from the result. Transposed: the other way.
            side = self.parsed.operands[0] if self.attributes.get("transposed") else self.parsed.result
            own = {x for dims in (side, *self.parsed.operands[1:2]) for group in dims for x in group}
            return 2.0 * math.prod(x.size for x in self.loops if x.name in own)
        if self.kind in ("reduction", "loss"):
            return everything
        return 0.0 if self.kind in ("view", "embedding") else float(math.prod(self.shape))

    @property
    def parsed(self) -> Formula:
        """The formula, parsed."""
        return parse(self.formula)

    @property
    def heavy(self) -> bool:
        """Whether it is a node of its own in the sharding problem; others follow their deepest operand (§4.2)."""
        return self.kind in HEAVY

    @property
    def sizes(self) -> dict[str, int]:
        """Loop -> trip count."""
        return {x.name: x.size for x in self.loops}

    def loop(self, name: str) -> Loop:
        """A loop by its name."""
        return next(x for x in self.loops if x.name == name)

    def shape_of(self, dims: Dims) -> tuple[int, ...]:
        """Shape of a tensor with these dimensions."""
        sizes = self.sizes
        return tuple(math.prod(sizes[x] for x in group) for group in dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.shape_of(self.parsed.result)

    @property
    def bytes(self) -> int:
        """Size of the result, bytes."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    @property
    def cuttable(self) -> tuple[str, ...]:
        """Loops that may be mapped to a mesh axis: not whole, and the major one of every dimension that they are in.

        Divisibility is the caller's to check: it depends on the mesh.
        """
        minor = {x for dims in (self.parsed.result, *self.parsed.operands) for group in dims for x in group[1:]}
        return tuple(x.name for x in self.loops if x.split != "whole" and x.name not in minor and x.size > 1)


def _positive(n: object) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n > 0


def _plain(value: object) -> bool:
    """Whether JSON can say it, and reading it back gives the same."""
    if isinstance(value, tuple):
        return all(isinstance(n, int) for n in cast("tuple[object, ...]", value))
    return isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
