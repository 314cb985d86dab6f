"""Pipelines by enumeration, and PipeDream's programme as plain loops: slow, for comparison only."""

import itertools
import math


def lines(n, edges):
    """All lines of stages that keep the order: from the end, any set whose successors have been taken."""
    after = {v: {b for a, b in edges if a == v} for v in range(n)}

    def rest(taken):
        if len(taken) == n:
            yield []
            return
        left = [v for v in range(n) if v not in taken]
        for size in range(1, len(left) + 1):
            for stage in itertools.combinations(left, size):
                both = taken | set(stage)
                if all(after[v] <= both for v in stage):
                    for others in rest(both):
                        yield [*others, stage]

    return rest(frozenset())


def all_cuts(n, edges, start):
    """Sets of layers up to each antichain that is reached from the set of one layer: closed under predecessors."""
    before = {v: {v} for v in range(n)}
    for _ in range(n):
        for a, b in edges:
            before[b] |= before[a]
    found, queue = {frozenset(before[start])}, [frozenset(before[start])]
    for held in queue:
        for v in range(n):
            if v not in held and any(a in held for a, b in edges if b == v):
                more = held | before[v]
                if more not in found:
                    found.add(more)
                    queue.append(more)
    return found


def crossing(held, edges):
    """Layers of a set whose results are read outside."""
    return {a for a, b in edges if a in held and b not in held}


def wide(held, edges, n):
    """What the authors' program takes for that: the last layers of the set, and every layer before one of them that
    also feeds something that is neither this one nor before it."""
    before = {v: set() for v in range(n)}
    for _ in range(n):
        for a, b in edges:
            before[b] |= before[a] | {a}
    last = {v for v in held if not any(v in before[u] for u in held)}
    more = {a for v in last for a, b in edges if a in before[v] and b != v and b not in before[v]}
    return last | more


def table(n, stage_s, act, param, out, before, follows, machines, bandwidth, within, memory, ratio, straight, compat):
    """[i][j][m − 1] -> seconds, None where there is nothing."""
    best = [[[None] * machines for _ in range(n)] for _ in range(n)]
    copies = 0 if compat else 1

    def seconds(time, size, m, near):
        reduce = 4 * (m - 1) * size / (bandwidth * m) / near
        return (time + reduce) / m if compat else time / m + reduce

    for i in range(n):
        a0, p0 = (act[i - 1], param[i - 1]) if i else (0.0, 0.0)
        for j in range(i, n):
            if not follows[i][j]:
                continue
            for m in range(1, (1 if straight else machines) + 1):
                kept = (math.ceil((machines - m) / m) + copies) * (act[j] - a0 + param[j] - p0)
                if kept <= memory and stage_s[i][j] is not None:
                    best[i][j][m - 1] = seconds(stage_s[i][j], param[j] - p0, m, within)
        for j in range(i + 1, n):
            for total in range(2, machines + 1):
                for k in range(i, j):
                    if not before[k][j] or not follows[i][k] or (i and before[k][i - 1]):
                        continue
                    for m in range(1, (2 if straight else total)):
                        first, time = best[i][k][total - m - 1], stage_s[k + 1][j]
                        if first is None or time is None:
                            continue
                        kept = (math.ceil((machines - total) / m) + copies) * (act[j] - act[k] + param[j] - param[k])
                        if kept > memory:
                            continue
                        value = max(first, seconds(time, param[j] - param[k], m, 1 if compat else within))
                        if ratio:
                            value = max(value, 2 * out[k] / (bandwidth * m) / ratio)
                            if j < n - 1:
                                value = max(value, 2 * out[j] / (bandwidth * m) / ratio)
                        if best[i][j][total - 1] is None or value < best[i][j][total - 1]:
                            best[i][j][total - 1] = value
    return best
