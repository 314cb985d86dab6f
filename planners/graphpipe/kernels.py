"""Compiled loops of the partitioner.

Everything is a *tolerance*: the most samples that the next stage may have in flight so that all stages before it fit
their memory. A stage's own is the least of what its memory holds and what the stages before it tolerate; Table 3.2's
offset is what the next stage loses of it. So a plan before a cut is one number for each configuration of the next
stage, the larger the better, and joins of branches are the minimum. `NONE` says that there is no plan.
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
"""More samples than there are: no bound."""


@kernel
def end_stages(
    reached: Ints, options: Ints, before: Ints, tps: Floats, holds: Ints, sizes: Ints, degrees: Ints, limit: float,
    budget: int, made: Ints,
) -> None:  # fmt: skip
    """Stages that end at one cut: `made[s, d]` becomes the best tolerance of a last stage of configuration s.

    Parameters
    ----------
    reached : ndarray, shape (n_places, n_configs + 1, n_devices + 1)
        Tolerance of what comes next, at each place where a stage may begin.
    options : ndarray, shape (m,)
        Candidate stages.
    before : ndarray, shape (m,)
        Place at which each begins.
    tps, holds : ndarray, shape (n_candidates, n_degrees, n_sizes)
        Seconds per sample of each candidate, and the samples that its memory holds.
    sizes : ndarray, shape (n_configs,)
        Microbatch of each configuration, by number.
    degrees : ndarray
        Devices of a stage.
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
    """What the next stage is left with: `reached[y, d]` becomes the best of the stages before it.

    Parameters
    ----------
    made : ndarray, shape (n_configs, n_devices + 1)
        Tolerance of the last stage.
    offset : ndarray, shape (n_configs, n_configs + 1)
        Table 3.2, [x, y]; the last column is the end of the pipeline.
    least : ndarray, shape (n_configs + 1,)
        Samples that a stage of each configuration has in flight at least; 0 at the end.
    reached : ndarray, shape (n_configs + 1, n_devices + 1)
        Raised.
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
    """Both of two parts that run beside each other, whichever way the devices are dealt."""
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
    """One stage between a source that tolerates `source[s]` and what comes next; whether it can be had at all."""
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
    """Every number of branches of each class beside each other.

    Parameters
    ----------
    single : ndarray, shape (n_classes, n_configs + 1, n_devices + 1)
        One branch by itself.
    group : ndarray, shape (n_counts, n_configs + 1, n_devices + 1)
        Several whole branches as one stage, by how many of each class.
    possible : ndarray, shape (n_counts,)
        Whether such a stage can be had.
    radix : ndarray, shape (n_classes,)
        Branches of each class, plus one; counts are numbered with the last class fastest.
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
