"""AlpaServe's planner (Algorithms 1 and 2), its baselines, and what goes beyond the paper. `plan` is the door."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.plan import Plan
from ...traces.trace import Trace
from .evaluator import Evaluator
from .finish import finish
from .instance import Instance, build_instance
from .partition import PartitionOptions, Search
from .spare import fill_spare_memory

__all__ = ["Evaluator", "Instance", "build_instance", "plan"]


def plan(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    selection: str = "fast",
    beam: int = 1,
    max_op: int | None = 8,
    max_pp: int | None = 16,
    bucket_threshold: float = 0.38,
    bucketings: str = "coarsest",
    remainder: str = "powers_of_two",
    max_splits: int = 100,
    memory: str = "per_stage",
    fill: bool = True,
    dispatch: str = "shortest_queue",
    admission: bool = True,
    overhead: float | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Plan:
    """Plan a placement."""
    begun = time.perf_counter()
    options = PartitionOptions(
        selection=selection, beam=beam, bucket_threshold=bucket_threshold, bucketings=bucketings,
        remainder=remainder, max_splits=max_splits,
    )  # fmt: skip
    instance = build_instance(
        cluster, models, trace, profiles, max_op=max_op, max_pp=max_pp, dispatch=dispatch, admission=admission,
        overhead=overhead, memory=memory,
    )  # fmt: skip
    evaluator = Evaluator(instance)
    state = Search(evaluator, options, progress).run().state
    if fill:
        state = fill_spare_memory(evaluator, state)
    return finish(evaluator, state, "alpaserve", {"selection": selection, "beam": beam}, begun, seed)
