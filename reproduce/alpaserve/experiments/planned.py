"""Table 1's models as graphs, and their serving profiles planned by Alpa's ILP (`planners.alpa.inference`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from ....planners.alpa.inference import InferenceOptions, Planned, plan_model
from ....profiles import CommModel, Layer, LayerTable, ModelProfile, ParallelConfig, ProfileSet
from ....profiles.alpaserve.model import LARGEST_S, SEQUENCE
from ....profiles.compose import compose_stage
from ....profiles.graph import build_graph
from ....profiles.hardware import LinkSpec

__all__ = ["LEAST_DEVICES", "SHORT", "SIZES", "largest", "lengthened", "planned"]

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
SHORT = 6
"""Layers of BERT-104B that are planned. All of its layers are alike, and the ILP treats them alike: the middle one then
stands for the others (`lengthened`)."""
LEAST_DEVICES = 16
"""§6.3: each BERT-104B needs 16 devices at least."""
_LARGEST = "bert-104b"
_LEAST = ParallelConfig(1, LEAST_DEVICES)


@lru_cache(maxsize=16)
def planned(
    name: str, ops: tuple[int, ...] = (1, 2, 4, 8), *, single_s: float | None = None, vocab: int | None = None,
    layers: int | None = None,
) -> Planned:  # fmt: skip
    """One of Table 1's models, planned for V100s; `single_s` as `InferenceOptions` has it.

    `vocab` and `layers` stand in place of the model's own.
    """
    zoo, sizes = SIZES[name]
    sizes = {**sizes, **{k: v for k, v in {"vocab": vocab, "layers": layers}.items() if v is not None}}
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
    found = planned(_LARGEST, layers=SHORT)
    table, comm = lengthened(found)
    if scaled:
        alone = float(table.latency(1).sum())
        rest = sum(compose_stage(table, comm, _LEAST).latency[1]) - alone
        factor = (LARGEST_S - rest) / alone
        found = planned(_LARGEST, single_s=factor * float(found.table.latency(1).sum()), layers=SHORT)
        table, comm = lengthened(found)
    far = comm.p2p_inter_node
    assert far is not None
    comm = replace(
        comm,
        p2p_inter_node=LinkSpec(far.bandwidth_bytes_per_s / across, far.latency_s * across),
        planned_s={
            op: {b: tuple(collectives * s for s in row) for b, row in by_batch.items()}
            for op, by_batch in comm.planned_s.items()
        },
    )
    configs = [c for c in found.options.configs(len(table)) if c.n_devices >= LEAST_DEVICES]
    provenance = found.table.provenance
    stages = {
        c: replace(
            compose_stage(table, comm, c, partition=partition, source="planned"),
            activation_bytes={b: float(plan.live_bytes.max()) for b, plan in found.plans[c.op].items()},
        )
        for c in configs
    }
    profile = ModelProfile(_LARGEST, stages, provenance)
    whole = ProfileSet("planned", "v100-16gb", {_LARGEST: profile}, provenance)
    return replace(whole.instances({_LARGEST: 4}), name="planned/S4")


def lengthened(short: Planned, layers: int = SIZES[_LARGEST][1]["layers"]) -> tuple[LayerTable, CommModel]:
    """A plan of `SHORT` layers with the middle one repeated, so that there are `layers`, as many as the model has."""
    table = short.table
    blocks = [layer.block for layer in table.layers]
    middle = SHORT // 2
    first, last = blocks.index(middle), len(blocks) - blocks[::-1].index(middle)
    order = [*range(first), *list(range(first, last)) * (layers - SHORT + 1), *range(last, len(blocks))]
    made: list[Layer] = []
    block = -1
    for k, index in enumerate(order):
        layer = table.layers[index]
        if layer.block is None:
            made.append(layer)
            continue
        if index == first or layer.block != blocks[order[k - 1]]:
            block += 1
        made.append(replace(layer, name=f"{block}: {layer.name}", block=block))
    planned_s = {
        op: {b: tuple(row[index] for index in order) for b, row in by_batch.items()}
        for op, by_batch in short.comm.planned_s.items()
    }
    return replace(table, layers=tuple(made)), replace(short.comm, planned_s=planned_s)
