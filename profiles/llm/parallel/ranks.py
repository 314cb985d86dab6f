"""`Ranks`: the rarer degrees of an engine, which the cost of its iterations and its KV memory have in common."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from dataclasses import dataclass, fields
from typing import Any, Self

from ....errors import InputError
from ....reprs import Shown
from ..decoder import DecoderSpec
from .layout import EXCHANGES, Exchange

__all__ = ["Ranks", "check_degrees", "whole"]


@dataclass(frozen=True, slots=True, repr=False)
class Ranks(Shown):
    """How the ranks of one engine share sequences, requests and experts.

    Parameters
    ----------
    cp : int
        Shards of every sequence's keys and values (`layout.Parallel`): a rank stores every cp-th token. With the
        exchanges "ag_rs" and "a2a" shards are ranks of the tensor-parallel group, which hold the same KV heads
        otherwise.
    dp : int
        Ranks with requests of their own that step together, as engines with data-parallel attention do: an `Iteration`
        is then the work of all of them, and a step takes as long as the fullest rank's. (Replicas that do not wait for
        one another are engines of their own: `simulate_llm(…, engines=)`.)
    ep : int
        Degree that experts are split by; each expert's width is split by ``tp x dp / ep``, so a rank holds
        ``1 / (tp dp)`` of the experts' weights whatever `ep` is.
    exchange : str
        What shards send each other, a key of `EXCHANGES`; of no meaning at ``cp=1``.

    Raises
    ------
    InputError
        On a degree below one or an unknown exchange.
    """

    cp: int = 1
    dp: int = 1
    ep: int = 1
    exchange: Exchange = "ag_rs"

    def __post_init__(self) -> None:
        for name in ("cp", "dp", "ep"):
            whole(name, getattr(self, name))
        if self.exchange not in EXCHANGES:
            raise InputError(f"exchange: expected one of {', '.join(EXCHANGES)} (got {self.exchange!r})")

    @classmethod
    def of(cls, options: Self | None, given: dict[str, Any]) -> Self:
        """The options that a door was given, or those that its single fields make.

        Raises
        ------
        InputError
            On both, options of another kind, or a field that there is not.
        """
        if options is not None and given:
            raise InputError(f"options: give options or single fields, not both (got options and {', '.join(given)})")
        if not isinstance(options, cls | None):
            raise InputError(f"options: expected {cls.__name__} (got {type(options).__name__})")
        known = [field.name for field in fields(cls)]
        unknown = next((name for name in given if name not in known), None)
        if unknown is not None:
            raise InputError(f"{unknown}: no such option; the rarer ones are {', '.join(known)}")
        return options or cls(**given)


def whole(name: str, value: Any) -> None:
    """Refuse what is no integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: expected an integer >= 1 (got {value!r})")


def check_degrees(model: DecoderSpec, tp: int, pp: int) -> None:
    """See that a model can be cut into so many shards and stages.

    Raises
    ------
    InputError
        On a degree below one, shards that do not divide the heads, or more stages than layers.
    """
    whole("tp", tp)
    whole("pp", pp)
    if model.heads % tp:
        raise InputError(f"tp: {tp} does not divide the {model.heads} heads of {model.name}")
    if pp > model.layers:
        raise InputError(f"pp: {pp} stages are more than the {model.layers} layers of {model.name}")
