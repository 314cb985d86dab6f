"""Where the constants of `profiles.alpaserve.model` come from: fits to measurements of AlpaServe's authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..comm import fit_line
from ..hardware import LinkSpec

__all__ = ["Fit", "fit_measured"]

FloatArray = npt.NDArray[np.float64]

_BATCHES = (1, 2, 4, 8, 16)
_BLOCKS = 24
_STREAM = 1024 * 2048 * 2.0  # bytes between two layers of bert-1.3b per query of 1024 tokens
_HIDDEN = {"2.649B": 2560, "6.654B": 4096, "15.364B": 5120}


@dataclass(frozen=True, slots=True)
class Fit:
    """What the measurements say.

    Parameters
    ----------
    embedding_share, head_share : float
        Share of the single-device latency of bert-1.3b at batch 1.
    stage_overhead_s : float
        Seconds of every stage of a pipeline beyond its layers and its send.
    p2p_bytes_per_s : float
        Bandwidth from one stage to the next within a node.
    allreduce : Mapping[int, LinkSpec]
        Line per group size, two all-reduces per Transformer layer.
    inter_node_bytes_per_s : float
        Bandwidth from one stage to the next across nodes.
    batch_ratio : Mapping[int, float]
        Latency at batch b over batch 1 for queries of 2048 tokens.
    pipeline_error, allreduce_error : float
        Greatest relative error of the pipeline fit over 75 stage latencies and of the all-reduce lines.
    """

    embedding_share: float
    head_share: float
    stage_overhead_s: float
    p2p_bytes_per_s: float
    allreduce: Mapping[int, LinkSpec]
    inter_node_bytes_per_s: float
    batch_ratio: Mapping[int, float]
    pipeline_error: float
    allreduce_error: float


def fit_measured(measured: Mapping[str, Any]) -> Fit:
    """Fit the model's constants to the `measured` section of the source file.

    Parameters
    ----------
    measured : Mapping
        ``bert_1_3b_v100_oct2022`` (configuration -> batch -> stage latencies) and ``gpt_inference_v100_pipeline``
        (latency of whole GPT pipelines over 1 to 32 GPUs).
    """
    table: dict[str, dict[int, list[float]]] = {
        key: {int(b): row for b, row in by_batch.items()}
        for key, by_batch in measured["bert_1_3b_v100_oct2022"]["data"].items()
    }
    single = {b: table["op1pp1"][b][0] for b in _BATCHES}
    solution, pipeline_error = _pipelines(table)
    lines, allreduce_error = _allreduces(table, single)
    return Fit(
        embedding_share=float(solution[1] / single[1]),
        head_share=float(solution[2] / single[1]),
        stage_overhead_s=float(solution[-2]),
        p2p_bytes_per_s=float(1.0 / solution[-1]),
        allreduce=lines,
        inter_node_bytes_per_s=_inter_node(measured["gpt_inference_v100_pipeline"]["rows"]),
        batch_ratio=_batch_ratio(single),
        pipeline_error=pipeline_error,
        allreduce_error=allreduce_error,
    )


def _pipelines(table: Mapping[str, Mapping[int, Sequence[float]]]) -> tuple[FloatArray, float]:
    """Least squares in relative error over the stages of op1pp1 to op1pp8 at every batch size.

    Unknowns: per batch the seconds of a Transformer layer, the embedding and the head; then, for all batches, a stage's
    overhead and the seconds per byte of its send. Stages hold equally many layers.
    """
    rows: list[FloatArray] = []
    for i, batch in enumerate(_BATCHES):
        for pp in (1, 2, 4, 8):
            for stage, seconds in enumerate(table[f"op1pp{pp}"][batch]):
                row = np.zeros(3 * len(_BATCHES) + 2)
                row[3 * i] = _BLOCKS / pp
                row[3 * i + 1] = stage == 0
                row[3 * i + 2] = stage == pp - 1
                row[-2] = pp > 1
                row[-1] = _STREAM * batch if stage < pp - 1 else 0.0
                # Divided by what was measured: short stages then count as much as long ones.
                rows.append(row / seconds)
    matrix = np.array(rows)
    solution = np.asarray(np.linalg.lstsq(matrix, np.ones(len(matrix)), rcond=None)[0], dtype=np.float64)
    return solution, float(np.abs(matrix @ solution - 1.0).max())


def _allreduces(
    table: Mapping[str, Mapping[int, Sequence[float]]], single: Mapping[int, float]
) -> tuple[dict[int, LinkSpec], float]:
    """Latency at degree op less a perfect share of the single device's, as a line in bytes, per all-reduce."""
    lines, worst = {}, 0.0
    sizes = np.array([_STREAM * batch for batch in _BATCHES])
    for op in (2, 4, 8):
        spent = np.array([table[f"op{op}pp1"][b][0] - single[b] / op for b in _BATCHES]) / (2 * _BLOCKS)
        lines[op] = fit_line(sizes, spent)
        predicted = np.array([lines[op].time(size) for size in sizes])
        worst = max(worst, float(np.abs(predicted / spent - 1.0).max()))
    return lines, worst


def _inter_node(rows: Sequence[Mapping[str, str]]) -> float:
    """Bytes per second across nodes: what pipelines over 2 and 4 nodes take longer than those over 4 GPUs of one."""
    latency = {(r["params"], int(r["batch"]), int(r["gpus_pp"])): float(r["mean_s"]) for r in rows}
    per_second: list[float] = []
    for (model, batch, pp), seconds in latency.items():
        within = latency[model, batch, 4]
        # A p3.16xlarge has eight GPUs: only longer pipelines send across nodes.
        if pp > 8 and seconds > 0 and within > 0:
            crossed = (pp // 8 - 1) * 1024 * _HIDDEN[model] * 2.0 * batch
            per_second.append(crossed / (seconds - within))
    inverse = np.array(per_second)
    # Least squares of (bytes · x / extra seconds − 1): relative errors, so that batch 16 does not outweigh batch 1.
    return float((inverse**2).sum() / inverse.sum())


def _batch_ratio(single: Mapping[int, float]) -> dict[int, float]:
    """Batch b of 2048 tokens taken as batch 2b of 1024; batch 16 goes on along the line through 4 and 8."""
    at = {**single, 32: single[16] + 2 * (single[16] - single[8])}
    return {b: at[2 * b] / at[2] for b in _BATCHES}
