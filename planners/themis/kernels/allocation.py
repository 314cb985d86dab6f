"""The proportional-fair allocation and what it would be without each app: compiled, and exact.

First the knapsack: if rows that attain its bound fit on the machines, they are the answer. Where they do not, a
short search finds something good; prices of what is scarce then make the bound tight and rule most rows out, and a
search among the others ends it. Without one app, the knapsack's tables of those before it and of those after it say
most, and the prices are those of all.
"""

from __future__ import annotations

import numpy as np

from ....jit import inner, kernel
from ....simulator.sharing.compiled.plain import copied, fill_with, overwrite, total
from .bounds import MINUS, bounds, cheapest
from .packing import FITS, pack
from .prices import prices, scarcities
from .search import marks, search

__all__ = ["NOTHING", "allocate"]

NOTHING = -1e17
TINY = 1e-12
MACHINES = 1
GLANCE, TURNS = 200, 3  # steps of the first search, and how many with better prices each
PRICINGS = 60


@inner
def most_groups(goods):  # type: ignore[no-untyped-def]
    """Most groups of a row."""
    most = 1
    for o in range(goods.gpus.shape[0]):
        if goods.place[o] == MACHINES and goods.gpus[o] > 0:
            most = max(most, (goods.gpus[o] + goods.group[o] - 1) // goods.group[o])
    return most


@inner
def _best_of(order, goods, scarce, price, mark, at_least, limit, seen, number):  # type: ignore[no-untyped-def]
    """The best rows of apps `order`.

    Parameters
    ----------
    order : array of int
        Apps; those who choose first first.
    goods, scarce : Goods, Scarce
        What they bid, and `scarcities` of that.
    price : array
        Of `scarce` things, or 0; changed to the best met.
    mark : array
        `marks` of the rows.
    at_least : float
        Only what is worth more is looked for; `NOTHING`: whatever there is.
    limit : int
        Steps after which to stop.
    seen : (array, array, array)
        See `search`.
    number : array of int, shape (1,)
        Searches so far; changed.

    Returns
    -------
    (float, float, int, array, array)
        Value, what is proven that nothing exceeds, steps, chosen row of each app (−1: nothing is better than
        `at_least`) and the machine or rack of each group (shape (apps, most groups)).
    """
    n, capacity, most = order.shape[0], total(goods.free), most_groups(goods)
    alive, worth = np.ones(goods.gpus.shape[0], np.bool_), copied(goods.value)
    table = bounds(order, goods, worth, alive, capacity)
    chosen, places = np.full(n, -1, np.int64), np.full((n, most), -1, np.int64)
    top, best = table[0, capacity], at_least
    if n == 0 or top <= best + TINY:
        return best, best, 1, chosen, places
    free, slack = copied(goods.free), copied(goods.rack_free)
    tried = np.empty(n, np.int64)
    cheapest(order, goods, worth, alive, table, capacity, tried)
    answer, tries = pack(goods, tried, n, free, slack, places)
    steps = 1 + tries
    if answer == FITS:
        return top, top, steps, tried, places
    plus, glance = 0.0, max(min(GLANCE, limit - steps), 4 * n)
    for turn in range(TURNS):
        number[0] += 1
        found, bound, more, rows, where = search(
            order, goods, scarce, worth, plus, alive, table, mark, best, most, glance, seen, number[0]
        )
        steps += more
        if rows[0] >= 0:
            best = found
            overwrite(chosen, rows)
            for k in range(n):
                overwrite(places[k], where[k])
        top = min(top, bound)
        if top <= best + TINY or steps >= limit or turn == TURNS - 1:
            break
        plus = prices(order, goods, scarce, price, alive, worth, best, capacity, PRICINGS)
        table = bounds(order, goods, worth, alive, capacity)
        top = min(top, table[0, capacity] + plus)
        _rule_out(order, goods, worth, plus, alive, table, best)
        table = bounds(order, goods, worth, alive, capacity)
        glance = limit - steps if turn == TURNS - 2 else min(10 * glance, limit - steps)
    if chosen[0] < 0 and at_least <= NOTHING:  # out of steps before anything was found
        best = 0.0
        for k in range(n):
            chosen[k] = goods.start[order[k] + 1] - 1  # the last one is of no GPUs
            best += goods.value[chosen[k]]
    return best, max(best, top), steps, chosen, places


@inner
def _without_each(order, goods, scarce, price, mark, chosen, limit, seen, number):  # type: ignore[no-untyped-def]
    """The best rows of the others, for each app that has GPUs in `chosen`.

    Parameters
    ----------
    price, limit, seen, number :
        See `_best_of`, which they have been used for with all apps.
    chosen : array of int
        Row of each app in the best allocation of all.

    Returns
    -------
    (array, array, int)
        Row of app k without app i (shape (n, n); −1: what the others have in `chosen` is the best, or k = i); by how
        much a better allocation without i could be worth more; steps.
    """
    n, capacity = order.shape[0], total(goods.free)
    rows, gap, steps = np.full((n, n), -1, np.int64), np.zeros(n), 0
    alive = np.ones(goods.gpus.shape[0], np.bool_)
    after = bounds(order, goods, goods.value, alive, capacity)
    before = bounds(_turned(order, n), goods, goods.value, alive, capacity)  # [n − k]: of the first k
    free, slack = copied(goods.free), copied(goods.rack_free)
    tried, others = np.empty(n - 1, np.int64), np.empty(n - 1, np.int64)
    places = np.full((n, most_groups(goods)), -1, np.int64)
    for i in range(n):
        if goods.gpus[chosen[i]] == 0:
            continue
        have, top, most = 0.0, MINUS, np.int64(0)
        for c in range(capacity + 1):
            v = before[n - i, c] + after[i + 1, capacity - c]
            if v > top:
                top, most = v, c
        for k in range(n):
            if k != i:
                have += goods.value[chosen[k]]
        steps += 1
        if top <= have + TINY:
            continue
        cheapest(_turned(order, i), goods, goods.value, alive, before[n - i :], most, others)
        for k in range(i):
            tried[k] = others[i - 1 - k]
        cheapest(order[i + 1 :], goods, goods.value, alive, after[i + 1 :], capacity - most, tried[i:])
        answer, tries = pack(goods, tried, n - 1, free, slack, places)
        steps += tries
        if answer != FITS:
            for k in range(n - 1):
                others[k] = order[k if k < i else k + 1]
            found, bound, more, better, _ = _best_of(
                others, goods, scarce, copied(price), mark, have, limit, seen, number
            )
            steps += more
            gap[i] = bound - found
            if better[0] < 0:
                continue
            overwrite(tried, better)
        for k in range(n - 1):
            rows[i, k if k < i else k + 1] = tried[k]
    return rows, gap, steps


@kernel(rolled=True)
def allocate(order, goods, price, at_least, limit, seen_key, seen_value, seen_in, number, each):  # type: ignore[no-untyped-def]
    """`_best_of`, and where `each` says so `_without_each`, else no rows: what both return, one after the other."""
    scarce, mark, seen = scarcities(goods), marks(goods), (seen_key, seen_value, seen_in)
    found, top, steps, chosen, places = _best_of(order, goods, scarce, price, mark, at_least, limit, seen, number)
    if each:
        rows, gap, more = _without_each(order, goods, scarce, price, mark, chosen, limit, seen, number)
        steps += more
    else:
        rows, gap = np.empty((0, 0), np.int64), np.empty(0)
    return found, top, steps, chosen, places, rows, gap


@inner
def _turned(order, n):  # type: ignore[no-untyped-def]
    """The first `n`, the last one first."""
    out = np.empty(n, np.int64)
    for k in range(n):
        out[k] = order[n - 1 - k]
    return out


@inner
def _rule_out(order, goods, worth, plus, alive, table, best):  # type: ignore[no-untyped-def]
    """Rows that are part of nothing better than `best` are no longer alive."""
    n, capacity = order.shape[0], table.shape[1] - 1
    before, after = np.zeros(capacity + 1), np.empty(capacity + 1)
    both = np.empty(capacity + 1)
    for k in range(n):
        a = order[k]
        # the others' most with c GPUs between them
        fill_with(both, MINUS)
        for c in range(capacity + 1):
            for d in range(c + 1):
                v = before[d] + table[k + 1, c - d]
                if v > both[c]:
                    both[c] = v
        fill_with(after, MINUS)
        for o in range(goods.start[a], goods.start[a + 1]):
            g = goods.gpus[o]
            if not alive[o] or g > capacity:
                alive[o] = False
                continue
            if both[capacity - g] + worth[o] + plus <= best + TINY:
                alive[o] = False
                continue
            for c in range(g, capacity + 1):
                v = before[c - g] + worth[o]
                if v > after[c]:
                    after[c] = v
        before, after = after, before
