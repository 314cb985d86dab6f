"""Operators of kind ``call``: an overload of torch's aten library, called on one device's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ..aten import FORBIDDEN, filled, read_arguments
from .loops import Local

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["call", "draws", "overload", "results_of", "why_not_callable"]

TYPES = frozenset(
    {"Tensor", "int", "bool", "number", "float", "str", "ScalarType", "Device", "Layout", "MemoryFormat", "Generator"}
)
"""Types of arguments, lists and optional ones of them, that a call may have. A generator is never given."""

_BY_NUMBERS = frozenset({"aten::index", "aten::_unsafe_index", "aten::repeat_interleave"})


def call(local: Local, operands: Sequence[Tensor]) -> Tensor:
    """The result of a call; with rows cut, that of these rows.

    Raises
    ------
    InputError
        If this torch lacks the overload, or it may not be called.
    """
    import torch

    op = local.op
    target = overload(str(op.attributes["target"]))
    # Of one type, as a module's are: constants come in torch's default type, whatever a run computes in.
    found = [x.dtype for x in operands if x.dtype.is_floating_point]
    floats = reduce(torch.promote_types, found) if found else torch.get_default_dtype()

    def place(kind: str, what: Any) -> Any:
        if kind == "operand":
            return operands[what].to(floats) if operands[what].is_floating_point() else operands[what]
        if kind == "complex":
            return torch.view_as_complex(operands[what].to(floats).contiguous())
        if kind == "rows":
            return what * local.sizes[str(op.attributes["rows"])]
        dtype = getattr(torch, what)
        return floats if dtype.is_floating_point else dtype

    said = read_arguments(str(op.attributes["arguments"]))
    given = {name: filled(value, place) for name, value in said.items()}
    if draws(target, given):
        raise InputError(f"operator {op.name!r}: {op.attributes['target']} draws random numbers; expected none")
    made = results_of(target, given)[int(op.attributes.get("result", 0))]  # pyright: ignore[reportArgumentType]
    made = torch.view_as_real(made) if made.is_complex() else made
    dtype = getattr(torch, op.dtype)
    return made.to(floats if dtype.is_floating_point else dtype)


def results_of(target: Any, given: Mapping[str, Any]) -> list[Any]:
    """What an overload gives for arguments by name; those that are left out have its defaults."""
    schema = target._schema.arguments
    unknown = set(given) - {a.name for a in schema}
    missing = next((a.name for a in schema if a.name not in given and not a.has_default_value()), None)
    if unknown or missing is not None:
        raise InputError(f"{target}: expected arguments {[a.name for a in schema]} (got {sorted(given)})")
    positional = [given.get(a.name, a.default_value) for a in schema if not a.kwarg_only]
    found = target(*positional, **{a.name: given[a.name] for a in schema if a.kwarg_only and a.name in given})
    return [y for x in (found if isinstance(found, (tuple, list)) else (found,))
            for y in (x if isinstance(x, (tuple, list)) else (x,))]  # fmt: skip


@lru_cache(maxsize=1024)
def overload(target: str) -> Any:
    """Torch's overload of this name.

    Raises
    ------
    InputError
        If there is none, or it may not be called.
    """
    import torch

    _, word, which = target.split(".")
    found = getattr(getattr(torch.ops.aten, word, None), which, None)
    if found is None or not hasattr(found, "_schema"):
        raise InputError(f"{target}: torch {torch.__version__} has no such overload")
    why = why_not_callable(found)
    if why:
        raise InputError(f"{target} {why}; it may not be called")
    return found


def why_not_callable(target: Any) -> str:
    """Why a graph may not call an overload; "" if it may."""
    schema = target._schema
    if schema.name.partition("::")[0] != "aten":
        return "is none of aten"
    if schema.name.partition("::")[2] in FORBIDDEN:
        return "reads or changes memory that it is not given as values"
    if schema.is_mutable or any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return "writes into what it is given"
    plain = {_bare(str(a.real_type)) for a in schema.arguments}
    if not plain <= TYPES or any("file" in a.name for a in schema.arguments):
        return f"takes {', '.join(sorted(plain - TYPES)) or 'a file'}"
    if not schema.returns or {_bare(str(r.real_type)) for r in schema.returns} != {"Tensor"}:
        return "makes other things than tensors"
    tags = {tag.name for tag in target.tags}
    if schema.name in _BY_NUMBERS:  # picked by numbers, shapes depend on none of the data
        return ""
    if tags & {"data_dependent_output", "dynamic_output_shape"}:
        return "makes shapes that depend on data"
    return ""


def draws(target: Any, given: Mapping[str, Any]) -> bool:
    """Whether a call draws random numbers: torch says that it does, and it drops or trains."""
    if "nondeterministic_seeded" not in {tag.name for tag in target.tags}:
        return False
    named = {a.name: given.get(a.name, a.default_value) for a in target._schema.arguments}
    shares = [named[key] for key in ("dropout", "dropout_p", "p") if key in named]
    off = [named[key] is False for key in ("train", "training") if key in named]
    return not (any(off) or (bool(shares) and all(not hasattr(x, "shape") and x == 0 for x in shares)))


def _bare(text: str) -> str:
    while text.startswith(("Optional[", "List[")):
        text = text[text.index("[") + 1 : -1]
    return text
