"""Compiled loops of Piper's programme on its own instances.

The published programme fills a table over downsets, devices and sums of data-parallel degrees. Here the bottleneck is
bisected; for one bottleneck a stage only has the largest sum of degrees that it can bear, and the programme carries
the least sum for each number of devices: a dimension less.
"""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["candidates", "least_sums", "most_in_flight", "stage_steps"]


@kernel
def stage_steps(
    low, high, members, heads, tails, edge_bytes, sync_in, sync_out, seconds, a, b, param, bandwidth, memory, most
):
    """How long each stage takes with y microbatches in flight, as steps that rise with y.

    Options are chosen by the authors' rule: all fastest where that fits; else nodes change to their other option, the
    least seconds per byte saved first, until it does. What fits with more in flight fits with fewer, so that time
    never falls with y.

    Parameters
    ----------
    low, high : ndarray of int64, shape (n_pairs,)
        States; `members` (n_states, n_nodes) says what they hold.
    heads, tails, edge_bytes : ndarray, shape (n_edges,)
        Edges: from, to, bytes.
    sync_in, sync_out : ndarray, shape (n_edges, n_t, 2)
        Further bytes at the reading node, and at the making one, for each option of it.
    seconds, a, b : ndarray, shape (n_nodes, n_t, 2)
        Of each option; inf: there is none.
    param : ndarray, shape (n_nodes, n_t)
        Bytes of weights.
    bandwidth, memory : float
        Bytes per second; bytes of a device.
    most : int
        Microbatches in flight at most.

    Returns
    -------
    time, upto : ndarray
        Of each step: seconds of one microbatch on one replica, and the largest y that it holds for.
    start : ndarray of int64, shape (n_pairs · n_t + 1,)
        Where the steps of each (pair, t) begin.
    weights : ndarray, shape (n_pairs · n_t,)
        Bytes of weights of each.
    """
    n_pairs, n_nodes, n_t = len(low), members.shape[1], seconds.shape[1]
    n_edges = len(heads)
    start = np.zeros(n_pairs * n_t + 1, np.int64)
    weights = np.zeros(n_pairs * n_t)
    room = 4 * n_pairs * n_t + 1024
    time, upto, count = np.empty(room), np.empty(room, np.int64), 0
    nodes = np.empty(n_nodes, np.int64)
    cost = np.empty((n_nodes, 2))
    fast = np.empty(n_nodes, np.int64)
    price = np.empty(n_nodes)
    for pair in range(n_pairs):
        n = 0
        for v in range(n_nodes):
            if members[high[pair], v] and not members[low[pair], v]:
                nodes[n] = v
                n += 1
        for t in range(n_t):
            at = pair * n_t + t
            start[at] = count
            possible = True
            for i in range(n):
                v = nodes[i]
                if seconds[v, t, 0] == np.inf:
                    possible = False
                    break
                cost[v, 0], cost[v, 1] = seconds[v, t, 0], seconds[v, t, 1]
                weights[at] += param[v, t]
            if not possible:
                continue
            for e in range(n_edges):
                head_in = members[high[pair], heads[e]] and not members[low[pair], heads[e]]
                tail_in = members[high[pair], tails[e]] and not members[low[pair], tails[e]]
                if head_in != tail_in:
                    for o in range(2):
                        if head_in:
                            cost[heads[e], o] += 2 * (edge_bytes[e] + sync_out[e, t, o]) / bandwidth
                        else:
                            cost[tails[e], o] += 2 * (edge_bytes[e] + sync_in[e, t, o]) / bandwidth
            base, fast_a, fast_b = 0.0, 0.0, 0.0
            for i in range(n):
                v = nodes[i]
                fast[i] = 1 if cost[v, 1] < cost[v, 0] else 0
                base += cost[v, fast[i]]
                fast_a += a[v, t, fast[i]]
                fast_b += b[v, t, fast[i]]
            first = count
            y = most
            if fast_b > memory:
                y = 0
            elif fast_a > 0:
                y = int(min(float(most), np.floor((memory - fast_b) / fast_a)))
                while y < most and fast_a * (y + 1) + fast_b <= memory:
                    y += 1
                while y > 0 and fast_a * y + fast_b > memory:
                    y -= 1
            if count + most + 2 > room:
                room = 2 * room + most
                time_more, upto_more = np.empty(room), np.empty(room, np.int64)
                for i in range(count):
                    time_more[i], upto_more[i] = time[i], upto[i]
                time, upto = time_more, upto_more
            if y > 0:
                time[count], upto[count] = base, y
                count += 1
            for more in range(y + 1, most + 1):
                shave = fast_a * more + fast_b - memory
                total = base
                for i in range(n):
                    v, f = nodes[i], fast[i]
                    other = 1 - f
                    price[i] = np.inf
                    if cost[v, other] < np.inf:
                        saved = a[v, t, f] * more + b[v, t, f] - a[v, t, other] * more - b[v, t, other]
                        if saved > 1e-9:
                            price[i] = (cost[v, other] - cost[v, f]) / saved
                while shave >= 1e-9:
                    i = 0  # the cheapest change that is left, the first of equals
                    for k in range(1, n):
                        if price[k] < price[i]:
                            i = k
                    if price[i] == np.inf:
                        break
                    v, f = nodes[i], fast[i]
                    other = 1 - f
                    shave -= a[v, t, f] * more + b[v, t, f] - a[v, t, other] * more - b[v, t, other]
                    total += cost[v, other] - cost[v, f]
                    price[i] = np.inf
                if shave >= 1e-9:
                    break  # nor does more
                while count > first and time[count - 1] >= total:
                    count -= 1
                time[count], upto[count] = total, more
                count += 1
    start[n_pairs * n_t] = count
    return time, upto, start, weights


@kernel
def most_in_flight(threshold, d, time, upto, first, last, weights, microbatches, bandwidth):
    """The most microbatches in flight with which a stage on d replicas keeps a threshold; 0: none."""
    left = (threshold - 4 * (d - 1) * weights / d / microbatches / bandwidth) * d
    low, high = first, last  # steps before `low` are in time
    while low < high:
        middle = (low + high) // 2
        if time[middle] <= left:
            low = middle + 1
        else:
            high = middle
    return upto[low - 1] if low > first else 0


@kernel
def least_sums(threshold, low, heads, time, upto, start, weights, tensor, degrees, devices, microbatches, bandwidth):
    """Least sum of data-parallel degrees of pipelines that keep a threshold: [state, devices]; `devices` + 1 or more:
    none.

    Parameters
    ----------
    threshold : float
        Seconds per microbatch.
    low : ndarray of int64, shape (n_pairs,)
        Lower states; pairs stand by their higher one.
    heads : ndarray of int64, shape (n_states + 1,)
        Where the pairs of each higher state begin.
    time, upto, start, weights
        Of `stage_steps`.
    tensor, degrees : ndarray of int64
        Tensor-parallel and data-parallel degrees, ascending.
    devices, microbatches : int
        K, N.
    bandwidth : float
        Bytes per second.
    """
    n_states, n_t = len(heads) - 1, len(tensor)
    bound = min(devices, microbatches)
    none = np.int32(bound + 1)
    best = np.full((n_states, devices + 1), none, np.int32)
    best[0] = 0
    for state in range(1, n_states):
        row = best[state]
        for pair in range(heads[state], heads[state + 1]):
            rest = best[low[pair]]
            if rest[devices] == none:
                continue
            for t in range(n_t):
                at = pair * n_t + t
                if start[at] == start[at + 1]:
                    continue
                before = 0
                for d in degrees:
                    cost = tensor[t] * d
                    if cost > devices:
                        break
                    most = most_in_flight(
                        threshold, d, time, upto, start[at], start[at + 1], weights[at], microbatches, bandwidth
                    )
                    limit = min(most * d, bound)
                    if limit <= before or limit < d:
                        continue  # fewer replicas bear as much
                    before = limit
                    for k in range(cost, devices + 1):
                        total = rest[k - cost] + d
                        if total <= limit and total < row[k]:
                            row[k] = total
                    if limit == bound:
                        break
    return best


@kernel
def candidates(low, high, time, start, weights, tensor, degrees, devices, microbatches, bandwidth):
    """Bottlenecks that a stage can have, above `low` and up to `high`; at most some 4 million of them."""
    found, count = np.empty(4_000_000), 0
    n_t = len(tensor)
    for at in range(len(weights)):
        for d in degrees:
            if tensor[at % n_t] * d > devices:
                break
            reduce = 4 * (d - 1) * weights[at] / d / microbatches / bandwidth
            for step in range(start[at], start[at + 1]):
                value = time[step] / d + reduce
                if low < value <= high:
                    if count == len(found):
                        return found
                    found[count] = value
                    count += 1
    return found[:count].copy()
