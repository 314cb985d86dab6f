"""Compiled loops of Piper's dynamic programme on its own instances.

The published programme fills a table over downsets, devices and sums of data-parallel degrees. Here the bottleneck is
bisected. For a given bottleneck, a stage can bear sums of degrees up to some largest one, so the programme only needs
the least sum for each number of devices. That is one dimension less.
"""

from __future__ import annotations

import numpy as np

from ...jit import kernel

__all__ = ["candidates", "least_sums", "most_in_flight", "stage_steps"]


@kernel
def stage_steps(
    low, high, members, heads, tails, edge_bytes, sync_in, sync_out, seconds, a, b, param, bandwidth, memory, most
):
    """How long each stage takes with y microbatches in flight, as a step function that rises with y.

    Options are chosen by the authors' rule. If the fastest option of every node fits into memory, these are taken. Else
    nodes change to their other option until it fits, the fewest seconds per byte saved first. A choice that fits with
    more microbatches in flight also fits with fewer, so the time never falls with y.

    Parameters
    ----------
    low, high : ndarray of int64, shape (n_pairs,)
        The two states of each stage; `members` (n_states, n_nodes) tells which nodes a state holds.
    heads, tails, edge_bytes : ndarray, shape (n_edges,)
        For each edge the node it leaves, the node it enters, and its bytes.
    sync_in, sync_out : ndarray, shape (n_edges, n_t, 2)
        Further bytes of each edge at the node that reads, and at the node that makes, for each option of that node.
    seconds, a, b : ndarray, shape (n_nodes, n_t, 2)
        Seconds and memory coefficients of each option; seconds of inf mean that there is no such option.
    param : ndarray, shape (n_nodes, n_t)
        Bytes of weights.
    bandwidth, memory : float
        Bytes per second, and bytes of a device.
    most : int
        Most microbatches in flight.

    Returns
    -------
    time, upto : ndarray
        For each step: seconds of one microbatch on one replica, and the largest y to which it applies.
    start : ndarray of int64, shape (n_pairs · n_t + 1,)
        Where the steps of each (pair, t) begin.
    weights : ndarray, shape (n_pairs · n_t,)
        Bytes of weights of each (pair, t).
    """
    n_pairs, n_nodes, n_t = len(low), members.shape[1], seconds.shape[1]
    n_edges = len(heads)
    start = np.zeros(n_pairs * n_t + 1, np.int64)
    weights = np.zeros(n_pairs * n_t)
    # Four steps for each stage to begin with, a guess; the arrays double when they are full.
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
                if head_in != tail_in:  # twice: activations go forward, gradients come back
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
                # The quotient may be off by one after rounding; the product decides.
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
                        if saved > 1e-9:  # of a byte: less is a rounding error, here and below
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
                # The rule is greedy: for fewer in flight it may have chosen worse. What fits now fits there as well.
                while count > first and time[count - 1] >= total:
                    count -= 1
                time[count], upto[count] = total, more
                count += 1
    start[n_pairs * n_t] = count
    return time, upto, start, weights


@kernel
def most_in_flight(threshold, d, time, upto, first, last, weights, microbatches, bandwidth):
    """The most microbatches in flight with which a stage on d replicas keeps a threshold; 0: it never does."""
    # 4 (d − 1)/d as in the paper's TPS: the all-reduce of a replica's weights, once for all its microbatches.
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
    """Least sum of data-parallel degrees of the pipelines that keep a threshold, as [state, devices].

    A value above min(devices, microbatches) means that there is no such pipeline.

    Parameters
    ----------
    threshold : float
        Seconds per microbatch.
    low : ndarray of int64, shape (n_pairs,)
        Lower state of each pair; pairs are sorted by their higher state.
    heads : ndarray of int64, shape (n_states + 1,)
        Where the pairs of each higher state begin.
    time, upto, start, weights
        As `stage_steps` returns them.
    tensor, degrees : ndarray of int64
        Tensor-parallel and data-parallel degrees, ascending.
    devices, microbatches : int
        Number of devices K, and of microbatches N.
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
    """Bottlenecks that a stage can have, above `low` and up to `high`.

    It stops at 4 million of them (32 MB); the caller then narrows the interval further before it lists them.
    """
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
