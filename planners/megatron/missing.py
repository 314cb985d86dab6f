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
        if (least := _least(shape, cluster, space, replace(asked, **more))) is not None and least < needs:
            helps.append((least, name))
    if helps:
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
        found, _, _ = evaluate(shape, larger, wider, asked.costs, None)
        if len(found["device_bytes"]) and found["device_bytes"].min() <= limit:
            return f"{said}; {larger.n_devices} devices would do"
    return f"{said}; allow more of tp, pp, zero and recompute, or take devices with more memory"


def _least(shape: TransformerShape, cluster: Cluster, space: Space, asked: Asked) -> float | None:
    """Bytes of the smallest configuration of other means; None where there is none."""
    try:
        wider = Space.of(
            cluster.n_devices, space.global_batch, shape.layers, stack=space.stacks, shape=shape, **asked.means
        )
    except InputError:
        return None
    found, _, _ = evaluate(shape, cluster, wider, asked.costs, None)
    return float(found["device_bytes"].min()) if len(found["device_bytes"]) else None
