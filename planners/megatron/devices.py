"""Searching over cluster sizes: time of each size, and the fewest devices that finish a training run in time."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from ...errors import InfeasibleError, InputError
from ...reprs import Shown
from ...simulator import Cluster
from ...simulator.training.configuration.kernels import DTYPE_BYTES, FP8, FP8_PEAK, TF32
from ...simulator.training.configuration.model import shape_of
from .result import Configuration, SearchResult
from .search import search
from .space import ImpossibleError

__all__ = ["DeviceCount", "devices_for", "sweep_devices"]

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, repr=False)
class DeviceCount(Shown):
    """How many devices finish a training run in time.

    Parameters
    ----------
    devices : int
        The fewest.
    configuration : Configuration
        The fastest on them.
    iterations : int
        Iterations of the run.
    days : float
        What it takes.
    price : float
        Of all device-hours, in the currency of the device's price; 0 for unknown.
    tried : dict
        Number of devices -> days of its fastest configuration, None where nothing fits or is possible.
    """

    devices: int
    configuration: Configuration
    iterations: int
    days: float
    price: float
    tried: dict[int, float | None]


def sweep_devices(
    model: object,
    cluster: Cluster,
    global_batch: int,
    devices: Iterable[int],
    *,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> dict[int, SearchResult | None]:
    """`search` on clusters of several sizes: nodes like those of `cluster`, less than one node where that is enough.

    Parameters
    ----------
    devices : iterable of int
        Numbers of devices; each must fill nodes, or fit into one.
    options
        As in `search`.

    Returns
    -------
    dict
        Number of devices -> its search; None where no combination is possible. Where nothing fits, `best` is empty.

    Raises
    ------
    InputError
        On a number of devices that does not fill nodes, or on what `search` refuses for every size.
    """
    found: dict[int, SearchResult | None] = {}
    for count, sized in _clusters(cluster, devices):
        if progress:
            progress(f"{count} devices")
        found[count] = _searched(model, sized, global_batch, options)
    return found


def devices_for(
    model: object,
    cluster: Cluster,
    global_batch: int,
    *,
    days: float,
    tokens: float | None = None,
    iterations: int | None = None,
    devices: Iterable[int] | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> DeviceCount:
    """The fewest devices on which some configuration trains for so long in so many days.

    Sizes are tried from the smallest. Those on which even the device's peak would not do are left out: exact, since
    no configuration is faster than that.

    Parameters
    ----------
    days : float
        Days that the run may take.
    tokens, iterations
        Length of the run; give one of the two.
    devices : iterable of int, optional
        Sizes to try; by default whole nodes, doubling, up to 16,384 devices.
    options
        As in `search`.

    Raises
    ------
    InputError
        On days or a length that are not positive.
    InfeasibleError
        If none of the sizes will do; names the best of them.
    """
    shape = shape_of(model)
    if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days < float("inf"):
        raise InputError(f"days: expected a number > 0 (got {days!r})")
    if (tokens is None) == (iterations is None):
        raise InputError("tokens, iterations: give one of the two, the length of the run")
    length: Any = iterations if tokens is None else tokens
    name = "iterations" if tokens is None else "tokens"
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 < length < float("inf"):
        raise InputError(f"{name}: expected a number > 0 (got {length!r})")
    count = ceil(length if tokens is None else tokens / (global_batch * shape.seq))
    options = dict(options)
    dtype = options.get("dtype", "bf16")
    faster = FP8_PEAK if dtype == FP8 else 1.0 if DTYPE_BYTES.get(dtype, 2) == 2 else TF32
    per_second = cluster.spec.peak_flops * faster
    # A causal kernel leaves out half of the scores that MFU counts: the bound must, too.
    flops = shape.model_flops(global_batch) - 3 * global_batch * shape.seq * shape.layers * shape.attention_flops // 2
    least = count * flops / (per_second * days * DAY_S)
    tried: dict[int, float | None] = {}
    fastest: tuple[float, int] | None = None
    for size, sized in _clusters(cluster, _doubling(cluster) if devices is None else sorted(set(devices))):
        if size < least:
            continue
        if progress:
            progress(f"{size} devices")
        result = _searched(model, sized, global_batch, {**options, "top": 1})
        tried[size] = None
        if result is None or not result.best:
            continue
        best = result.best[0]
        tried[size] = took = best.seconds * count / DAY_S
        if took <= days:
            price = took * 24 * size * cluster.spec.price_per_hour
            return DeviceCount(size, best, count, took, price, tried)
        fastest = min(fastest or (took, size), (took, size))
    what = f"the best of them, {fastest[1]} devices, takes {fastest[0]:.4g}" if fastest else "nothing fits on any"
    bound = f"even at their peak {ceil(least):,} devices are needed"
    raise InfeasibleError(
        f"devices: no size of {_span(tried)} trains {count:,} iterations in {days:g} days: {what}; {bound}"
    )


def _searched(model: object, cluster: Cluster, global_batch: int, options: dict[str, Any]) -> SearchResult | None:
    try:
        return search(model, cluster, global_batch, must_fit=False, **options)
    except ImpossibleError:
        return None


def _doubling(cluster: Cluster) -> Iterator[int]:
    size = cluster.devices_per_node
    while size <= 16_384:
        yield size
        size *= 2


def _clusters(cluster: Cluster, devices: Iterable[int]) -> Iterator[tuple[int, Cluster]]:
    per_node = cluster.devices_per_node
    for count in devices:
        if isinstance(count, bool) or not hasattr(count, "__index__") or int(count) < 1:
            raise InputError(f"devices: expected positive integers (got {count!r})")
        size = int(count)
        if size > per_node and size % per_node:
            raise InputError(f"devices: expected full nodes of {per_node}, or less than one (got {size})")
        yield size, Cluster(max(size // per_node, 1), min(size, per_node), cluster.device)


def _span(tried: dict[int, float | None]) -> str:
    sizes = list(tried)
    return f"{sizes[0]:,} to {sizes[-1]:,} devices" if len(sizes) > 1 else f"{sizes[0] if sizes else 0:,} devices"
