"""Compiled loops of the partitioner.

All values are *tolerances*: how many samples the next stage may have in flight at most so that all stages before it
still fit into their memory. A stage's own tolerance is the smaller of what its memory holds and what the stages before
it tolerate. The offset of Table 3.2 is then subtracted for the next stage. So everything before a cut is summarised by
one number for each configuration of the next stage, and larger is better. Where branches meet, the minimum counts.
`NONE` says that there is no plan.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...jit import kernel

__all__ = ["ANY", "NONE", "after_stage", "count_products", "end_stages", "joined", "stage_totals"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NONE = -1
ANY = 1 << 40
"""No bound: more samples than any batch has, and small enough that sums with it do not overflow 64 bits."""


@kernel
def end_stages(
    reached: Ints, options: Ints, before: Ints, tps: Floats, holds: Ints, sizes: Ints, degrees: Ints, limit: float,
    budget: int, made: Ints,
) -> None:  # fmt: skip
    """Try all stages that end at one cut: `made[s, d]` becomes the best tolerance of a last stage.

    s is the stage's configuration, d the number of devices used up to it.

    Parameters
    ----------
    reached : ndarray, shape (n_places, n_configs + 1, n_devices + 1)
        What the stages before each place tolerate of the stage that begins there.
    options : ndarray, shape (m,)
        The candidate stages that end at the cut.
    before : ndarray, shape (m,)
        Place at which each of them begins.
    tps, holds : ndarray, shape (n_candidates, n_degrees, n_sizes)
        Seconds per sample of each candidate, and the samples that its memory holds.
    sizes : ndarray, shape (n_configs,)
        Index of each configuration's microbatch size.
    degrees : ndarray
        Numbers of devices that a stage may have.
    limit : float
        Seconds per sample that no stage may exceed.
    budget : int
        Samples in flight that no stage may exceed.
    made : ndarray, shape (n_configs, n_devices + 1)
        Written.
    """
    top = made.shape[1]
    for o in range(options.shape[0]):
        c, place = options[o], before[o]
        for g in range(degrees.shape[0]):
            n = degrees[g]
            for s in range(sizes.shape[0]):
                if tps[c, g, sizes[s]] > limit:
                    continue
                most = min(holds[c, g, sizes[s]], budget)
                if most <= 0:
                    continue
                for d in range(top - n):
                    value = min(reached[place, s, d], most)
                    made[s, d + n] = max(made[s, d + n], value)


@kernel
def after_stage(made: Ints, offset: Ints, least: Ints, reached: Ints) -> None:
    """Go on to the next stage: `reached[y, d]` becomes the most that any last stage leaves to a next stage y.

    Parameters
    ----------
    made : ndarray, shape (n_configs, n_devices + 1)
        Tolerance of the last stage.
    offset : ndarray, shape (n_configs, n_configs + 1)
        Table 3.2 as [x, y]; the last column is the end of the pipeline.
    least : ndarray, shape (n_configs + 1,)
        Fewest samples that a stage of each configuration has in flight; 0 at the end.
    reached : ndarray, shape (n_configs + 1, n_devices + 1)
        Updated where it can be raised.
    """
    for y in range(offset.shape[1]):
        for s in range(made.shape[0]):
            for d in range(made.shape[1]):
                if made[s, d] > 0:
                    value = made[s, d] - offset[s, y]
                    if value >= least[y] and value > reached[y, d]:
                        reached[y, d] = value


@kernel
def joined(a: Ints, b: Ints, into: Ints) -> None:
    """Combine two parts that run beside each other, over all ways to divide the devices between them."""
    top = a.shape[1]
    for y in range(a.shape[0]):
        for d in range(top):
            if a[y, d] >= 0:
                for e in range(top - d):
                    value = min(a[y, d], b[y, e])
                    into[y, d + e] = max(into[y, d + e], value)


@kernel
def stage_totals(
    source: Ints, candidate: int, tps: Floats, holds: Ints, sizes: Ints, degrees: Ints, limit: float, budget: int,
    offset: Ints, least: Ints, into: Ints,
) -> bool:  # fmt: skip
    """The tolerances after one stage that follows a source which tolerates `source[s]`; whether any exists."""
    found = False
    for g in range(degrees.shape[0]):
        n = degrees[g]
        if n >= into.shape[1]:
            continue
        for s in range(sizes.shape[0]):
            if tps[candidate, g, sizes[s]] > limit:
                continue
            most = min(min(holds[candidate, g, sizes[s]], budget), source[s])
            if most <= 0:
                continue
            for y in range(offset.shape[1]):
                value = most - offset[s, y]
                if value >= least[y] and value > into[y, n]:
                    into[y, n] = value
                    found = True
    return found


@kernel
def count_products(
    single: Ints, group: Ints, possible: Ints, radix: Ints, products: Ints
) -> None:  # fmt: skip
    """Combine any number of branches of each class that run beside each other.

    The branches are equal within a class, so it only matters how many of each class there are (a *count*).

    Parameters
    ----------
    single : ndarray, shape (n_classes, n_configs + 1, n_devices + 1)
        Tolerance after one branch of each class by itself.
    group : ndarray, shape (n_counts, n_configs + 1, n_devices + 1)
        Tolerance after several whole branches in one stage, for each count.
    possible : ndarray, shape (n_counts,)
        Whether there is such a stage.
    radix : ndarray, shape (n_classes,)
        Branches of each class, plus one. Counts are numbers of mixed radix; the last class varies fastest.
    products : ndarray, shape (n_counts, n_configs + 1, n_devices + 1)
        Written.
    """
    classes, total = radix.shape[0], products.shape[0]
    stride = np.ones(classes, np.int64)
    for k in range(classes - 2, -1, -1):
        stride[k] = stride[k + 1] * radix[k + 1]
    products[:] = NONE
    products[0, :, 0] = ANY
    for c in range(1, total):
        # Always deal the first class that is left: each partition is then met once, and not in every order.
        first = 0
        while c // stride[first] % radix[first] == 0:
            first += 1
        joined(single[first], products[c - stride[first]], products[c])
        for g in range(1, c + 1):
            if not possible[g] or g // stride[first] % radix[first] == 0:
                continue
            inside = True
            for k in range(classes):
                inside = inside and g // stride[k] % radix[k] <= c // stride[k] % radix[k]
            if inside:
                joined(group[g], products[c - g], products[c])
