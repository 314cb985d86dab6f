"""Prices of what packing makes scarce, which bring the knapsack's bound down to what can be had.

The knapsack forgets that groups must fit on machines. With a price for a group of each size, all apps together gain no
more than the knapsack at these prices says, plus what the dearest fillings of all machines cost (Lagrangian duality).
Machines that rows ask for by name have a price of their own, and so do racks, and sizes of which a rack holds few. Any
prices ≥ 0 give a valid bound; subgradient steps find good ones. They are whole multiples of 1 / `GRAIN`, so that bounds
are exact sums as values are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....jit import inner
from ....simulator.sharing.compiled.plain import copied, largest, overwrite
from ..bids import GRAIN
from .bounds import Goods, bounds, cheapest

__all__ = ["Scarce", "price_count", "prices", "scarcities"]

MACHINES, RACK = 1, 2
MOST_SIZES, RACK_SIZES = 16, 4
DEAREST = 256.0


class Scarce(NamedTuple):
    """What packing makes scarce."""

    named: np.ndarray  # of each machine: whether a row names it
    in_rack: np.ndarray  # sizes of which a rack holds few
    supply: np.ndarray  # how many of each of those racks hold; then GPUs of each rack
    on_machine: np.ndarray  # group sizes
    use: np.ndarray  # (rows, sizes): how many groups of that size a row's groups hold
    held: np.ndarray  # how many machines hold


@inner
def scarcities(goods):  # type: ignore[no-untyped-def]
    """See `Scarce`."""
    rows, machines, racks = goods.gpus.shape[0], goods.free.shape[0], goods.rack_free.shape[0]
    top, most = largest(goods.free), largest(goods.rack_free)
    met = np.zeros(top + 1, np.bool_)
    named = np.zeros(machines, np.bool_)
    in_racks = 0
    for o in range(rows):
        if goods.gpus[o] > 0 and goods.place[o] == MACHINES and goods.group[o] <= top:
            met[goods.group[o]] = True
            met[goods.gpus[o] % goods.group[o]] = True
            if goods.region[o] >= 0:
                named[goods.region[o]] = True
        elif goods.gpus[o] > 0 and goods.place[o] == RACK:
            in_racks = RACK_SIZES
    in_rack = np.empty(in_racks, np.int64)
    supply = np.zeros(in_racks + racks, np.int64)
    for x in range(in_racks):  # at most x + 1 of these fit into the emptiest rack
        in_rack[x] = most // (x + 2) + 1
        for r in range(racks):
            supply[x] += goods.rack_free[r] // in_rack[x]
    for r in range(racks):
        supply[in_racks + r] = goods.rack_free[r]
    sizes, kinds = np.empty(MOST_SIZES, np.int64), 0
    for s in range(2, top + 1):
        if met[s] and kinds < MOST_SIZES:
            sizes[kinds] = s
            kinds += 1
    on_machine = copied(sizes[:kinds])
    use, held = np.zeros((rows, on_machine.shape[0]), np.int64), np.zeros(on_machine.shape[0], np.int64)
    for x in range(on_machine.shape[0]):
        s = on_machine[x]
        for m in range(machines):
            held[x] += goods.free[m] // s
        for o in range(rows):
            if goods.gpus[o] > 0 and goods.place[o] == MACHINES:
                whole, rest = goods.gpus[o] // goods.group[o], goods.gpus[o] % goods.group[o]
                use[o, x] = whole * (goods.group[o] // s) + rest // s
    return Scarce(named, in_rack, supply, on_machine, use, held)


def price_count(goods: Goods) -> int:
    """How many things may have a price, at most."""
    return int(goods.free.max()) + 1 + goods.free.shape[0] + RACK_SIZES + goods.rack_free.shape[0]


@inner
def fillings(goods, price, named, worth, took):  # type: ignore[no-untyped-def]
    """What machines' GPUs are worth at most at these prices.

    Parameters
    ----------
    price : array
        Of a group of s GPUs at s, then of a GPU on each machine (only where `named`).
    worth : array
        Filled: of f GPUs that are filled with the dearest groups.
    took : array of int
        Filled: the last group of that filling; 0: none.

    Returns
    -------
    float
        Of all machines.
    """
    top = worth.shape[0] - 1
    worth[0] = 0.0
    took[0] = 0
    for f in range(1, top + 1):
        worth[f], took[f] = worth[f - 1], 0
        for s in range(1, f + 1):
            v = price[s] + worth[f - s]
            if price[s] > 0 and v > worth[f]:
                worth[f], took[f] = v, s
    total = 0.0
    for m in range(goods.free.shape[0]):
        f = goods.free[m]
        best = worth[f]
        if named[m]:
            for y in range(1, f + 1):
                best = max(best, y * price[top + 1 + m] + worth[f - y])
        total += best
    return total


@inner
def surplus(goods, price, named, worth, took, out):  # type: ignore[no-untyped-def]
    """Add to `out` the groups and named GPUs of the dearest fillings."""
    top = worth.shape[0] - 1
    for m in range(goods.free.shape[0]):
        f = goods.free[m]
        if named[m]:
            best, most = worth[f], 0
            for y in range(1, f + 1):
                v = y * price[top + 1 + m] + worth[f - y]
                if v > best:
                    best, most = v, y
            out[top + 1 + m] += most
            f -= most
        while f > 0:
            if took[f] > 0:
                out[took[f]] += 1
                f -= took[f]
            else:
                f -= 1


@inner
def priced(goods, scarce, price, alive, worth):  # type: ignore[no-untyped-def]
    """Fill `worth`: value of each row less the price of what it takes."""
    top = largest(goods.free)
    racks = top + 1 + goods.free.shape[0]
    sizes = scarce.in_rack.shape[0]
    for o in range(worth.shape[0]):
        if not alive[o]:
            continue
        w, g, region = goods.value[o], goods.gpus[o], goods.region[o]
        if g == 0:
            worth[o] = w
            continue
        if goods.place[o] == MACHINES:
            if region >= 0:
                w -= g * price[top + 1 + region] + g * price[racks + sizes + goods.rack[region]]
            else:
                w -= g // goods.group[o] * price[goods.group[o]] + price[g % goods.group[o]]
        else:
            w -= g * price[1]
            if goods.place[o] == RACK:
                for x in range(sizes):
                    w -= g // scarce.in_rack[x] * price[racks + x]
                if region >= 0:
                    w -= g * price[racks + sizes + region]
        worth[o] = w


@inner
def excess(goods, scarce, chosen, out):  # type: ignore[no-untyped-def]
    """Take from `out` what rows take of each thing that has a price."""
    top = largest(goods.free)
    racks = top + 1 + goods.free.shape[0]
    sizes = scarce.in_rack.shape[0]
    for k in range(chosen.shape[0]):
        o = chosen[k]
        g, region = goods.gpus[o], goods.region[o]
        if g == 0:
            continue
        if goods.place[o] == MACHINES:
            if region >= 0:
                out[top + 1 + region] -= g
                out[racks + sizes + goods.rack[region]] -= g
            else:
                out[goods.group[o]] -= g // goods.group[o]
                out[g % goods.group[o]] -= 1
        else:
            out[1] -= g
            if goods.place[o] == RACK:
                for x in range(sizes):
                    out[racks + x] -= g // scarce.in_rack[x]
                if region >= 0:
                    out[racks + sizes + region] -= g
    out[0] = 0


@inner
def prices(order, goods, scarce, price, alive, worth, best, capacity, rounds):  # type: ignore[no-untyped-def]
    """Prices that bring the bound down.

    Parameters
    ----------
    price : array
        To start from; changed to the best met: of groups of each size, GPUs on each machine, sizes in racks, racks.
    worth : array
        Filled: `priced` at those.
    best : float
        What the bound comes down to at best.
    rounds : int
        Subgradient steps.

    Returns
    -------
    float
        The price of all that there is.
    """
    n, top = order.shape[0], largest(goods.free)
    racks = top + 1 + goods.free.shape[0]
    sizes = scarce.in_rack.shape[0]
    now, slack, tried = copied(price), np.empty(price.shape[0], np.int64), np.empty(n, np.int64)
    full, took = np.empty(top + 1), np.empty(top + 1, np.int64)
    lowest, factor, stuck, lowest_plus = np.inf, 1.0, 0, 0.0
    for _ in range(rounds):
        priced(goods, scarce, now, alive, worth)
        table = bounds(order, goods, worth, alive, capacity)
        plus = fillings(goods, now, scarce.named, full, took)
        for x in range(slack.shape[0]):
            slack[x] = 0
        for x in range(sizes + goods.rack_free.shape[0]):
            slack[racks + x] = scarce.supply[x]
            plus += now[racks + x] * scarce.supply[x]
        bound = table[0, capacity] + plus
        if bound < lowest:
            lowest, lowest_plus, stuck = bound, plus, 0
            overwrite(price, now)
        else:
            stuck += 1
            if stuck >= 4:
                factor, stuck = factor / 2, 0
        if lowest <= best + 1e-12:
            break
        cheapest(order, goods, worth, alive, table, capacity, tried)
        surplus(goods, now, scarce.named, full, took, slack)
        excess(goods, scarce, tried, slack)
        square = 0.0
        for x in range(slack.shape[0]):
            if slack[x] < 0 or now[x] > 0:
                square += float(slack[x]) ** 2
        if square == 0.0:
            break
        length = factor * (bound - best) / square
        for x in range(now.shape[0]):
            p = min(max(now[x] - length * slack[x], 0.0), DEAREST)
            now[x] = np.floor(p * GRAIN) / GRAIN
    priced(goods, scarce, price, alive, worth)
    return lowest_plus
