"""Drawn auto-sharding instances, and what is best by ways of their own: every choice, or a plain integer program."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp


@dataclass(frozen=True)
class Kind:
    """What an instance is drawn from.

    Parameters
    ----------
    nodes, most : int
        Nodes, and strategies that each has at most.
    density : float
        Edges per node, roughly; aliases: alias pairs per node; equal: edges per node that demand equal strategies.
    forbidden : float
        Share of an alias table's entries that are forbidden.
    levels : int
        Costs and bytes are whole multiples of 1/7 below this: few levels, many ties.
    memory : float
        M as a share of the most that any choice takes; 0: none.
    planted : bool
        One choice is made to break no rule, and M is at least what it takes: there is a solution, and with `memory`
        small it may be the only one.
    lowest : int
        Costs start here: negative ones where it is below zero.
    dear : float
        Share of the costs that are 1e13, as Alpa's compiler writes what it does not want.
    """

    nodes: int = 6
    most: int = 3
    density: float = 1.5
    aliases: float = 0.3
    equal: float = 0.0
    forbidden: float = 0.5
    levels: int = 1000
    memory: float = 0.75
    planted: bool = False
    lowest: int = 0
    dear: float = 0.0


def draw_kind(random: np.random.Generator, nodes: int | None = None, dear: bool = True) -> Kind:
    """Any kind, every corner as likely as the others."""
    return Kind(
        nodes=int(random.integers(1, 10)) if nodes is None else nodes,
        most=int(random.integers(2, 4)),
        density=float(random.choice([0.0, 0.5, 1.5, 4.0])),
        aliases=float(random.choice([0.0, 0.3, 1.0, 3.0])),
        equal=float(random.choice([0.0, 0.0, 0.3, 1.0])),
        forbidden=float(random.choice([0.2, 0.5, 0.8])),
        levels=int(random.choice([1, 3, 1000, 10**6])),
        memory=float(random.choice([0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9])),
        planted=bool(random.random() < 0.6),
        lowest=int(random.choice([0, 0, -500])),
        dear=float(random.choice([0.0, 0.0, 0.1])) if dear else 0.0,
    )


def draw_tight_kind(random: np.random.Generator) -> Kind:
    """Memory that hardly anything fits, aliases and equal strategies: no solution is met on the way to the bound."""
    return Kind(
        nodes=int(random.integers(4, 9)), most=3, density=float(random.choice([0.5, 1.5, 3.0])),
        aliases=float(random.choice([1.0, 3.0])), equal=float(random.choice([0.0, 1.0, 2.0])),
        forbidden=float(random.choice([0.5, 0.8])), levels=int(random.choice([3, 1000])),
        memory=float(random.choice([0.1, 0.3, 0.5])), planted=True, lowest=int(random.choice([0, -500])),
    )  # fmt: skip


def draw_instance(random: np.random.Generator, kind: Kind) -> dict:
    """Any graph; some followers, alias pairs, forbidden entries, and liveness that is not an interval."""
    n = kind.nodes
    s_len = random.integers(1, kind.most + 1, n)
    follow = np.full(n, -1)
    for node in range(n):
        if node and random.random() < 0.2:
            leader = int(random.integers(0, n))
            if leader != node and follow[leader] < 0 and not (follow == node).any():
                follow[node], s_len[node] = leader, s_len[leader]

    leader = np.where(follow < 0, np.arange(n), follow)
    planted = random.integers(0, s_len)[leader]

    def costs(size, lowest=0):
        drawn = (lowest + random.integers(0, kind.levels, size)) / 7
        return np.where(random.random(size) < kind.dear, 1e13, drawn)

    def allowed(v, u, table):
        """The table, of numbers or inf, with the planted pair as it is when nothing is forbidden."""
        if kind.planted:
            table[planted[v] * s_len[u] + planted[u]] = 0.0
        return table

    pairs = [(v, u) for v in range(n) for u in range(n) if random.random() < kind.density / n]
    r = [costs(s_len[v] * s_len[u], kind.lowest) for v, u in pairs]
    for (v, u), table in zip(pairs, r, strict=True):
        if random.random() < 0.1:
            table[random.integers(0, len(table))] = np.inf
            allowed(v, u, table)
    for v, u in itertools.combinations(range(n), 2):
        if random.random() < kind.equal / n:
            pairs.append((v, u))
            r.append(allowed(v, u, np.where(np.eye(s_len[v], s_len[u]), 0.0, np.inf).ravel()))
    aliases = [(v, u) for v, u in itertools.combinations(range(n), 2) if random.random() < kind.aliases / n]
    v = [allowed(v, u, (random.random(s_len[v] * s_len[u]) < kind.forbidden).astype(float)) for v, u in aliases]
    live = [np.flatnonzero(random.random(n) < 0.6).tolist() for _ in range(int(random.choice([0, 1, 2, 3, 4])))]
    m = [random.integers(0, kind.levels, k) / 7 for k in s_len]
    room = kind.memory * max((sum(m[v].max() for v in nodes) for nodes in live), default=1.0)
    if kind.planted and room:
        room = max(room, *(sum(m[v][planted[v]] for v in nodes) for nodes in live), 0.0)
    return {
        "N": n,
        "M": float(room),
        "s_len": s_len.tolist(),
        "s_follow": follow.tolist(),
        "E": pairs,
        "A": aliases,
        "L": live,
        "c": [costs(k, kind.lowest).tolist() for k in s_len],
        "d": [costs(k).tolist() for k in s_len],
        "m": [x.tolist() for x in m],
        "r": [x.tolist() for x in r],
        "v": [x.tolist() for x in v],
    }


def brute_force(i: dict) -> float:
    """The least cost of every choice, from the lists themselves; inf if none fits."""
    leaders = [v for v in range(i["N"]) if i["s_follow"][v] < 0]
    grid = np.indices([i["s_len"][v] for v in leaders]).reshape(len(leaders), -1)
    at = dict(zip(leaders, grid, strict=True))
    s = [at[v if i["s_follow"][v] < 0 else i["s_follow"][v]] for v in range(i["N"])]
    fits = np.ones(grid.shape[1], bool)
    for (v, u), table in zip(i["A"], i["v"], strict=True):
        fits &= np.array(table)[s[v] * i["s_len"][u] + s[u]] <= 0.5
    for nodes in i["L"] if i["M"] > 0 else []:
        fits &= sum((np.array(i["m"][v])[s[v]] for v in nodes), np.zeros(1)) <= i["M"] * (1 + 1e-12)
    cost = np.zeros(grid.shape[1])
    for v in range(i["N"]):
        cost = cost + np.array(i["c"][v])[s[v]] + np.array(i["d"][v])[s[v]]
    for (v, u), table in zip(i["E"], i["r"], strict=True):
        cost = cost + np.array(table)[s[v] * i["s_len"][u] + s[u]]
    return float(cost[fits].min(initial=math.inf))


def by_highs(i: dict) -> float:
    """The least cost as an integer program, in the paper's own form (Alpa, Eq. 1); inf if none fits."""
    start = np.cumsum([0, *i["s_len"]])
    leader = [v if i["s_follow"][v] < 0 else i["s_follow"][v] for v in range(i["N"])]
    cost = list(np.concatenate([np.add(i["c"][v], i["d"][v]) for v in range(i["N"])]))
    upper = [1.0] * len(cost)
    rows: list[tuple[list[int], list[float], float, float]] = []
    for v in range(i["N"]):
        mine = range(start[v], start[v + 1])
        rows.append(([*mine], [1.0] * len(mine), 1, 1))
        if leader[v] != v:
            rows += [([a, start[leader[v]] + k], [1.0, -1.0], 0, 0) for k, a in enumerate(mine)]
    for (v, u), table in zip(i["E"], i["r"], strict=True):
        for at, value in enumerate(table):
            a, b = start[v] + at // i["s_len"][u], start[u] + at % i["s_len"][u]
            if a == b:
                cost[a] += value
            elif value == np.inf:
                rows.append(([a, b], [1.0, 1.0], -np.inf, 1))
            else:  # e = 1 where both are; as its cost may be negative, also not above either
                e = len(cost)
                cost.append(value)
                upper.append(1.0)
                rows.append(([e, a, b], [1.0, -1.0, -1.0], -1, np.inf))
                rows += [([e, x], [1.0, -1.0], -np.inf, 0) for x in (a, b)]
    for (v, u), table in zip(i["A"], i["v"], strict=True):
        for at in np.flatnonzero(np.array(table) > 0.5).tolist():
            a, b = start[v] + at // i["s_len"][u], start[u] + at % i["s_len"][u]
            rows.append(([a, b], [1.0, 1.0], -np.inf, 1))
    for nodes in i["L"] if i["M"] > 0 else []:
        columns = [start[v] + k for v in nodes for k in range(i["s_len"][v])]
        rows.append((columns, [x / i["M"] for v in nodes for x in i["m"][v]], -np.inf, 1 + 1e-12))
    for at, value in enumerate(cost):
        if value == np.inf:
            cost[at], upper[at] = 0.0, 0.0
    matrix = sparse.lil_array((len(rows), len(cost)))
    for row, (columns, values, _, _) in enumerate(rows):
        for column, value in zip(columns, values, strict=True):
            matrix[row, column] += value
    limits = LinearConstraint(sparse.csr_array(matrix), [low for *_, low, _ in rows], [high for *_, high in rows])
    whole = np.r_[np.ones(start[-1]), np.zeros(len(cost) - start[-1])]
    options = {"mip_rel_gap": 0.0}
    answer = milp(cost, integrality=whole, bounds=Bounds(0, upper), constraints=limits, options=options)
    if answer.status == 2:
        return math.inf
    assert answer.status == 0, answer.message
    return float(answer.fun)
