"""The planners of the sharing world: its policies by name, and what each may be told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from ...simulator.sharing import BASELINES, Policy, baseline
from ...wording import nearest
from ..fields import plain
from ..file.errors import explain
from .part import Fraction, Part

__all__ = ["POLICIES", "BaselineOptions", "ThemisOptions", "complaints_of", "has_option", "make", "options_of"]

THEMIS = "themis"
"""The name of `planners.themis.Themis`. Its room loads numba, which a case's fields and their help do without."""

POLICIES = (THEMIS, *BASELINES)
"""Names of the policies."""


class ThemisOptions(Part):
    """What Themis may be told."""

    fairness: Fraction = Field(
        default=0.8, ge=0, le=1, description="f, a share of the apps: the worst 1 − f by ρ take part, at least one"
    )
    payments: bool = Field(default=True, description="whether winners pay")
    rounding: Literal["random", "nearest", "floor"] = Field(
        default="random", description="what of c·n GPUs winners keep, in whole GPUs"
    )
    visibility: Literal["cached", "current"] = Field(default="cached", description="which ρ apps are ranked by")
    leftovers: Literal["participants", "idle"] = Field(
        default="participants", description="what becomes of GPUs that no app that stayed out takes"
    )


class BaselineOptions(Part):
    """What the other policies may be told."""

    placement: Literal["near", "blind"] = Field(
        default="near", description="which GPUs it gives, beside an app's own: the nearest, or by lot"
    )


def options_of(name: str) -> type[Part]:
    """What a policy may be told."""
    return ThemisOptions if name == THEMIS else BaselineOptions


def has_option(name: str, option: str) -> bool:
    """Whether a policy may be told that."""
    return option in options_of(name).model_fields


def complaints_of(name: str, options: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with options of a policy: which, and what."""
    kind = options_of(name)
    for key in options:
        if key not in kind.model_fields:
            near = nearest(str(key), kind.model_fields)
            others = [policy for policy in POLICIES if has_option(policy, str(key))]
            whose = f"is of {'themis' if others[0] == THEMIS else 'the policies but themis'}; " if others else ""
            hint = f"did you mean {near!r}?" if near else f"{name} knows {', '.join(kind.model_fields)}"
            yield (key,), f"unknown option; {whose}{hint}"
    known = {key: value for key, value in options.items() if key in kind.model_fields}
    try:
        # As files are read: a whole number is no truth value, text no number
        kind.model_validate_json(json.dumps(plain(known)), strict=True)
    except ValidationError as error:
        yield from explain(error, kind, known)


def make(name: str, options: Mapping[str, Any], *, lease_s: float, seed: int) -> Policy:
    """A policy. Lots are drawn by the seed."""
    from ...planners.themis import Themis

    said = options_of(name).model_validate(dict(options)).model_dump()
    return Themis(**said, seed=seed) if name == THEMIS else baseline(name, lease_s, **said, seed=seed)
