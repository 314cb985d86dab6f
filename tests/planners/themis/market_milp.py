"""The proportionally fair allocation as a mixed-integer programme: an oracle, and what the search is timed against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from meshwright.planners.themis import Bid, Place
from meshwright.planners.themis.bids import log_worth
from meshwright.simulator.sharing import SharedCluster
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array


def best_by_milp(cluster: SharedCluster, offered: Sequence[int], bids: Sequence[Bid], without: int = -1) -> float:
    """Σ log 1/ρ of the best allocation: a binary for each row, integers for groups on machines and GPUs in racks.

    y[row] chosen; for a row of groups of g on machines: x[row, m] whole groups on m (and z[row, m] its last, smaller
    group); for a row in a rack, w[row, r]. Constraints: GPUs of each machine; of each rack, with rows that are in it
    but on no machine in particular; of all.
    """
    free = np.bincount(cluster.machine_of[list(offered)], minlength=len(cluster.machines))
    rack = np.array([m.rack for m in cluster.machines])
    racks = sorted(set(rack.tolist()))
    cost: list[float] = []
    upper: list[float] = []
    terms: list[tuple[dict[int, float], float, float]] = []
    on: list[dict[int, float]] = [{} for _ in free]
    loose: dict[int, dict[int, float]] = {r: {} for r in racks}
    anywhere: dict[int, float] = {}

    def variable(top: float, value: float = 0.0) -> int:
        cost.append(-value)
        upper.append(top)
        return len(cost) - 1

    for bid in bids:
        if bid.app == without:
            continue
        one: dict[int, float] = {}
        for row in bid.undominated():
            y = variable(1, log_worth(row.rho))
            one[y] = 1.0
            if row.gpus == 0:
                continue
            if row.place == Place.ANYWHERE:
                anywhere[y] = float(row.gpus)
            elif row.place == Place.RACK:
                where = {variable(1): r for r in racks if row.region in (-1, r)}
                terms.append(({**dict.fromkeys(where, 1.0), y: -1.0}, 0, 0))
                for v, r in where.items():
                    loose[r][v] = float(row.gpus)
            else:
                for size, groups in ((row.group, row.gpus // row.group), (row.gpus % row.group, 1)):
                    if not size:
                        continue
                    fits = [m for m in range(len(free)) if free[m] >= size and row.region in (-1, m)]
                    where = {variable(groups): m for m in fits}
                    terms.append(({**dict.fromkeys(where, 1.0), y: -float(groups)}, 0, 0))
                    for v, m in where.items():
                        on[m][v] = float(size)
        terms.append((one, 1, 1))
    everything = dict(anywhere)
    for m, used in enumerate(on):
        terms.append((used, -np.inf, float(free[m])))
        everything |= used
    for r in racks:
        inside = dict(loose[r])
        for m in np.flatnonzero(rack == r).tolist():
            inside |= on[m]
        terms.append((inside, -np.inf, float(free[rack == r].sum())))
        everything |= loose[r]
    terms.append((everything, -np.inf, float(free.sum())))
    rows = [k for k, (row, _, _) in enumerate(terms) for _ in row]
    columns = [v for row, _, _ in terms for v in row]
    values = [x for row, _, _ in terms for x in row.values()]
    matrix = csr_array((values, (rows, columns)), shape=(len(terms), len(cost)))
    low, high = [t[1] for t in terms], [t[2] for t in terms]
    answer = milp(
        cost, integrality=np.ones(len(cost)), bounds=Bounds(0, upper), constraints=LinearConstraint(matrix, low, high),
        options={"mip_rel_gap": 0.0},
    )  # fmt: skip
    assert answer.status == 0, answer.message
    return -float(answer.fun)
