"""Drawn placement instances: graphs with branches, matches whose inner values nobody else reads, or anybody."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["chain_of_blocks", "drawn_instance"]


def drawn_instance(seed: int, most: int = 9) -> dict[str, Any]:
    """Seeds go through six kinds: private, several results, not even connected; with and without boundaries."""
    draw = random.Random(seed)
    n, reach = draw.randint(1, most), ("private", "several", "wild")[seed % 3]
    inputs: list[list[int]] = []
    for v in range(n):
        count = draw.choice((1, 1, 2))
        inputs.append(sorted({draw.randrange(max(-1, v - 4), v) if v else -1 for _ in range(count)}))
    read = {x for those in inputs for x in those}
    inputs[-1] = sorted({*inputs[-1], *(v for v in range(n - 1) if v not in read)})
    made: dict[str, Any] = {"nodes": [{"id": v, "op": "x", "inputs": those} for v, those in enumerate(inputs)]}
    matches = [
        {"backend": f"b{b}", "nodes": [v], "root": v, "cost": draw.uniform(0.5, 2)}
        for v in range(n)
        for b in draw.sample(range(3), draw.randint(1, 3))
        if draw.random() < 0.95
    ]
    matches += grown(draw, inputs, reach, 3 * n, 4, 3)
    made |= {"matches": matches, "eps": draw.choice((0.0, 0.01, 0.1))}
    if seed // 3 % 2:
        made["boundary_cost"] = draw.choice((0.05, 0.3, 1.0))
    return made


def grown(draw: random.Random, inputs: list[list[int]], reach: str, tries: int, most: int, backends: int) -> list[Any]:
    """Matches that grow from an operator to what it reads, or to what reads it as well."""
    n = len(inputs)
    sources = [[x for x in those if x >= 0] for those in inputs]
    readers = [[w for w in range(v + 1, n) if v in sources[w]] for v in range(n)]
    found: list[Any] = []
    for _ in range(tries):
        root = draw.randrange(n)
        group = {root}
        for _ in range(draw.randint(1, most)):
            near = [x for w in group for x in sources[w] if x not in group]
            if reach == "private":
                near = [x for x in near if group.issuperset(readers[x])]
            else:
                near += [x for w in group for x in readers[w] if x not in group]
            if reach == "wild" and draw.random() < 0.2:
                near = [x for x in range(n) if x not in group]
            if near:
                group.add(draw.choice(near))
        if len(group) > 1:
            cost = draw.uniform(0.3, 0.9) * len(group)
            last = root if reach == "private" else max(group)
            found.append(
                {"backend": f"b{draw.randrange(backends)}", "nodes": sorted(group), "root": last, "cost": cost}
            )
    return found


def chain_of_blocks(
    seed: int, operators: int, matches: int, reach: str = "private", branches: int = 4
) -> dict[str, Any]:
    """Blocks of up to `branches` branches of up to six operators, one after the other, as networks are."""
    draw = random.Random(seed)
    inputs: list[list[int]] = []
    last = -1
    while len(inputs) < operators:
        ends: list[int] = []
        for _ in range(draw.randint(1, branches)):
            end = last
            for _ in range(draw.randint(1, 6)):
                inputs.append([end])
                end = len(inputs) - 1
            ends.append(end)
        if len(ends) > 1:
            inputs.append(ends)
        last = len(inputs) - 1
    alone = [
        {"backend": f"b{b}", "nodes": [v], "root": v, "cost": draw.uniform(0.5, 2)}
        for v in range(len(inputs))
        for b in range(2)
    ]
    more = grown(draw, inputs, reach, 2 * matches, 7, 4)[: matches - len(alone)]
    nodes = [{"id": v, "op": "x", "inputs": those} for v, those in enumerate(inputs)]
    return {"nodes": nodes, "matches": [*alone, *more], "eps": 0.01}
