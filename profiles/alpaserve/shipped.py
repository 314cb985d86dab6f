"""The shipped `alpaserve-v100` profiles: AlpaServe's models on 16 GB V100s, its model sets and artifact's constants.

Sources: AlpaServe (OSDI '23), Table 1; stage latencies recovered from the goodputs and placements that its
authors published, and measured ones from their repository (alpa-projects/mms, Apache-2.0); the rest from the
documented model in `profiles.alpaserve.model`. Each `StageProfile.source` says which, docs/profiles.md how sure.
"""

from __future__ import annotations

import difflib
from dataclasses import replace

from ...errors import InputError
from ..comm import CommModel
from ..config import ParallelConfig
from ..layers import LayerTable
from ..profile import ModelProfile
from ..profile_set import ProfileSet
from ..store import load
from .model import Anchors, anchors_of_largest, comm_of, table_of

__all__ = [
    "ARTIFACT_OVERHEAD_S",
    "ARTIFACT_STAGE_PENALTY",
    "MODEL_SETS",
    "NAME",
    "comm_model",
    "layer_table",
    "model_set",
    "with_artifact_overheads",
]

NAME = "alpaserve-v100"

_S3 = ("bert-1.3b", "bert-2.6b", "bert-6.7b", "moe-1.3b", "moe-2.4b", "moe-5.3b")
MODEL_SETS: dict[str, dict[str, int]] = {
    "S1": {"bert-1.3b": 32},
    "S2": {"bert-6.7b": 32},
    "S3": dict.fromkeys(_S3, 10),
    "S4": {"bert-104b": 4},
}

ARTIFACT_STAGE_PENALTY = 0.009
"""Share by which the authors' fast simulator stretches each stage, times pp. They fitted it to their testbed."""
ARTIFACT_OVERHEAD_S = 0.011
"""Seconds that it adds to every finish. For the same way their event simulator draws about 2.5 + 2.5 + 5 ms."""


def model_set(name: str) -> ProfileSet:
    """One of Table 1's model sets as instances: S1 32 × bert-1.3b, S2 32 × bert-6.7b, S3 10 × six, S4 4 × bert-104b.

    Raises
    ------
    InputError
        If `name` is none of them.
    """
    if name not in MODEL_SETS:
        near = difflib.get_close_matches(str(name).upper(), MODEL_SETS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(MODEL_SETS)}"
        raise InputError(f"model set: unknown set {name!r}; {hint}")
    return replace(load(NAME).instances(MODEL_SETS[name]), name=f"{NAME}/{name}")


def with_artifact_overheads(profiles: ProfileSet) -> ProfileSet:
    """The set with the constants of the authors' fast simulator, for comparison with the numbers that they published.

    Their code multiplies stage latencies by ``1 + 0.009·pp`` (pp = 1 too) and adds 11 ms to every finish, which the
    returned set holds as `overhead_s`. With ``dispatch="earliest_free"`` this reproduces their published "simulate"
    goodputs. Take SLOs from the set *before* this call: theirs scale the bare single-device latency.
    """

    def penalised(profile: ModelProfile) -> ModelProfile:
        stages = {}
        for config, stage in profile.stages.items():
            factor = 1.0 + ARTIFACT_STAGE_PENALTY * config.pp
            latency = {b: tuple(x * factor for x in row) for b, row in stage.latency.items()}
            stages[config] = replace(stage, latency=latency)
        return replace(profile, stages=stages)

    note = f"stage latencies × (1 + {ARTIFACT_STAGE_PENALTY}·pp), {ARTIFACT_OVERHEAD_S} s per request: mms simulator"
    old = profiles.provenance
    return replace(
        profiles,
        name=f"{profiles.name}+artifact",
        models={name: penalised(profile) for name, profile in profiles.items()},
        overhead_s=ARTIFACT_OVERHEAD_S,
        provenance=replace(old, notes=f"{old.notes}; {note}" if old.notes else note),
    )


def layer_table(model: str) -> LayerTable:
    """The modelled operator table of one of the shipped models, for configurations that the set does not hold.

    With `comm_model` of the same model, ``compose(layer_table(m), comm_model(m), configs=[…])`` gives them.
    """
    name, anchors = _anchors(model)
    return table_of(name, anchors)


def comm_model(model: str) -> CommModel:
    """The modelled communication costs of one of the shipped models."""
    name, anchors = _anchors(model)
    return comm_of(name, anchors)


def _anchors(model: str) -> tuple[str, Anchors]:
    profile = load(NAME)[model]
    single = ParallelConfig(1, 1)
    if single not in profile.stages:  # bert-104b, which fits on no single device
        return profile.name, anchors_of_largest()
    return profile.name, Anchors(
        single_s=profile.latency(single)[0],
        size_bytes=profile.weight_bytes(single)[0],
        op2_s=profile.latency(ParallelConfig(2, 1))[0],
        op4_s=profile.latency(ParallelConfig(4, 1))[0],
        pp4_bytes=max(profile.weight_bytes(ParallelConfig(1, 4))),
    )
