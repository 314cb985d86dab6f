"""`explain`: an LLM plan in words, with the formula of its KV memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from .file import Deployment, LLMPlan

__all__ = ["explain"]


def explain(plan: LLMPlan) -> str:
    """What `LLMPlan.explain` gives."""
    who = plan.planner
    seed = "" if who.seed is None else f", seed {who.seed}"
    lines = [f"{who.name} {who.version}{seed}: {len(plan.models)} model(s) on {plan.mixed}"]
    if plan.workload is not None:
        w = plan.workload
        rate = sum(w.rate_per_s.values())
        lines.append(f"traffic: {w.requests} requests in {w.duration_s:.6g} s ({rate:.4g}/s) {w.source}".rstrip())
    for model in plan.models:
        limits = [
            f"{name} {value:g} s"
            for name, value in (("TTFT", model.slo_ttft_s), ("TPOT", model.slo_tpot_s))
            if value is not None
        ]
        if limits or model.slo:
            lines.append(f"SLO of {model.name}: {', '.join((*limits, *model.slo))}")
    lines.append(f"router: {plan.router}")
    for deployment in plan.deployments:
        lines += _deployment(plan, deployment)
    price = f", {plan.price_per_hour:.4g} per hour" if plan.price_per_hour else ""
    lines.append(f"devices: {_used(plan)}{price}")
    served = {d.model for d in plan.deployments}
    missing = [m.name for m in plan.models if m.name not in served]
    if missing:
        lines.append(f"models that no engine serves: {', '.join(missing)}")
    if plan.cost_source:
        lines.append(f"iteration times: {plan.cost_source}")
    lines += [f"{key}: {value:.6g}" for key, value in plan.predicted.items()]
    for name, said in plan.predicted_per_model.items():
        lines.append(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in said.items()))
    lines.append(f"planned in {who.seconds:.3g} s, {who.evaluations} evaluations")
    return "\n".join(lines)


def _used(plan: LLMPlan) -> str:
    """How many devices of how many; of several pools each."""
    if not plan.pools:
        return f"{len(plan.used_devices)} of {plan.cluster_spec.n_devices}"
    used = plan.used_by_type
    return ", ".join(f"{used.get(pool.spec, 0)} of {pool.n_devices} {pool.spec.name}" for pool in plan.mixed.pools)


def _deployment(plan: LLMPlan, deployment: Deployment) -> list[str]:
    rows = "; ".join(_range(row) for row in deployment.devices)
    said = ", ".join(f"{key} {value}" for key, value in deployment.config.items())
    of = f" ({plan.device_of(deployment).name})" if plan.pools else ""
    lines = [f"{deployment} on devices {rows}{of}"]
    if said:
        lines.append(f"  options: {said}")
    try:
        capacity = plan.capacity(deployment)
    except (InputError, InfeasibleError) as error:
        lines.append(f"  KV memory: {error}")
    else:
        used = deployment.num_blocks // capacity.groups * deployment.block_size
        kept = "" if used == capacity.tokens else f"; the plan uses {used} tokens of them"
        lines.append(f"  KV memory of a rank: {capacity.explain()}{kept}")
    return lines


def _range(row: tuple[int, ...]) -> str:
    if len(row) > 1 and list(row) == list(range(row[0], row[0] + len(row))):
        return f"{row[0]}-{row[-1]}"
    return ",".join(map(str, row))
