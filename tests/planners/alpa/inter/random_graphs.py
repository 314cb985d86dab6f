"""Random small graphs, and transformers of any size, for tests of the inter-operator pass."""

from __future__ import annotations

import numpy as np
from meshwright.profiles.graph import Graph, Loop, Operator, Tensor


def random_graph(n, seed, reach=4):
    """`n` operators that read up to three earlier ones; FLOPs and bytes of their results are random."""
    random = np.random.default_rng([seed, n])
    operators = []
    for k in range(n):
        earlier = [f"o{p}" for p in range(max(0, k - reach), k)] or ["x"]
        reads = list(random.choice(earlier, min(len(earlier), int(random.integers(1, 4))), replace=False))
        if k == 0:
            reads = ["x", "w"]
        formula = ", ".join(["b h"] * len(reads)) + " -> b h"
        loops = (Loop("b", 4, batch=True), Loop("h", 8))
        dtype = str(random.choice(["float64", "float32", "float16"]))
        flops = float(random.integers(0, 20))
        operators.append(Operator(f"o{k}", "elementwise", formula, tuple(map(str, reads)), loops, dtype, flops=flops))
    return Graph("random", 4, (Tensor("x", (4, 8), batch_dims=(0,)),), (Tensor("w", (4, 8)),), tuple(operators))


def chain(flops, readers=()):
    """A chain of operators with these FLOPs; `readers`: further (maker, reader) pairs."""
    operators = []
    for k, value in enumerate(flops):
        reads = ("x", "w") if k == 0 else (f"o{k - 1}", *(f"o{p}" for p, reader in readers if reader == k))
        formula = ", ".join(["b h"] * len(reads)) + " -> b h"
        loops = (Loop("b", 4, batch=True), Loop("h", 8))
        operators.append(Operator(f"o{k}", "elementwise", formula, reads, loops, flops=float(value)))
    return Graph("chain", 4, (Tensor("x", (4, 8), batch_dims=(0,)),), (Tensor("w", (4, 8)),), tuple(operators))
