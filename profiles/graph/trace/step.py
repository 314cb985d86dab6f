"""`Step`: one traced call, and the errors that say where in the module it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import InputError
from .draft import Draft
from .values import Size, Value

__all__ = ["Handler", "Result", "Step", "number", "values"]


@dataclass(frozen=True)
class Step:
    """One call of an aten operator.

    Parameters
    ----------
    draft : Draft
        Where operators go.
    op : str
        Such as ``"add.Tensor"``.
    args : mapping
        Arguments by the names of the operator's schema, defaults filled in; tensors are `Value`s.
    sizes : sequence of tuple of Size
        Shape of every result.
    dtypes : sequence of str
        Of every result.
    pairs : sequence of bool
        Which results are of complex numbers: pairs in one more dimension. Empty where none is.
    line : str
        Of the user's code that made the call, ``file.py:12``; "" if it is not known.
    """

    draft: Draft
    op: str
    args: Mapping[str, Any]
    sizes: Sequence[tuple[Size, ...]]
    dtypes: Sequence[str]
    line: str = ""
    pairs: Sequence[bool] = ()

    @property
    def complex(self) -> bool:
        """Whether it makes or reads complex numbers, which only torch's own call knows."""
        return any(self.pairs) or any(v.pairs for v in _values_of(list(self.args.values())))

    @property
    def word(self) -> str:
        """The operator's short name, for names."""
        return self.op.split(".")[0].strip("_")

    @property
    def x(self) -> Value:
        """The first tensor."""
        return next(v for v in self.args.values() if isinstance(v, Value))

    def unknown(self, why: str = "") -> InputError:
        """The error for what graphs cannot say."""
        at = f", at {self.line}" if self.line else ""
        return InputError(
            f"aten.{self.op} in module {self.draft.path or '(root)'!r}: {why or 'not known to graphs'}{at}; "
            "write it with operators that docs/training-graphs.md lists"
        )


Result = Value | list[Value] | None
Handler = Callable[[Step], Result]


def number(value: float | int | bool) -> float | int | bool | str:
    """A number as an attribute: infinities and NaN, which JSON lacks, as text."""
    finite = isinstance(value, (bool, int)) or value - value == 0
    return value if finite else str(value)


def _values_of(items: Any) -> list[Value]:
    return [v for x in items for v in ([x] if isinstance(x, Value) else _values_of(x) if isinstance(x, list) else [])]


def values(items: Any) -> list[Value]:
    """The tensors of a list argument."""
    return [v for v in items if isinstance(v, Value)]
