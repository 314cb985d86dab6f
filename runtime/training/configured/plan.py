"""`config_of`: what a plan of the configuration search says to the decoder that trains by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ....errors import InputError
from ....simulator.training import TransformerShape
from ....simulator.training.configuration.model import shape_of
from ....simulator.training.plan.file import TrainingPlan
from ..decoder.config import Config, Shape, Way

__all__ = ["config_of", "is_configured"]


def is_configured(plan: TrainingPlan) -> bool:
    """Whether the plan is one of a configuration, which names degrees and no operators."""
    return "shape" in plan.planner.options


def config_of(plan: TrainingPlan) -> Config:
    """The decoder and its way of training.

    Raises
    ------
    InputError
        On what the decoder does not do: latent attention, tokens that are dropped, experts cut by tensor parallelism,
        an optimizer or activations on the host, tensors that are recomputed one by one, 8-bit products, ZB-H1, and
        DualPipe.
    """
    said = cast("Mapping[str, Any]", plan.planner.options)
    shape = shape_of(cast("Mapping[str, Any]", said["shape"]))
    ranks = said["dp"] * said.get("cp", 1)
    sharded = said.get("shard") or ranks
    recompute = _recompute(said)
    refused = {
        "8-bit products (dtype fp8)": said.get("dtype") == "fp8",
        "latent attention": shape.latent is not None,
        "further predicted tokens": bool(shape.mtp_layers),
        "dropped tokens (capacity)": shape.experts is not None and bool(shape.experts.capacity),
        "experts cut by tensor parallelism (etp)": shape.experts is not None and (said.get("etp") or said["tp"]) > 1,
        "the optimizer on the host": bool(said.get("offload_optimizer")),
        f"activations on the host ({', '.join(said.get('offloaded', ()))})": bool(said.get("offloaded")),
        f"recomputation of {', '.join(said.get('recomputed', ()))}": recompute is None,
    }
    wrong = next((what for what, found in refused.items() if found), None)
    if wrong is not None:
        raise InputError(f"{plan.model.name}: the decoder that runs plans of planner search does not do {wrong}")
    ends = [s.last - s.first for s in plan.stages]
    ends[0] -= 1  # the embedding
    ends[-1] -= 1  # the output layer
    try:
        return Config(
            _shape(shape),
            Way(
                tp=said["tp"], pp=said["pp"], dp=said["dp"], cp=said.get("cp", 1), ep=said.get("ep", 1),
                shard=sharded if said["zero"] else 1, reshard=said["zero"] == 3 and bool(said.get("reshard", True)),
                microbatch=said["microbatch"], global_batch=plan.global_batch, interleave=said["interleave"],
                layers=tuple(ends), schedule=plan.schedule, sequence_parallel=said["sequence_parallel"],
                context=said.get("context", "ring").replace("-", "_"), recompute=recompute or "none",
            ),
        )  # fmt: skip
    except ValueError as error:
        raise InputError(f"{plan.model.name}: {error}") from None


def _recompute(said: Mapping[str, Any]) -> str | None:
    """What is recomputed, by the decoder's word; None where it has none."""
    if "recomputed" not in said:
        return said["recompute"]
    words = {(): "none", ("layer",): "full", ("scores",): "selective"}
    return words.get(tuple(said["recomputed"]))


def _shape(shape: TransformerShape) -> Shape:
    experts = shape.experts
    several: dict[str, Any] = {}
    if experts is not None:
        few = experts.dense_layers
        dense = [k * shape.layers // few for k in range(few)] if experts.alternate else range(few)
        several = {"experts": experts.count, "top_k": experts.top_k, "expert_ffn": experts.ffn,
                   "shared_ffn": experts.shared_ffn, "dense": tuple(dense)}  # fmt: skip
    return Shape(
        shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn, shape.vocab, shape.seq,
        gated=shape.gated, tied=bool(shape.tied), **several,
    )  # fmt: skip
