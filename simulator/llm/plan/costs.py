"""What the iterations of a plan's deployments cost, and over which links their keys and values go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ....profiles.devices import DEVICES
from ....profiles.hardware import DeviceSpec, LinkSpec
from ....profiles.llm.cost.iteration import CostOptions, iteration_cost
from ....profiles.llm.cost.overheads import Overheads
from ....profiles.llm.iteration import IterationCost
from ....profiles.llm.tables.kernels import KernelTables
from ..decoding.speculative import Speculative
from ..memory.swapping import SwapCost
from ..policy.vllm_v1.state import V1Config
from .entries import MEMORY_OPTION, Deployment
from .file import LLMPlan

__all__ = [
    "Tables", "deployment_cost", "drafts_of", "flight_options", "kv_bytes_per_token", "swap_cost", "tables_for",
    "told", "transfer_link",
]  # fmt: skip

Tables = KernelTables | Mapping[str, KernelTables]
"""Measured kernels: of the plan's cluster, or by device type; types without any are priced by their rooflines."""


def flight_options(deployment: Deployment) -> Any:
    """Options of each of an engine's schedulers: where each batch in flight has one, they divide the memory.

    Ranks with requests of their own (dp) are one engine with the budgets of all, in which no request gets more of a
    step than one rank's.
    """
    options, memory = deployment.options, MEMORY_OPTION.get(deployment.policy, "num_slots")
    if deployment.dp > 1 and isinstance(options, V1Config):
        own, dp = options.max_num_batched_tokens, deployment.dp
        active = options.max_num_active_seqs
        options = replace(
            options, max_num_batched_tokens=dp * own, max_num_seqs=dp * options.max_num_seqs, limit_alone=True,
            long_prefill_token_threshold=min(options.long_prefill_token_threshold or own, own),
            max_num_active_seqs=None if active is None else dp * active,
        )  # fmt: skip
    if deployment.schedulers == 1:
        return options
    rarer = [name for name in ("max_num_active_seqs", "num_cpu_blocks") if getattr(options, name, 0)]
    divided = (memory, "max_num_seqs", *rarer)
    return replace(options, **{name: max(1, getattr(options, name) // deployment.pp) for name in divided})


def tables_for(plan: LLMPlan, deployment: Deployment, tables: Tables | None) -> KernelTables | None:
    """The measured kernels of a deployment's device type, if there are any."""
    name = plan.device_of(deployment).name
    if isinstance(tables, Mapping):
        return tables.get(name)
    return tables if name == plan.cluster.device.name else None


def deployment_cost(
    plan: LLMPlan, deployment: Deployment, tables: Tables | None = None, overheads: Overheads | None = None
) -> IterationCost:
    """Cost of a deployment's iterations, from measured kernels or the roofline of its device.

    Raises
    ------
    InputError
        If `iteration_cost` knows no such degree.
    """
    device, mine = plan.device_of(deployment), tables_for(plan, deployment, tables)
    model = plan.model(deployment.model)
    options = CostOptions(
        deployment.cp, deployment.dp, deployment.expert_degree, skew=model.expert_skew, balanced=deployment.eplb,
        all2all=deployment.all2all, images=model.images,
    )  # fmt: skip
    return iteration_cost(
        model.spec,
        mine if mine is not None else device,
        tp=deployment.tp,
        pp=deployment.pp,
        precision=deployment.precision,
        kv=deployment.kv_precision,
        overheads=overheads,
        link=_link(device, mine),
        options=options,
    )


def _link(device: DeviceSpec, tables: KernelTables | None) -> LinkSpec | None:
    """The link of a device type, where its tables bring none: those of operators do, and those of layers may."""
    if tables is None or (tables.layers is not None and (tables.layers.link is None or told(device))):
        return device.intra_node
    return None


def told(device: DeviceSpec) -> bool:
    """Whether somebody said the link of a device type: it is not as the shipped type has it."""
    shipped = DEVICES.get(device.name)
    return shipped is None or shipped.intra_node != device.intra_node


def drafts_of(plan: LLMPlan, deployment: Deployment, tables: Tables | None = None) -> Speculative | None:
    """Speculative decoding of a deployment, its drafts priced by the deployment's device.

    Raises
    ------
    InputError
        On an unknown draft, or degrees that it does not take.
    """
    if deployment.speculative is None:
        return None
    mine = tables_for(plan, deployment, tables)
    return deployment.speculative.speculative(
        plan.model(deployment.model).spec, plan.device_of(deployment) if mine is None else mine, tp=deployment.tp,
        pp=deployment.pp, precision=deployment.precision, kv=deployment.kv_precision,
    )  # fmt: skip


def kv_bytes_per_token(plan: LLMPlan, deployment: Deployment) -> int:
    """Bytes of keys and values of one token, all layers."""
    return plan.model(deployment.model).spec.kv_bytes_per_token(
        "fp8" if deployment.kv_precision == "fp8" else "float16"
    )


def swap_cost(plan: LLMPlan, deployment: Deployment) -> SwapCost:
    """What it takes to swap blocks of a deployment, over its devices' links to their hosts."""
    kv = "fp8" if deployment.kv_precision == "fp8" else "float16"
    return SwapCost.of(plan.model(deployment.model).spec, deployment.block_size, tp=deployment.tp, kv=kv)


def transfer_link(plan: LLMPlan, prefill: Deployment, decode: Deployment) -> LinkSpec:
    """Over what keys and values go from prefill to decode engines: the links of the smaller engine's devices together.

    Those between nodes, if any prefill device stands on another node than any decode device; between devices of two
    types the slower ones.
    """
    mixed = plan.mixed
    nodes = {mixed.on_node(x)[0] for d in (prefill, decode) for row in d.devices for x in row}
    here, there = prefill.devices[0][0], decode.devices[0][0]
    one = mixed.pools[mixed.pool_of(here)].spec
    same = mixed.pool_of(here) == mixed.pool_of(there)
    link = (one.intra_node if len(nodes) == 1 else one.inter_node) if same else mixed.between(here, there)
    # Device i of the one sends to device i of the other: the smaller engine's links are all that can be busy.
    lanes = min(prefill.devices_per_engine, decode.devices_per_engine)
    return LinkSpec(link.bandwidth_bytes_per_s * lanes, link.latency_s)
