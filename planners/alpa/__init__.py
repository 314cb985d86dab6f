"""Alpa: automatic inter- and intra-operator parallelism for training (Zheng et al., OSDI '22).

Begin with `plan`, the paper's Algorithm 1: it takes a training graph and a cluster and returns a `TrainingPlan`. The
room `inter` cuts the model into stages on submeshes (§5), the room `intra` shards the operators of one stage (§4), and
the room `solver` solves the ILP behind that. `baselines` holds the planners that the paper compares with.

The room `inference` makes serving profiles by the same passes (`profile_graph`), as AlpaServe extends them.

The solvers can be used by themselves: `solve_sharding` picks a sharding strategy for every operator of a graph (§4.2),
`stage_dp` cuts layers into pipeline stages on submeshes (§5.2), and `place_submeshes` finds devices for these (Theorem
1).
"""

from __future__ import annotations

from .baselines import BASELINES
from .heterogeneous import plan_heterogeneous
from .inference import InferenceOptions, profile_graph, profile_set
from .inter import cluster_operators
from .options import AlpaOptions
from .planner import plan
from .solver.problem import ShardingProblem
from .solver.sharding import ShardingSolution, solve_sharding
from .stages import stage_dp
from .submeshes import PlacedSubmesh, place_submeshes

__all__ = [
    "BASELINES", "AlpaOptions", "InferenceOptions", "PlacedSubmesh", "ShardingProblem",
    "ShardingSolution", "cluster_operators", "place_submeshes", "plan", "plan_heterogeneous", "profile_graph",
    "profile_set", "solve_sharding", "stage_dp",
]  # fmt: skip
