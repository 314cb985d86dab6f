"""Pattern language: trees of operators with wildcards, constraints on attributes, and alternatives.

``is_op("relu")(is_op("add")(is_op("conv2d")(wildcard(), wildcard()).has_attr({"groups": 1}), wildcard()))`` is the
conv2d + add + relu of Collage's Listing 1 (thesis 003, §2.3). The outermost operator is the pattern's root, whose value
is the match's result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import InputError

__all__ = ["Alternatives", "Operator", "Pattern", "Wildcard", "check_pattern", "is_op", "wildcard"]


class Pattern:
    """What may stand at a place of a tree; made by `is_op` and `wildcard`, joined by ``|``."""

    __slots__ = ()

    def __or__(self, other: object) -> Alternatives:
        """Either of two patterns."""
        if not isinstance(other, Pattern):
            raise InputError(f"pattern: expected a pattern on either side of | (got {other!r})")
        left = self.choices if isinstance(self, Alternatives) else (self,)
        right = other.choices if isinstance(other, Alternatives) else (other,)
        return Alternatives((*left, *right))


@dataclass(frozen=True, slots=True)
class Wildcard(Pattern):
    """Any value, computed outside the match."""


@dataclass(frozen=True, slots=True)
class Alternatives(Pattern):
    """One of several patterns, tried in order."""

    choices: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Operator(Pattern):
    """One operator.

    Parameters
    ----------
    name : str
        Its op.
    arguments : tuple of Pattern or None
        For the tensors that it reads, in order; parameters at the end may be left out. `None`: whatever it reads.
    attributes : tuple of (str, value or function)
        What `has_attr` asks: equality, or a function of the value that says whether it will do.
    """

    name: str
    arguments: tuple[Pattern, ...] | None = None
    attributes: tuple[tuple[str, Any], ...] = ()

    def __call__(self, *arguments: Pattern) -> Operator:
        """The operator with patterns for what it reads."""
        if self.arguments is not None:
            raise InputError(f"pattern: {self.name!r} was given its arguments twice; call is_op({self.name!r}) once")
        for argument in arguments:
            if not isinstance(argument, Pattern):
                raise InputError(f"pattern: {self.name!r}: expected patterns as arguments (got {argument!r})")
        return replace(self, arguments=arguments)

    def has_attr(self, wanted: Mapping[str, Any]) -> Operator:
        """The operator with conditions on its attributes; ``shape``, ``dtype`` and ``ndim`` are the result's."""
        for name in wanted:
            if not isinstance(name, str):
                raise InputError(f"pattern: {self.name!r}: expected names of attributes (got {name!r})")
        return replace(self, attributes=(*self.attributes, *((n, _plain(v)) for n, v in wanted.items())))


def is_op(name: str) -> Operator:
    """An operator by its op; call the result with patterns for what it reads.

    Raises
    ------
    InputError
        If the name is no text.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"pattern: expected an operator's name (got {name!r})")
    return Operator(name)


def wildcard() -> Wildcard:
    """Any value, computed outside the match."""
    return Wildcard()


def check_pattern(pattern: object, where: str) -> Pattern:
    """A pattern that can be matched: a tree with one operator at its root.

    Raises
    ------
    InputError
        If it is none, has several roots (a tuple or list of patterns), is a wildcard at its root, or asks by
        ``has_attr`` of what is no operator.
    """
    if isinstance(pattern, tuple | list):
        raise InputError(
            f"{where}: a pattern has one root, whose value is the result (got {len(pattern)}); register each "
            "as a pattern of its own"
        )
    if not isinstance(pattern, Pattern):
        raise InputError(f"{where}: expected a pattern such as is_op('relu')(wildcard()) (got {pattern!r})")
    if isinstance(pattern, Wildcard) or (
        isinstance(pattern, Alternatives) and any(isinstance(one, Wildcard) for one in pattern.choices)
    ):
        raise InputError(f"{where}: a pattern's root is an operator (got a wildcard); begin with is_op(…)")
    return pattern


def _plain(value: Any) -> Any:
    """Lists as tuples, as nodes hold them."""
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


Condition = Callable[[Any], bool]
