"""`Experts` and `Latent`: what a decoder may have in place of a dense MLP and of plain attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from .....errors import InputError
from .....reprs import Shown

__all__ = ["IMBALANCE", "Experts", "Latent", "part_of"]

IMBALANCE = 1.1
"""Tokens of the device with most over the mean, where nothing is said. A guess: routers are trained towards 1, and
published benchmarks force it."""


@dataclass(frozen=True, slots=True, repr=False)
class Experts(Shown):
    """Experts in place of a layer's MLP, to some of which a router sends each token.

    Parameters
    ----------
    count, top_k : int
        Routed experts of a layer, and those that a token goes to.
    ffn : int
        Inner width of one.
    shared_ffn : int
        Inner width of the experts that all tokens go to, together; 0: none.
    dense_layers : int
        Layers that have the model's dense MLP instead: the first ones.
    alternate : bool
        Whether these stand between the others instead, spread evenly (Llama 4 Maverick).
    capacity : float
        Capacity factor: each expert takes so many times the mean, fewer are padded, more are dropped; 0: dropless.
    imbalance : float
        Of dropless experts: tokens of the device with most over the mean.
    nodes : int
        Nodes that a token's experts may be on (node-limited routing, DeepSeek-V3 has 4); 0: any.
    router_bias : bool
        Whether each expert has a bias in the router that balances its load (DeepSeek-V3), one more number.

    Raises
    ------
    InputError
        On a size below one, more experts per token than there are, or a load below the mean.
    """

    count: int
    top_k: int
    ffn: int
    shared_ffn: int = 0
    dense_layers: int = 0
    alternate: bool = False
    capacity: float = 0.0
    imbalance: float = IMBALANCE
    nodes: int = 0
    router_bias: bool = False

    def __post_init__(self) -> None:
        _whole(
            self, "model.experts", {"count": 2, "top_k": 1, "ffn": 1, "shared_ffn": 0, "dense_layers": 0, "nodes": 0}
        )
        if self.top_k > self.count:
            raise InputError(f"model.experts.top_k: expected at most the {self.count} experts (got {self.top_k})")
        for name, least in (("capacity", 0.0), ("imbalance", 1.0)):
            value: Any = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not least <= value
                or not isfinite(value)
            ):
                raise InputError(f"model.experts.{name}: expected a number >= {least:g} (got {value!r})")

    @property
    def load(self) -> float:
        """Tokens that the fullest device computes over the mean."""
        return self.capacity or self.imbalance


@dataclass(frozen=True, slots=True, repr=False)
class Latent(Shown):
    """Multi-head latent attention (DeepSeek-V2, section 2.1). The model's `head_dim` is a query's width with its
    rotated part.

    Parameters
    ----------
    kv_rank, rope_dim, value_dim : int
        Numbers of the latent that stands for a token's keys and values, of its rotated key, and of a head's value.
    q_rank : int
        Numbers of the queries' latent; 0: none.

    Raises
    ------
    InputError
        On a size below one.
    """

    kv_rank: int
    rope_dim: int
    value_dim: int
    q_rank: int = 0

    def __post_init__(self) -> None:
        _whole(self, "model.latent", {"kv_rank": 1, "rope_dim": 1, "value_dim": 1, "q_rank": 0})


def part_of(kind: type[Experts] | type[Latent], given: Any, where: str) -> Any:
    """An `Experts` or a `Latent` from one, from a mapping, or None.

    Raises
    ------
    InputError
        On anything else, or a field that it does not have.
    """
    if given is None or isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected {kind.__name__} or its fields (got {given!r:.60})")
    said: dict[str, Any] = {str(key): value for key, value in given.items()}  # pyright: ignore
    names = [field.name for field in fields(kind)]
    if unknown := sorted(set(said) - set(names)):
        raise InputError(f"{where}: unknown field {unknown[0]!r}; expected {', '.join(names)}")
    try:
        return kind(**said)
    except TypeError as error:
        raise InputError(f"{where}: {error}") from None


def _whole(part: Experts | Latent, where: str, least: dict[str, int]) -> None:
    for name, low in least.items():
        value: Any = getattr(part, name)
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < low:
            raise InputError(f"{where}.{name}: expected an integer >= {low} (got {value!r})")
        object.__setattr__(part, name, int(value))
