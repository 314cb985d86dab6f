"""Branch and bound over rows: apps choose one after the other, the most promising row first.

A choice goes on only where the knapsack says that the rest can still beat the best so far, and where the rows chosen so
far fit together. Where apps chose rows before that take the same, worth as much, the rest is not searched again.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import overwrite
from .packing import FITS, NEVER, pack, put

__all__ = ["marks", "search"]

ANYWHERE, MACHINES, RACK = 0, 1, 2
LOOSE, NAMED, IN_RACK, GROUPS = 3, 5, 11, 13  # and NAMED + MACHINES, NAMED + RACK


@inner
def _mix(h, x):  # type: ignore[no-untyped-def]
    h = (h ^ np.uint64(x)) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(29))


@inner
def _mark(kind, x):  # type: ignore[no-untyped-def]
    return _mix(_mix(np.uint64(0x5851F42D4C957F2D), np.int64(kind)), np.int64(x))


@inner
def marks(goods):  # type: ignore[no-untyped-def]
    """A number for what each row takes; sums of them are the same for choices that take the same."""
    out = np.zeros(goods.gpus.shape[0], np.uint64)
    for o in range(out.shape[0]):
        g, region = goods.gpus[o], goods.region[o]
        n = np.uint64(g)
        total = n * _mark(np.int64(LOOSE), np.int64(0))
        if g > 0 and region >= 0:
            total += n * _mark(NAMED + goods.place[o], region)
        elif g > 0 and goods.place[o] == RACK:
            total += _mark(np.int64(IN_RACK), g)
        elif g > 0 and goods.place[o] == MACHINES:
            total += np.uint64(g // goods.group[o]) * _mark(np.int64(GROUPS), goods.group[o])
            if g % goods.group[o] > 0:
                total += _mark(np.int64(GROUPS), g % goods.group[o])
        out[o] = total
    return out


@inner
def search(order, goods, scarce, worth, plus, alive, table, mark, best, most, limit, seen, number):  # type: ignore[no-untyped-def]
    """The choice of rows that is worth the most.

    Parameters
    ----------
    order : array of int
        Apps, in the order in which they choose.
    goods, scarce : Goods, Scarce
        See there.
    worth, plus, table : array, float, array
        Value of each row less the price of what it takes, the price of all that there is, and `bounds` of these.
    alive : array of bool
        Rows that may be part of something better.
    mark : array
        From `marks`.
    best : float
        Only what is worth more is looked for.
    most : int
        Most groups of a row.
    limit : int
        Steps after which to stop.
    seen : (array, array, array)
        Room for states, a power of two of them, each with the search that it is of.
    number : int
        Of this search, different from any in `seen`.

    Returns
    -------
    (float, float, int, array, array)
        Value (`best` if nothing better was found), what is proven that nothing exceeds, steps, chosen row by position
        in `order` (−1: none), and the machine or rack of each group of it (shape (n, most)).
    """
    n, machines, racks = order.shape[0], goods.free.shape[0], goods.rack_free.shape[0]
    seen_key, seen_value, seen_in = seen
    mask = np.uint64(seen_key.shape[0] - 1)
    sizes = scarce.use.shape[1]
    widest = 1
    for k in range(n):
        widest = max(widest, goods.start[order[k] + 1] - goods.start[order[k]])
    child, bound = np.empty((n, widest), np.int64), np.empty((n, widest))
    count, pointer = np.zeros(n, np.int64), np.zeros(n, np.int64)
    row = np.full(n, -1, np.int64)
    gained, net = np.zeros(n + 1), np.zeros(n + 1)  # value, and less prices
    left, state = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.uint64)
    left[0] = table.shape[1] - 1
    free, slack = np.empty((n + 1, machines), np.int64), np.empty((n + 1, racks), np.int64)
    overwrite(free[0], goods.free)
    overwrite(slack[0], goods.rack_free)
    remains = np.empty((n + 1, sizes), np.int64)
    overwrite(remains[0], scarce.held)
    own, anew = np.full((n, most), -1, np.int64), np.full((n, most), -1, np.int64)
    packed = np.zeros(n, np.bool_)  # whether all so far were packed anew, or `own` put beside those before
    best_row, best_at = np.full(n, -1, np.int64), np.full((n, most), -1, np.int64)
    steps, unknown = 0, -1e18
    k, entered = 0, True
    while k >= 0:
        if entered:  # rows of this app that may lead to something better, the most promising first
            a = order[k]
            c = 0
            for o in range(goods.start[a], goods.start[a + 1]):
                if not alive[o] or goods.gpus[o] > left[k]:
                    continue
                top = net[k] + worth[o] + table[k + 1, left[k] - goods.gpus[o]] + plus
                if top <= best + 1e-12:
                    continue
                x = c
                while x > 0 and bound[k, x - 1] < top:
                    child[k, x], bound[k, x] = child[k, x - 1], bound[k, x - 1]
                    x -= 1
                child[k, x], bound[k, x] = o, top
                c += 1
            count[k], pointer[k] = c, 0
            entered = False
        if pointer[k] >= count[k] or bound[k, pointer[k]] <= best + 1e-12:
            k -= 1
            continue
        o, top = child[k, pointer[k]], bound[k, pointer[k]]
        if steps >= limit:
            break
        pointer[k] += 1
        steps += 1
        if k + 1 == n and gained[k] + goods.value[o] <= best + 1e-12:
            continue
        short = False
        for x in range(sizes):
            remains[k + 1, x] = remains[k, x] - scarce.use[o, x]
            short = short or remains[k + 1, x] < 0
        if short:
            continue
        gained[k + 1] = gained[k] + goods.value[o]
        net[k + 1] = net[k] + worth[o]
        left[k + 1] = left[k] - goods.gpus[o]
        state[k + 1] = state[k] + mark[o]
        if k + 1 < n:
            what = _mix(state[k + 1], k + 1) | np.uint64(1)
            slot = what & mask
            if seen_in[slot] == number and seen_key[slot] == what and gained[k + 1] <= seen_value[slot]:
                continue
            seen_key[slot], seen_value[slot], seen_in[slot] = what, gained[k + 1], number
        row[k] = o
        overwrite(free[k + 1], free[k])
        overwrite(slack[k + 1], slack[k])
        packed[k] = not put(goods, o, free[k + 1], slack[k + 1], own[k])
        if packed[k]:
            answer, tries = pack(goods, row, k + 1, free[k + 1], slack[k + 1], anew)
            steps += tries
            if answer == NEVER:
                continue
            if answer != FITS:
                unknown = max(unknown, top)
                continue
        if k + 1 < n:
            k += 1
            entered = True
            continue
        best = gained[n]
        overwrite(best_row, row)
        j = n - 1
        while j >= 0 and not packed[j]:
            overwrite(best_at[j], own[j])
            j -= 1
        if j >= 0:  # that packing once more: it is not kept
            pack(goods, row, j + 1, free[n], slack[n], best_at)
    top = unknown
    for j in range(k + 1):  # what was not looked at
        if pointer[j] < count[j]:
            top = max(top, bound[j, pointer[j]])
    return best, max(best, top), steps, best_row, best_at
