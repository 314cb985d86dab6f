r"""An upper bound on the attainment of any placement of an instance, so that a plan can print its gap.

Every placement of the instance's configurations, every dispatch policy, every order of service is bounded.

1. *Latency.* A request of model m under configuration c takes at least :math:`L_{c,m}` (its stages and hops, and the
   overhead) even if it never waits. It can only be attained under a configuration that fits the device memory and has
   :math:`L_{c,m} \le` SLO. A request without one is lost.

2. *Device time.* Under c the request keeps :math:`op_c` devices busy for each stage's latency: :math:`op_c \sum_k
   l_{c,m,k}` device-seconds. Let :math:`w_i` be the least of these over the configurations that can attain request i.
   A stage serves one request at a time and the groups share N devices, so the attained requests are processed, at a
   total rate of at most N, each within :math:`[a_i, a_i + SLO_i - overhead]`. Let requests be divisible and
   preemptible, and let all devices work on one at once: that only adds schedules. The work vectors
   :math:`z_i \in [0, w_i]` that can be processed so are the flows of a network (requests → instants → sink), hence a
   polymatroid, with rank function f(S) = the most work of the set S that can be processed. The number attained is at
   most :math:`\max \sum_i z_i / w_i`, a linear function on a polymatroid, which the greedy algorithm maximises
   (Edmonds 1970): let :math:`S_j` be the requests with the j smallest distinct works, then the maximum is
   :math:`\sum_j (f(S_j) - f(S_{j-1})) / w_j`. And f is found by one sweep: at each instant work on the request at hand
   with the earliest deadline (Glover 1967: greedy is maximum in a convex bipartite network).

3. *Memory.* A model with an attained request has a replica somewhere, which takes at least :math:`b_m` bytes (the least
   over its configurations that fit) of the N devices together. So the attained requests are at most those of a
   fractional knapsack of models.

The bound is the least of 2 and 3 (both count only requests that 1 leaves).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...jit import kernel
from .instance import Instance

__all__ = ["attainable", "upper_bound"]

LEVELS = 16
"""At most so many distinct works are told apart, for each costs a sweep over the requests. Others are rounded down to
the next one: less work never lowers the bound, so it still holds."""

SLACK_S = 1e-8
"""Windows are this much longer, seconds: more than the simulator's tolerance and all rounding."""


@kernel
def _most_work(arrival, deadline, work, devices):
    """Most device-seconds of divisible jobs that `devices` devices can do, each within [arrival, deadline].

    Jobs come in order of arrival. A binary heap holds those at hand by deadline.
    """
    n = arrival.shape[0]
    heap = np.empty(n, np.int64)
    left = work.copy()
    size = 0
    done = 0.0
    now = 0.0
    for j in range(n + 1):
        until = arrival[j] if j < n else np.inf
        while size > 0 and now < until:
            top = heap[0]
            finish = now + left[top] / devices
            if finish <= min(until, deadline[top]):
                done += left[top]
                now = finish
                gone = True
            else:
                end = max(now, min(until, deadline[top]))
                done += (end - now) * devices
                left[top] -= (end - now) * devices
                gone = deadline[top] <= end
                now = end
            if gone:
                size -= 1
                last = heap[size]
                i = 0
                while 2 * i + 1 < size:
                    child = 2 * i + 1
                    if child + 1 < size and deadline[heap[child + 1]] < deadline[heap[child]]:
                        child += 1
                    if deadline[last] <= deadline[heap[child]]:
                        break
                    heap[i] = heap[child]
                    i = child
                heap[i] = last
        if j == n:
            break
        now = max(now, until)
        i = size
        size += 1
        while i > 0 and deadline[heap[(i - 1) // 2]] > deadline[j]:
            heap[i] = heap[(i - 1) // 2]
            i = (i - 1) // 2
        heap[i] = j
    return done


def attainable(instance: Instance, bucket: int, configs: Sequence[int], n_devices: int) -> int:
    """Requests of the models of a bit mask that `n_devices` devices can attain at most with some configurations.

    Parameters
    ----------
    instance : Instance
        The problem.
    bucket : int
        Models, as a bit mask.
    configs : sequence of int
        Numbers of the configurations that groups may have.
    n_devices : int
        Devices.
    """
    usable = [c for c in configs if instance.configs[c].n_devices <= n_devices]
    inside = np.array([bool(bucket >> m & 1) for m in range(instance.n_models)])
    if not usable or not inside.any():
        return 0
    rows = np.flatnonzero(inside[instance.model])
    work = _least_work(instance, rows, usable)
    keep = np.isfinite(work)
    rows, work = rows[keep], work[keep]
    if not len(rows):
        return 0
    return min(_by_device_time(instance, rows, work, n_devices), _by_memory(instance, rows, usable, n_devices))


def upper_bound(instance: Instance) -> float:
    """Attainment that no placement of the instance exceeds, fraction of all requests."""
    everything = (1 << instance.n_models) - 1
    most = attainable(instance, everything, range(len(instance.configs)), instance.n_devices)
    return most / instance.n_requests


def _least_work(instance: Instance, rows: npt.NDArray[np.intp], configs: Sequence[int]) -> npt.NDArray[np.float64]:
    """Least device-seconds of each request over the configurations that can attain it; inf if none can."""
    model, slo = instance.model[rows], instance.slo[rows]
    total = instance.total_latency()
    least = np.full(len(rows), np.inf)
    for c in configs:
        work = instance.configs[c].op * np.nansum(instance.latency[c], axis=1)
        can = instance.fits[c][model] & (total[c][model] <= slo + SLACK_S)
        np.minimum(least, np.where(can, work[model], np.inf), out=least)
    return least


def _by_device_time(
    instance: Instance, rows: npt.NDArray[np.intp], work: npt.NDArray[np.float64], n_devices: int
) -> int:
    levels = np.unique(work)
    if len(levels) > LEVELS:
        levels = np.unique(np.quantile(work, np.linspace(0, 1, LEVELS), method="lower"))
        work = levels[np.searchsorted(levels, work, side="right") - 1]
    arrival = instance.arrival[rows]
    last = float(arrival[-1]) + float(instance.trace.duration) + work.sum()
    deadline = np.minimum(arrival + instance.slo[rows] - instance.overhead, last) + SLACK_S
    total = before = 0.0
    for level in levels:
        chosen = work <= level
        after = _most_work(arrival[chosen], deadline[chosen], work[chosen], float(n_devices))
        total += (after - before) / level
        before = after
    # Rounding must never make the bound lower than what is attained: a sum of floats may end just below an integer.
    return min(len(rows), int(np.floor(total * (1 + 1e-9) + 1e-6)))


def _by_memory(instance: Instance, rows: npt.NDArray[np.intp], configs: Sequence[int], n_devices: int) -> int:
    counts = np.bincount(instance.model[rows], minlength=instance.n_models)
    op = np.array([instance.configs[c].op for c in configs])
    size = np.where(instance.fits[configs], op[:, None] * instance.weight[configs].sum(axis=2), np.inf).min(axis=0)
    left = n_devices * instance.memory_bytes
    total = 0.0
    # A fractional knapsack is solved by taking what costs least memory per request first.
    for m in sorted(np.flatnonzero(counts).tolist(), key=lambda m: size[m] / counts[m]):
        share = 1.0 if size[m] <= left else left / size[m]
        total += share * counts[m]
        left -= share * size[m]
        if share < 1:
            break
    return int(np.floor(total + 1e-6))
