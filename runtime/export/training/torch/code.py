"""An operator as a line of torch: what its shards compute, and which of its loops may stay cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from .....errors import InputError
from .....profiles.graph import Operator
from .....profiles.graph.aten import filled, read_arguments
from .....profiles.graph.notation import Dims

__all__ = ["expression", "plain_cut"]

PLAIN: Mapping[str, str] = MappingProxyType(
    {"relu": "torch.relu({})", "silu": "F.silu({})", "tanh": "torch.tanh({})", "sigmoid": "torch.sigmoid({})",
     "exp": "torch.exp({})", "identity": "{} + 0.0"}
)  # fmt: skip
"""Function of one operand -> its text."""


def plain_cut(operator: Operator, axes: tuple[str, str]) -> tuple[str, str]:
    """Loops that stay cut: those whose cutting needs no exchange inside the operator. Others are gathered before it.

    Raises
    ------
    InputError
        If the operator has dimensions of several loops.
    """
    if any(len(group) != 1 for dims in (*operator.parsed.operands, operator.parsed.result) for group in dims):
        raise _cannot(operator, "has dimensions of several loops")
    held = {x.name for x in operator.loops if x.split != "free"}
    held |= {str(operator.attributes[key]) for key in ("query", "key", "position") if key in operator.attributes}
    a, b = ("" if loop in held else loop for loop in axes)
    return a, b


def expression(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    """What one device computes of its shards, as an expression of `names`.

    Raises
    ------
    InputError
        If no line of torch says it.
    """
    if operator.kind not in WRITERS:
        raise _cannot(operator, f"is a {operator.kind}")
    return WRITERS[operator.kind](operator, names, cut, logical)


def _cannot(operator: Operator, why: str) -> InputError:
    return InputError(f"{operator.name!r} {why}")


def _loops(dims: Dims) -> list[str]:
    return [group[0] for group in dims]


def _einsum(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    letters = {loop: chr(ord("a") + i) for i, loop in enumerate(operator.parsed.loops)}
    if all(len(loop) == 1 for loop in letters):
        letters = {loop: loop for loop in letters}
    left = ",".join("".join(letters[x] for x in _loops(dims)) for dims in operator.parsed.operands)
    right = "".join(letters[x] for x in _loops(operator.parsed.result))
    text = f'torch.einsum("{left}->{right}", {", ".join(names)})'
    return f"{text} * {operator.attributes['scale']!r}" if "scale" in operator.attributes else text


def _aligned(operator: Operator, names: list[str]) -> list[str]:
    """Operands with the result's dimensions: permuted, ones where they lack a loop."""
    out = _loops(operator.parsed.result)
    texts: list[str] = []
    for name, dims in zip(names, operator.parsed.operands, strict=True):
        mine = _loops(dims)
        if any(loop not in out for loop in mine):
            raise _cannot(operator, "reads loops that its result lacks")
        order = sorted(mine, key=out.index)
        text = name if order == mine else f"{name}.permute({', '.join(str(mine.index(x)) for x in order)})"
        if order != out[len(out) - len(order) :]:
            first = min((out.index(x) for x in order), default=len(out))
            text += f"[{', '.join(':' if x in order else 'None' for x in out[first:])}]"
        texts.append(text)
    return texts


def _elementwise(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    fn = str(operator.attributes.get("fn", ""))
    texts = _aligned(operator, names)
    if fn in ("add", "mul"):
        return (" + " if fn == "add" else " * ").join(texts)
    if fn == "gelu":
        return f'F.gelu({texts[0]}, approximate="{operator.attributes.get("approximate", "none")}")'
    if fn == "scale":
        return f"{texts[0]} * {operator.attributes['scale']!r}"
    if fn == "rope":
        dim = _loops(operator.parsed.result).index(str(operator.attributes["position"]))
        return f"rope({texts[0]}, {operator.attributes['theta']!r}, {dim})"
    if fn not in PLAIN or len(names) != 1:
        raise _cannot(operator, f"computes {fn!r}")
    return PLAIN[fn].format(texts[0])


def _norm(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    out = _loops(operator.parsed.result)
    over = [x.name for x in operator.loops if x.split != "free"]
    fn, eps = operator.attributes.get("fn", "layer"), operator.attributes["eps"]
    plain = over == out[-1:] and all(_loops(dims) == over for dims in operator.parsed.operands[1:])
    if fn == "layer" and plain and len(names) == 3:
        return f"F.layer_norm({names[0]}, {names[0]}.shape[-1:], {names[1]}, {names[2]}, {eps!r})"
    if fn == "rms" and plain:
        return f"rms_norm({names[0]}, {names[1] if len(names) > 1 else 1.0}, {eps!r})"
    raise _cannot(operator, f"is a {fn} norm over {', '.join(over)}")


def _softmax(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    out = _loops(operator.parsed.result)
    if [x.name for x in operator.loops if x.split != "free"] != out[-1:]:
        raise _cannot(operator, "is a softmax over another than the last dimension")
    if not operator.attributes.get("causal"):
        return f"torch.softmax({names[0]}, dim=-1)"
    if [operator.attributes["query"], operator.attributes["key"]] != out[-2:]:
        raise _cannot(operator, "masks other than the last two dimensions")
    return f"causal_softmax({names[0]})"


def _embedding(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    table = _loops(operator.parsed.operands[0])
    if table[0] not in cut:
        return f"F.embedding({names[1]}, {names[0]})"
    if cut[0] == cut[1]:
        raise _cannot(operator, "has its rows cut over both axes")
    return f"rows({names[0]}, {names[1]}, mesh, {cut.index(table[0])})"


def _loss(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    logits, labels = (_loops(dims) for dims in operator.parsed.operands)
    mean = operator.attributes.get("reduction", "mean") == "mean"
    if operator.attributes.get("fn", "cross_entropy") != "cross_entropy" or logits[:-1] != labels or not mean:
        raise _cannot(operator, "is no mean cross entropy over the last dimension")
    pieces = _pieces(labels, cut, logical)
    text = f"F.cross_entropy({names[0]}.flatten(0, -2), {names[1]}.flatten())"
    return f"{text} / {pieces}" if pieces > 1 else text


def _reduction(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    mine, out = _loops(operator.parsed.operands[0]), _loops(operator.parsed.result)
    gone = [i for i, loop in enumerate(mine) if loop not in out]
    fn = operator.attributes.get("fn", "sum")
    if fn not in ("sum", "mean") or [x for x in mine if x in out] != out:
        raise _cannot(operator, f"is a {fn} in another order")
    text = f"{names[0]}.{fn}(({', '.join(map(str, gone))},))"
    pieces = _pieces([mine[i] for i in gone], cut, logical) if fn == "mean" else 1
    return f"{text} / {pieces}" if pieces > 1 else text


def _call(operator: Operator, names: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> str:
    """A call of aten, as it was traced; sizes that grow with the batch are those of this device's rows."""
    rows = str(operator.attributes.get("rows", ""))

    def place(kind: str, what: Any) -> Verbatim:
        if kind == "operand":
            return Verbatim(names[int(what)])
        if kind == "complex":
            raise _cannot(operator, "reads complex numbers")
        if kind == "rows":
            return Verbatim(what * operator.sizes[rows] // _pieces([rows], cut, logical))
        return Verbatim(f"{names[0]}.dtype" if str(what).startswith(("float", "bfloat")) else f"torch.{what}")

    said = read_arguments(str(operator.attributes["arguments"]))
    texts = [f"{key}={Verbatim.of(filled(value, place))}" for key, value in said.items()]
    text = f"torch.ops.{operator.attributes['target']}({', '.join(texts)})"
    return f"{text}[{operator.attributes['result']}]" if "result" in operator.attributes else text


class Verbatim(str):
    """Text of a program, which `repr` leaves as it is."""

    def __new__(cls, text: object) -> Verbatim:
        return super().__new__(cls, str(text))

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def of(cls, value: Any) -> Verbatim:
        """The text of a value that may hold others."""
        if isinstance(value, float) and not math.isfinite(value):
            return cls(f'float("{value}")')
        if isinstance(value, list):
            return cls(f"[{', '.join(cls.of(x) for x in cast('list[Any]', value))}]")
        return cls(repr(value))


def _pieces(loops: list[str], cut: tuple[str, str], logical: tuple[int, int]) -> int:
    return (logical[0] if cut[0] in loops else 1) * (logical[1] if cut[1] in loops else 1)


WRITERS: Mapping[str, Callable[[Operator, list[str], tuple[str, str], tuple[int, int]], str]] = MappingProxyType(
    {
        "contraction": _einsum,
        "dispatch": _einsum,
        "elementwise": _elementwise,
        "norm": _norm,
        "softmax": _softmax,
        "embedding": _embedding,
        "loss": _loss,
        "reduction": _reduction,
        "call": _call,
    }
)
"""Kind -> what writes it."""
