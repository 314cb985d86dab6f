"""The enumerations of Algorithm 2 (AlpaServe §4.2): model buckets, device buckets, group partitions, configurations.

Each is a generator with a documented order and count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from ...errors import InputError
from ...profiles.config import ParallelConfig
from .instance import Instance

__all__ = [
    "coarsest_buckets",
    "device_buckets",
    "discrepancy",
    "group_partitions",
    "layouts",
    "model_buckets",
    "parallel_configs",
]


def _types(latency: Sequence[float]) -> list[tuple[float, tuple[int, ...]]]:
    """Models of equal latency, ascending by latency."""
    by_value: dict[float, list[int]] = {}
    for m, value in enumerate(latency):
        by_value.setdefault(value, []).append(m)
    return [(value, tuple(by_value[value])) for value in sorted(by_value)]


def _apart(short: float, long: float, threshold: float) -> bool:
    return (long - short) / long > threshold


def model_buckets(latency: Sequence[float], threshold: float) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ways to cut the models, in order of latency, into buckets that separate latencies too far apart.

    Two latencies are too far apart when ``(longer - shorter) / longer > threshold``. Models of one latency stay
    together, and a bucket is an interval of latencies: to put a model between two of a bucket elsewhere would not
    lessen the convoy effect. With T distinct latencies there are ``2 ** (T - 1)`` ways if none are too far apart, one
    if all neighbours are; in general as many as there are paths through the intervals allowed.

    Parameters
    ----------
    latency : sequence of float
        Single-device latency of each model, seconds.
    threshold : float
        In [0, 1].

    Yields
    ------
    tuple of tuple of int
        Buckets of model numbers, shortest latency first; those with the fewest buckets first.
    """
    types = _types(latency)
    n = len(types)
    for cuts in range(n):
        for where in combinations(range(1, n), cuts):
            edges = [0, *where, n]
            spans = list(pairwise(edges))
            # Types are in order of latency: the two ends of a span are its furthest pair.
            if not any(_apart(types[a][0], types[b - 1][0], threshold) for a, b in spans):
                yield tuple(tuple(sorted(m for t in types[a:b] for m in t[1])) for a, b in spans)


def coarsest_buckets(latency: Sequence[float], threshold: float) -> tuple[tuple[int, ...], ...]:
    """The one bucketing with the fewest buckets that takes models from the longest latency down, as many as it may."""
    buckets: list[list[int]] = []
    top = 0.0
    for value, group in reversed(_types(latency)):
        # From the longest down: what is too far apart is relative to the longer one, which is then known.
        if not buckets or _apart(value, top, threshold):
            buckets.append([])
            top = value
        buckets[-1].extend(group)
    return tuple(tuple(sorted(b)) for b in reversed(buckets))


def device_buckets(n_devices: int, k: int) -> Iterator[tuple[int, ...]]:
    """All ways to give `n_devices` devices to k buckets, at least one each, in lexicographic order.

    There are ``C(n_devices - 1, k - 1)``.
    """
    for cuts in combinations(range(1, n_devices), k - 1):
        edges = (0, *cuts, n_devices)
        yield tuple(b - a for a, b in pairwise(edges))


def discrepancy(split: Sequence[int], rate: Sequence[float], work: Sequence[float]) -> float:
    """How unevenly a device split serves the buckets: the largest |share of traffic - share of throughput|.

    Parameters
    ----------
    split : sequence of int
        Devices of each bucket.
    rate : sequence of float
        Requests of each bucket (any unit).
    work : sequence of float
        Mean device-seconds of a bucket's request; its throughput is estimated as devices / work.
    """
    throughput = [n / w for n, w in zip(split, work, strict=True)]
    all_rate, all_throughput = sum(rate), sum(throughput)
    return max(abs(r / all_rate - t / all_throughput) for r, t in zip(rate, throughput, strict=True))


def group_partitions(
    n_devices: int, sizes: Sequence[int] | None = None, remainder: str = "powers_of_two"
) -> Iterator[tuple[int, ...]]:
    """Partitions into groups of equal size, and what to do with the devices left over.

    Parameters
    ----------
    n_devices : int
        Devices to partition.
    sizes : sequence of int, optional
        Group sizes to try, in this order; powers of two up to `n_devices` if not given (there are
        ``floor(log2(n_devices)) + 1``). Those larger than `n_devices` are left out.
    remainder : str
        ``"last_group"`` (the paper): the ``n_devices % size`` devices left over form one group.
        ``"powers_of_two"`` (the authors' code): they form groups of falling powers of two.

    Yields
    ------
    tuple of int
        Size of each group: ``n_devices // size`` equal ones, then those of the remainder.
    """
    if remainder not in ("powers_of_two", "last_group"):
        raise InputError(f"remainder: expected 'powers_of_two' or 'last_group' (got {remainder!r})")
    for size in sizes if sizes is not None else [1 << i for i in range(n_devices.bit_length())]:
        if size > n_devices:
            continue
        regular, left = divmod(n_devices, size)
        if remainder == "last_group":
            rest = (left,) if left else ()
        else:
            rest = tuple(1 << i for i in reversed(range(left.bit_length())) if left >> i & 1)
        yield (size,) * regular + rest


def parallel_configs(size: int, max_op: int | None = None, max_pp: int | None = None) -> Iterator[ParallelConfig]:
    """All (op, pp) with ``op * pp == size``, op rising: one for each divisor of `size` that the limits allow."""
    for op in range(1, size + 1):
        if size % op == 0 and op <= (max_op or op) and size // op <= (max_pp or size):
            yield ParallelConfig(op, size // op)


def layouts(
    instance: Instance, n_devices: int, bucket: Sequence[int] | None = None, remainder: str = "powers_of_two"
) -> Iterator[tuple[int, ...]]:
    """Group partitions with their parallel configurations, as the configuration number of each group.

    All equal groups share one configuration. Groups of the remainder: with ``"powers_of_two"`` each is a pipeline of
    single devices (op 1), or the closest configuration of its size that is profiled; with ``"last_group"`` every
    profiled configuration of its size is tried. A remainder that no profile covers stays idle.

    Only configurations that some model of `bucket` (all if not given) fits are tried: at most the number of the
    instance's configurations of at most `n_devices` devices, times those of the last group. Pipelines come first: deep
    ones with little intra-operator parallelism, which usually serve most.
    """
    models = list(range(instance.n_models)) if bucket is None else list(bucket)
    by_size: dict[int, list[int]] = {}
    for c, config in enumerate(instance.configs):
        if instance.fits[c, models].any():
            by_size.setdefault(config.n_devices, []).append(c)
    found = []
    for sizes in group_partitions(n_devices, sorted(by_size), remainder):
        regular = [s for s in sizes if s == sizes[0]]
        rest = [s for s in sizes if s != sizes[0] and s in by_size]
        for c in by_size[sizes[0]]:
            if remainder == "last_group" and rest:
                found += [(c,) * len(regular) + (last,) for last in by_size[rest[0]]]
            else:
                odd = tuple(min(by_size[s], key=lambda c: instance.configs[c].op) for s in rest)
                found.append((c,) * len(regular) + odd)
    # What comes first sets the figure that later layouts must beat, and those that provably cannot are skipped.
    yield from sorted(
        found, key=lambda groups: (-instance.configs[groups[0]].pp, instance.configs[groups[0]].op, groups)
    )
