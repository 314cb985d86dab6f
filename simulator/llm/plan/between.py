"""What is wrong between the entries of an LLM plan that are each right by themselves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from ....errors import InputError
from ....profiles.llm.cost.kinds.experts import ALL2ALL
from ....profiles.llm.tower import checked_images
from ...plan.entries import ClusterEntry, Problem
from .entries import Deployment, ServedModel

__all__ = ["contradictions"]


def contradictions(
    clusters: Sequence[ClusterEntry | None],
    models: Sequence[ServedModel | None],
    deployments: Sequence[Deployment | None],
) -> list[Problem]:
    """What is wrong between entries that are each right by themselves.

    The clusters are the plan's own and its further pools. Entries that could not be read are None, and what needs them
    is not checked.
    """
    found: list[Problem] = _pools(clusters)
    names: dict[str, int] = {}
    for m, model in enumerate(models):
        if model is None:
            continue
        if model.name in names:
            found.append((("models", m, "name"), f"{model.name!r} is models[{names[model.name]}] already"))
        names.setdefault(model.name, m)
        try:
            spec = model.spec
            checked_images(model.images, spec.tower, spec.name)
        except InputError as error:
            found.append((("models", m), str(error)))
    known = None if None in models else names
    seen: dict[str, int] = {}
    for d, each in enumerate(deployments):
        if each is None:
            continue
        if each.name in seen:
            found.append((("deployments", d, "name"), f"{each.name!r} is deployments[{seen[each.name]}] already"))
        seen.setdefault(each.name, d)
        if known is not None and each.model not in known:
            shown = ", ".join(list(known)[:8])
            found.append((("deployments", d, "model"), f"unknown model {each.model!r}; the plan lists {shown}"))
        found += [(("deployments", d, *where), what) for where, what in _own(each, clusters)]
    found += [*_roles(deployments), *_shares(deployments)]
    if None not in deployments:
        found += _sharing([d for d in deployments if d is not None])
    return found


def _pools(clusters: Sequence[ClusterEntry | None]) -> list[Problem]:
    """Device types that two pools have."""
    names = [None if each is None else each.device.name for each in clusters]
    return [
        (("pools", i - 1, "device", "name"), f"{name!r} has a pool already; expected one for each device type")
        for i, name in enumerate(names)
        if name is not None and name in names[:i]
    ]


def _own(each: Deployment, clusters: Sequence[ClusterEntry | None]) -> list[Problem]:
    """What is wrong with one deployment."""
    found: list[Problem] = []
    ends = None if None in clusters else list(accumulate(c.nodes * c.devices_per_node for c in clusters if c))
    if each.tp % each.cp:
        found.append((("cp",), f"expected a divisor of tp {each.tp}, whose ranks hold the shards (got {each.cp})"))
    if each.eplb and not each.ep:
        found.append((("eplb",), "balances experts that are spread over devices; set ep"))
    if each.all2all != ALL2ALL[0] and not (each.ep and each.dp > 1):
        found.append((("all2all",), "tokens are sent between ranks of dp to spread experts; set ep and dp"))
    try:
        stages = getattr(each.options, "pipeline_parallel_size", 1)
    except InputError as error:
        found.append((("config",), str(error)))
    else:
        if stages not in (1, each.pp):
            found.append((("config", "pipeline_parallel_size"), f"expected pp {each.pp}, or 1 (got {stages})"))
    if each.speculative is not None:
        found += [((where,), f"no speculative decoding there ({why}); leave it out") for where, why in _no_drafts(each)]
    if len(each.devices) != each.replicas:
        found.append((("devices",), f"expected a row for each of {each.replicas} engines (got {len(each.devices)})"))
    for i, row in enumerate(each.devices):
        if len(row) != each.devices_per_engine:
            found.append((("devices", i), f"an engine has {each.devices_per_engine} devices (got {len(row)})"))
        if len(set(row)) != len(row):
            found.append((("devices", i), f"a device stands twice in one engine (got {list(row)})"))
        if ends is not None:
            found += [
                (("devices", i, j), f"device {x} does not exist; the cluster has 0 … {ends[-1] - 1}")
                for j, x in enumerate(row)
                if x >= ends[-1]
            ]
    if ends is not None and len({bisect_right(ends, x) for row in each.devices for x in row if x < ends[-1]}) > 1:
        found.append((("devices",), "its engines stand on devices of several types; expected one deployment for each"))
    return found


def _no_drafts(each: Deployment) -> list[tuple[str, str]]:
    """Fields that speculative decoding does not go with, and why."""
    found: list[tuple[str, str]] = []
    if each.policy != "vllm-v1":
        found.append(("policy", "only vllm-v1 schedules drafts"))
    if each.role != "both":
        found.append(("role", "not modelled across a hand-off"))
    if each.pp > 1:
        found.append(("pp", "not modelled in a pipeline"))
    return found


def _shares(deployments: Sequence[Deployment | None]) -> list[Problem]:
    """Shares of a model's requests: of all of its deployments or of none, and 1 together."""
    found: list[Problem] = []
    if None in deployments:
        return found
    by_model: dict[str, list[tuple[int, Deployment]]] = {}
    for d, each in enumerate(deployments):
        if each is not None:
            by_model.setdefault(each.model, []).append((d, each))
    for model, mine in by_model.items():
        given = [each.share for _, each in mine if each.share is not None]
        if not given:
            continue
        where = ("deployments", mine[0][0], "share")
        if len(given) < len(mine):
            found.append((where, f"some deployments of {model!r} have a share, some have none; expected one for each"))
        elif abs(sum(given) - 1) > 1e-9:
            found.append((where, f"the shares of {model!r} are {sum(given):.6g} together; expected 1"))
        if any(each.role != "both" for _, each in mine):
            found.append((where, "requests are dealt among engines with role 'both'; leave it out"))
    return found


def _roles(deployments: Sequence[Deployment | None]) -> list[Problem]:
    """Prefill engines need decode engines of the same model, and the other way round."""
    found: list[Problem] = []
    roles: dict[str, set[str]] = {}
    for each in deployments:
        if each is not None:
            roles.setdefault(each.model, set()).add(each.role)
    for d, each in enumerate(deployments):
        if each is None or each.role == "both":
            continue
        other = "decode" if each.role == "prefill" else "prefill"
        if other not in roles[each.model] and None not in deployments:
            found.append((("deployments", d, "role"), f"{each.model!r} has no deployment with role {other!r}"))
        if "both" in roles[each.model]:
            found.append((("deployments", d, "role"), f"{each.model!r} is also served by engines with role 'both'"))
    return found


def _sharing(deployments: Sequence[Deployment]) -> list[Problem]:
    """Engines share all of their devices or none, and their memory adds up."""
    found: list[Problem] = []
    owner: dict[int, frozenset[int]] = {}
    share: dict[frozenset[int], float] = {}
    for d, each in enumerate(deployments):
        for i, row in enumerate(each.devices):
            group = frozenset(row)
            where = ("deployments", d, "devices", i)
            other = next((owner[x] for x in row if x in owner and owner[x] != group), None)
            if other is not None:
                found.append((where, f"shares some but not all devices with an engine on {sorted(other)}"))
            for x in row:
                owner.setdefault(x, group)
            share[group] = share.get(group, 0.0) + each.gpu_memory_utilization
            if share[group] > 1 + 1e-9:  # 0.3 + 0.3 + 0.4 is above 1 by an ulp
                found.append((where, f"the engines on {sorted(group)} take {share[group]:.3g} of the memory together"))
    return found
