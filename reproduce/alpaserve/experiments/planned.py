"""Table 1's models as graphs, and their serving profiles planned by Alpa's ILP (`planners.alpa.inference`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from ....planners.alpa.inference import InferenceOptions, Planned, plan_model
from ....profiles import ModelProfile, ParallelConfig, ProfileSet
from ....profiles.alpaserve.model import LARGEST_S, SEQUENCE
from ....profiles.graph import build_graph
from ....profiles.hardware import LinkSpec

__all__ = ["LEAST_DEVICES", "SIZES", "largest", "planned"]

_BERT, _MOE = "bert-large", "gshard-moe-1.3b"
_WORDS = 51200
"""Vocabulary of Alpa's language models (its Table 6)."""

SIZES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "bert-1.3b": (_BERT, {"layers": 24, "hidden": 2048, "heads": 32, "vocab": _WORDS, "seq": SEQUENCE}),
    "bert-2.6b": (_BERT, {"layers": 32, "hidden": 2560, "heads": 32, "vocab": _WORDS, "seq": SEQUENCE}),
    "bert-6.7b": (_BERT, {"layers": 32, "hidden": 4096, "heads": 32, "vocab": _WORDS, "seq": SEQUENCE}),
    "bert-104b": (_BERT, {"layers": 128, "hidden": 8192, "heads": 64, "vocab": _WORDS, "seq": SEQUENCE}),
    "moe-1.3b": (_MOE, {"hidden": 768, "seq": SEQUENCE}),
    "moe-2.4b": (_MOE, {"hidden": 1024, "seq": SEQUENCE}),
    "moe-5.3b": (_MOE, {"hidden": 1536, "seq": SEQUENCE}),
}
"""Model -> graph of the zoo, and its sizes: those of `profiles.alpaserve.model`, heads and experts as in Alpa's Tables
6 and 7. The heads of BERT-104B are a guess (128 wide, as GPT-3's)."""
LEAST_DEVICES = 16
"""§6.3: each BERT-104B needs 16 devices at least."""
_LARGEST = "bert-104b"
_LEAST = ParallelConfig(1, LEAST_DEVICES)


@lru_cache(maxsize=16)
def planned(
    name: str, ops: tuple[int, ...] = (1, 2, 4, 8), *, single_s: float | None = None, vocab: int | None = None
) -> Planned:
    """One of Table 1's models, planned for V100s; `single_s` as `InferenceOptions` has it."""
    zoo, sizes = SIZES[name]
    if vocab is not None:
        sizes = {**sizes, "vocab": vocab}
    return plan_model(build_graph(zoo, sizes=sizes), "v100-16gb", InferenceOptions(ops=ops, single_s=single_s))


def largest(
    *,
    scaled: bool = True,
    partition: Literal["auto", "computation"] = "auto",
    collectives: float = 1.0,
    across: float = 1.0,
) -> ProfileSet:
    """S4, four BERT-104B, with planned latencies: configurations of `LEAST_DEVICES` devices and more.

    Parameters
    ----------
    scaled : bool
        Whether operators are scaled, all by one factor, so that the least-split pipeline takes Table 1's 4.6 s.
    partition : {"auto", "computation"}
        Whether stages are balanced with what they send, or by computation alone, as §4.1's formula says. Units are
        single products here, so the latter may cut between scores and softmax, where most is sent.
    collectives, across : float
        Factors on the seconds of collectives, and of transfers between nodes, as planned.
    """
    single_s = None
    if scaled:
        alone = planned(_LARGEST, (1,))
        rest = sum(alone.stage(_LEAST).latency[1]) - alone.plans[1][1].seconds
        single_s = LARGEST_S - rest
    found = planned(_LARGEST, single_s=single_s)
    far = found.comm.p2p_inter_node
    assert far is not None
    comm = replace(
        found.comm,
        p2p_inter_node=LinkSpec(far.bandwidth_bytes_per_s / across, far.latency_s * across),
        planned_s={
            op: {b: tuple(collectives * s for s in row) for b, row in by_batch.items()}
            for op, by_batch in found.comm.planned_s.items()
        },
    )
    found = replace(found, comm=comm, options=replace(found.options, partition=partition))
    configs = [c for c in found.options.configs(len(found.table)) if c.n_devices >= LEAST_DEVICES]
    provenance = found.table.provenance
    profile = ModelProfile(_LARGEST, {c: found.stage(c) for c in configs}, provenance)
    whole = ProfileSet("planned", "v100-16gb", {_LARGEST: profile}, provenance)
    return replace(whole.instances({_LARGEST: 4}), name="planned/S4")
