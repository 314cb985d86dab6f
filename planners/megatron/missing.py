"""What is missing when nothing fits: by how much, which one trick saves most, and how many devices would do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import InputError
from ...simulator import Cluster
from ...simulator.training import TransformerShape
from .evaluate import Asked, evaluate
from .means import ALL
from .result import Configuration
from .space import Space

__all__ = ["TRICKS", "nothing_fits"]

GIB = 2**30
TRICKS: dict[str, dict[str, Any]] = {
    "recompute=full": {"recompute": "full"},
    "zero=3": {"zero": 3},
    "offload_optimizer=true": {"offload_optimizer": True},
    "recompute=chosen and offload_activations=true": {"recompute": "chosen", "offload_activations": True},
    "cp=all": {"cp": ALL},
    "ep=all": {"ep": ALL},
    "tp=all and pp=all": {"tp": None, "pp": None, "dp": None},
}
"""What may be allowed beyond what was asked, one at a time, by the option that says it."""
WITHOUT: dict[str, dict[str, Any]] = {
    "recomputation": {"recompute": "none"},
    "zero": {"zero": 0},
    "offload_optimizer": {"offload_optimizer": False},
    "offload_activations": {"offload_activations": False},
    "cp": {"cp": 1},
    "ep": {"ep": 1},
    "tp and pp": {"tp": 1, "pp": 1, "dp": None},
}
"""What the smallest is tried without, where nothing more may be allowed."""


def nothing_fits(
    shape: TransformerShape, cluster: Cluster, space: Space, smallest: Configuration, limit: float, asked: Asked
) -> str:
    """One line: the smallest, what it misses, the trick that saves most, and the fewest nodes (doubling) that would
    do."""
    needs = smallest.breakdown.memory.device
    said = (
        f"search: no configuration of {shape.params / 1e9:.1f} B parameters fits into {limit / GIB:.1f} GiB on "
        f"{cluster.n_devices} x {cluster.spec.name}: the smallest needs {needs / GIB:.1f} GiB, "
        f"{(needs - limit) / GIB:.1f} GiB too many ({smallest})"
    )
    helps: list[tuple[float, str]] = []
    for name, more in TRICKS.items():
        if (least := _least(shape, cluster, space, asked, more)) is not None and least < needs:
            helps.append((least, name))
    if not helps:
        said += _most_in_it(shape, cluster, space, asked, needs)
    else:
        least, name = min(helps)
        does = "which fits" if least <= limit else f"still {(least - limit) / GIB:.1f} GiB too many"
        said += f"; most of all helps {name}: {least / GIB:.1f} GiB, {does}"
    for doublings in range(1, 8):
        larger = Cluster(cluster.nodes << doublings, cluster.devices_per_node, cluster.device)
        try:
            wider = Space.of(
                larger.n_devices, space.global_batch, shape.layers, stack=space.stacks, shape=shape, **asked.means
            )
        except InputError:  # fixed degrees do not multiply to it
            break
        found, _, _ = evaluate(shape, larger, _smallest(wider), asked.costs, None)
        if len(found["device_bytes"]) and found["device_bytes"].min() <= limit:
            return f"{said}; {larger.n_devices} devices would do"
    return f"{said}; allow more of tp, pp, zero and recompute, or take devices with more memory"


def _most_in_it(shape: TransformerShape, cluster: Cluster, space: Space, asked: Asked, needs: float) -> str:
    """Which of the tricks that are tried already saves most; nothing where all are worth nothing."""
    costs: list[tuple[float, str]] = []
    for name, less in WITHOUT.items():
        least = _least(shape, cluster, space, asked, less)
        if least is not None and least > needs:
            costs.append((least, name))
    if not costs:
        return ""
    least, name = max(costs)
    return f"; of what is tried already {name} helps most: without it {least / GIB:.1f} GiB"


def _least(
    shape: TransformerShape, cluster: Cluster, space: Space, asked: Asked, other: dict[str, Any]
) -> float | None:
    """Bytes of the smallest configuration of other means; None where there is none, or nothing would be tried anew."""
    try:
        wider = Space.of(
            cluster.n_devices, space.global_batch, shape.layers, stack=space.stacks, shape=shape,
            **replace(asked, **other).means,
        )  # fmt: skip
    except InputError:
        return None
    if wider.degrees == space.degrees and wider.choices == space.choices:
        return None
    found, _, _ = evaluate(shape, cluster, _smallest(wider), asked.costs, None)
    return float(found["device_bytes"].min()) if len(found["device_bytes"]) else None


def _smallest(space: Space) -> Space:
    """The part of a space that holds its smallest configuration: more samples, chunks or overlap only add memory."""

    def only(name: str, value: Any) -> tuple[Any, ...]:
        return (value,) if value in space.choices[name] else space.choices[name]

    less = {
        "microbatch": only("microbatch", 1), "overlap_experts": only("overlap_experts", False),
        "offload_optimizer": only("offload_optimizer", True), "reshard": only("reshard", True),
        "offload_activations": only("offload_activations", True),
    }  # fmt: skip
    if "zb-v" not in space.choices["schedule"]:
        less["interleave"] = only("interleave", 1)
    return replace(space, choices={**space.choices, **less})
