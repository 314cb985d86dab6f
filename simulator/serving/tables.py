"""A placement and its profiles as plain arrays, which both engines and the real controller read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...errors import InputError, OutOfProfileError
from ...profiles.profile import ModelProfile, StageProfile
from ..placement import Placement

__all__ = ["ServingTables", "build_tables"]


@dataclass(frozen=True)
class ServingTables:
    """One row ("pair") for each (model, group that holds it), sorted by model, then group.

    Parameters
    ----------
    n_groups, n_models : int
        Sizes; models are indexed as in the trace.
    stages : ndarray of int32, shape (n_groups,)
        Pipeline stages of each group.
    model_start : ndarray of int32, shape (n_models + 1,)
        Pairs of model m are ``model_start[m]`` … ``model_start[m + 1] - 1``.
    pair_group : ndarray of int32, shape (n_pairs,)
        Group of each pair.
    latency : ndarray of float64, shape (n_pairs, n_sizes, max_stages)
        Stage latencies, seconds, per batch size; NaN where the profile lacks that batch size, 0 past the last stage.
    hop : ndarray of float64, shape (n_pairs,)
        Seconds between two stages.
    sizes : ndarray of int32, shape (n_sizes,)
        Batch sizes, ascending, beginning with 1.
    """

    n_groups: int
    n_models: int
    stages: npt.NDArray[np.int32]
    model_start: npt.NDArray[np.int32]
    pair_group: npt.NDArray[np.int32]
    latency: npt.NDArray[np.float64]
    hop: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int32]

    def pairs_of(self, model: int) -> range:
        """Pairs of a model."""
        return range(int(self.model_start[model]), int(self.model_start[model + 1]))

    def pair(self, model: int, group: int) -> int:
        """The pair of a model and a group that holds it."""
        for p in self.pairs_of(model):
            if self.pair_group[p] == group:
                return p
        raise InputError(f"group {group} does not hold model {model}")


def build_tables(
    placement: Placement, models: Sequence[str], profiles: Mapping[str, ModelProfile], max_batch: int = 1
) -> ServingTables:
    """Lay a placement out as arrays.

    Models of the placement that the trace does not ask for are left out; models of the trace without a replica have
    no pair.

    Raises
    ------
    InputError
        If a model has no profile.
    OutOfProfileError
        If a model was not profiled under its group's configuration at batch 1 or at `max_batch`.
    """
    index = {name: m for m, name in enumerate(models)}
    held = sorted(
        (index[name], g) for g, group in enumerate(placement.groups) for name in group.models if name in index
    )
    max_stages = max(group.config.pp for group in placement.groups)
    entries: list[StageProfile] = []
    sizes = {1}
    for m, g in held:
        name, config = models[m], placement.groups[g].config
        if name not in profiles:
            raise InputError(f"no profile for model {name!r}; profiled models: {', '.join(list(profiles)[:10])}")
        stage = profiles[name].stage(config)
        for batch in (1, max_batch):
            if batch not in stage.latency:
                have = ", ".join(str(b) for b in sorted(stage.latency))
                raise OutOfProfileError(
                    f"profile {name!r}, {config}: no entry for batch {batch}; profiled batches: {have}"
                )
        sizes.update(b for b in stage.latency if b <= max_batch)
        entries.append(stage)
    ordered = np.array(sorted(sizes), dtype=np.int32)
    latency = np.full((len(held), len(ordered), max_stages), np.nan)
    column = {int(b): i for i, b in enumerate(ordered)}
    for p, stage in enumerate(entries):
        for batch, row in stage.latency.items():
            if batch in column:
                latency[p, column[batch], : len(row)] = row
                latency[p, column[batch], len(row) :] = 0.0  # and not NaN, which says that the size is not profiled
    model_of_pair = np.array([m for m, _ in held], dtype=np.int64)
    return ServingTables(
        n_groups=len(placement.groups),
        n_models=len(models),
        stages=np.array([group.config.pp for group in placement.groups], dtype=np.int32),
        model_start=np.searchsorted(model_of_pair, np.arange(len(models) + 1)).astype(np.int32),
        pair_group=np.array([g for _, g in held], dtype=np.int32),
        latency=latency,
        hop=np.array([stage.hop_s for stage in entries]),
        sizes=ordered,
    )
