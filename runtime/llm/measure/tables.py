"""Tables from rounds of timing: medians, what a further chunk adds, and the host's times as a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import RunError
from ....profiles.llm.cost.overheads import Overheads
from ....profiles.llm.decoder import DecoderSpec
from ....profiles.llm.measure_rounds import Rounds
from ....profiles.llm.measure_sizes import Call, Sizes
from ....profiles.llm.measured import LayerMeasurement, Noise
from ....profiles.llm.tables.layers import ONCE, TWICE
from ....profiles.profile import Provenance
from .job import Host, Measured, Step

__all__ = ["Plan", "further_chunk", "launches", "layer_measurement", "overheads_of"]

LEAST_S = 1e-9
"""What a part is said to take that reads as nothing: tables hold numbers above 0."""
DENSE = (
    "embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "all_reduce", "gate_up_proj", "act_fn", "down_proj",
    "layer_rest", "forward_rest", "inputs",
)  # fmt: skip
PER_SEQUENCE = {"final_layernorm_rows": "final_layernorm_rows", "lm_head": "lm_head", "sampler": "sampler"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be measured, checked.

    Parameters
    ----------
    spec : DecoderSpec
        The model.
    device, dtype : str
        Where, and in which type.
    tp, block_size, seed, rounds : int
        Tensor-parallel degree; tokens of a KV block; of weights and batches; passes of each call.
    sizes : Sizes
        The grids.
    clock : {"wall", "core"}
        What times are read from: the wall clock, or the processor time of the measuring thread.
    """

    spec: DecoderSpec
    device: str
    dtype: str
    tp: int
    block_size: int
    seed: int
    rounds: int
    sizes: Sizes
    clock: str = "wall"

    @property
    def read_clock(self) -> Callable[[], float]:
        """The clock itself."""
        return time.thread_time if self.clock == "core" else time.perf_counter

    @property
    def number_bytes(self) -> int:
        """Bytes of one weight, activation, or cached key or value."""
        return {"float64": 8, "float32": 4}.get(self.dtype, 2)


def layer_measurement(plan: Plan, found: Measured, provenance: Provenance) -> LayerMeasurement:
    """Medians of the rounds as tables."""
    rounds = found.rounds
    tables: dict[str, list[Call]] = {}
    for table, call in rounds.samples:
        tables.setdefault(table, []).append(call)

    def median(table: str, call: Call, part: str) -> float:
        return rounds.samples[table, call].median(part)

    dense: dict[str, dict[int, float]] = {}
    for part in DENSE:
        measured = {call.tokens: median("dense", call, part) for call in tables["dense"]}
        if any(measured.values()):
            dense[part] = {size: max(seconds, LEAST_S) for size, seconds in measured.items()}
    heads = {
        part: {call.sequences: max(median("heads", call, part), LEAST_S) for call in tables["heads"]}
        for part in PER_SEQUENCE
    }
    if any(host.on_gpu for host in found.hosts.values()):  # what the host does there is in its own figure
        dense.pop("inputs", None)
    attention = [(*call.at, max(median("attention", call, "attention"), LEAST_S)) for call in tables["attention"]]
    return LayerMeasurement(
        model=plan.spec,
        tp=plan.tp,
        dtype=plan.dtype,
        dense=dense,
        attention=attention,
        per_sequence=heads,
        further_chunk_s=further_chunk(rounds, attention, tables["several"]),
        overheads={
            policy: overheads_of(host, dense.get("inputs", {}), heads["sampler"], launches(found.layers, dense, heads))
            for policy, host in found.hosts.items()
        },
        provenance=provenance,
        noise=Noise(rounds.taken, rounds.spread, rounds.drift, rounds.repeats),
    )


def further_chunk(rounds: Rounds, attention: list[tuple[int, int, int, int, float]], several: list[Call]) -> float:
    """What a further chunk adds beyond what its size does, seconds of one layer.

    The cost takes k equal chunks as ``one + (k - 1) (c + max(0, one - least))``: `one` is a chunk alone, and `least`
    the smallest chunk there is: solved for c on each batch of several; the median.
    """
    alone = {chunk: seconds for chunk, before, beside, _, seconds in attention if chunk and not before and not beside}
    least = alone[min(alone)]
    found: list[float] = []
    for call in several:
        k, one = len(call.prefill), alone.get(call.prefill[0][0])
        if one is not None:
            whole = rounds.samples["several", call].median("attention")
            found.append((whole - one) / (k - 1) - max(0.0, one - least))
    return max(0.0, float(np.median(found))) if found else 0.0


def launches(layers: int, dense: Mapping[str, Any], heads: Mapping[str, Any]) -> int:
    """Kernels of a pass as the cost counts them (`LayerKernels.launches`), so that their time adds up to the pass's."""
    once = sum(name in ONCE for name in dense)
    return layers * (len(dense) - once + sum(name in TWICE for name in dense) + 2) + once + len(heads)


def overheads_of(host: Host, inputs: Mapping[int, float], sampler: Mapping[int, float], kernels: int) -> Overheads:
    """Host times of the engine's steps, per step, sequence and new request: a line through the medians.

    Sampling is a part of its own, and on a CPU building the tensors is too (by tokens): they are taken off. On a GPU
    launches are apart: the device waits for them only where it is the faster.
    """

    def left(steps: Sequence[Step]) -> Any:
        """Their seconds without what tables hold."""
        seconds = np.array([step.seconds for step in steps])
        for part, at in ((inputs, [s.tokens for s in steps]), (sampler, [s.sequences for s in steps])):
            if part:
                sizes = sorted(part)
                seconds = seconds - np.interp(at, sizes, [part[size] for size in sizes])
        return seconds

    if not host.same:
        raise RunError("measure: no step of the engine was undisturbed; measure again when less runs on this machine")
    sequences, seconds = np.array([step.sequences for step in host.same], dtype=float), left(host.same)
    values = np.unique(sequences)
    middle = np.array([np.median(seconds[sequences == n]) for n in values])
    # numpy.polyfit multiplies residuals by their weights before it squares them: roots, to weigh by counts.
    weight = np.sqrt([float((sequences == n).sum()) for n in values])
    slope = max(0.0, float(np.polyfit(values, middle, 1, w=weight)[0])) if len(values) > 1 else 0.0
    base = max(0.0, float(np.average(middle - slope * values, weights=weight**2)))
    each = np.zeros(1)
    if host.more:
        came = np.array([step.came for step in host.more], dtype=float)
        behind = np.array([step.sequences + step.came for step in host.more], dtype=float)
        each = (left(host.more) - base - slope * behind) / came
    return Overheads(
        scheduler_s=base,
        per_sequence_s=slope,
        launch_s=host.launch_s / kernels,
        graph_launch_s=host.graph_launch_s,
        cuda_graphs=host.cuda_graphs,
        graph_tokens=host.graph_tokens,
        overlapped=False,
        fused=False,
        per_request_s=max(0.0, float(np.median(each))),
    )
