"""Serving cases whose times vary: what varies, and what a controller knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....errors import InputError
from ....profiles import ModelProfile
from ....profiles.spread import NO_VARIATION, Spread, Variation
from ..case import ServingCase

__all__ = ["cautious", "variation_of"]


def variation_of(case: ServingCase, profiles: Mapping[str, ModelProfile]) -> Variation:
    """How the case's times vary: as it says, else as its profile was measured to.

    Raises
    ------
    InputError
        If times are to be drawn and neither says how.
    """
    said = case.serving.spread
    if case.serving.times == "mean":
        return NO_VARIATION
    if said is not None:
        return Variation(stages=Spread(visits=said.visits, runs=said.runs, correlation_s=said.correlation))
    found: Variation = getattr(profiles, "variation", NO_VARIATION)
    if found.constant:
        raise InputError(
            "serving.times: the profile does not say how times vary; measure a plan in service (meshwright measure "
            "plan.json --out served.json) and take --profile served.json, or give serving.spread"
        )
    return found


def cautious(
    case: ServingCase, profiles: Mapping[str, ModelProfile], variation: Variation
) -> tuple[Mapping[str, ModelProfile], Variation]:
    """What a controller predicts with that the case makes cautious, and how times vary around that.

    Predictions take a quantile of the stages' times: a request is then admitted only if it would be in time in so many
    of the visits that it makes.
    """
    quantile = case.serving.admission_quantile
    if quantile is None:
        return profiles, variation
    factor = variation.stages.quantile(quantile)
    longer = {name: profile.scaled(factor) for name, profile in profiles.items()}
    return longer, replace(variation, stages=variation.stages.scaled(1 / factor))
