"""The shipped LLM planners keep the contract, and the contract catches planners that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pytest
from meshwright.errors import InfeasibleError
from meshwright.planners.vllm import Effort, LLMDemand, SearchSpace, plan, plan_shared
from meshwright.planners.vllm.contract import LLMPlannerContract
from meshwright.simulator import Cluster
from meshwright.simulator.llm import LLMPlan

SPACE = SearchSpace(tp=(1, 2), pp=(1,), batched_tokens=(512,))
ONCE = Effort(finalists=1, seeds=1)


Planner = Callable[[Cluster, Sequence[LLMDemand], int], LLMPlan]


def once(planner: Planner) -> Planner:
    """Plans with seed 0 are made once. Whether a seed gives one plan is asked with another, which is planned twice."""
    kept = cache(lambda cluster, demands: planner(cluster, demands, 0))
    return lambda cluster, demands, seed: planner(cluster, demands, seed) if seed else kept(cluster, tuple(demands))


@once
def dedicated(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    return plan(cluster, demands, space=SPACE, effort=ONCE, seed=seed).plan


@once
def shared(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    return plan_shared(cluster, demands, space=SPACE, effort=ONCE, seed=seed, compare=False).plan


class Contract(LLMPlannerContract):
    """On devices with room for 23,000 blocks, not 70,000: the reference makes them one by one for each engine."""

    def cluster(self, devices: int = 2) -> Cluster:
        return Cluster(1, devices, "v100-16gb")


class TestDedicated(Contract):
    planner = staticmethod(dedicated)


class TestShared(Contract):
    planner = staticmethod(shared)


def greedy_for_blocks(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    made = dedicated(cluster, demands, seed)
    more = tuple(d.model_copy(update={"num_blocks": d.num_blocks + 1}) for d in made.deployments)
    return made.model_copy(update={"deployments": more})


def forgetful(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    made = dedicated(cluster, demands, seed)
    return made.model_copy(update={"deployments": made.deployments[:1]})


def boastful(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    return dedicated(cluster, demands, seed).model_copy(update={"predicted": {"attainment": 0.5}})


def lenient(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    looser = [LLMDemand(d.model, d.traffic, 2 * d.ttft_s, d.tpot_s, d.name) for d in demands]
    return dedicated(cluster, looser, seed)


_CALLS: list[int] = []


def moody(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    _CALLS.append(1)
    made = dedicated(cluster, demands, seed)
    return made.model_copy(update={"planner": made.planner.model_copy(update={"evaluations": len(_CALLS)})})


def wide(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    return dedicated(Cluster(1, cluster.n_devices + 1, cluster.device), demands, seed)


def by_name(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    made = dedicated(cluster, demands, seed)
    few = tuple(d.model_copy(update={"num_blocks": 500 + len(d.name)}) for d in made.deployments)
    return made.model_copy(update={"deployments": few})


def terse(cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
    try:
        return dedicated(cluster, demands, seed)
    except InfeasibleError:
        raise InfeasibleError("no") from None


@pytest.mark.parametrize(
    ("bad", "test", "said"),
    [
        (greedy_for_blocks, "test_every_model_is_served_within_its_limits_of_memory", "there is room for"),
        (forgetful, "test_every_model_is_served_within_its_limits_of_memory", "no engine serves"),
        (boastful, "test_prediction_is_what_the_simulator_says", "predicted 0.5"),
        (lenient, "test_limits_are_those_asked_for", "limits of"),
        (moody, "test_same_seed_same_plan", "two plans for one problem"),
        (wide, "test_plan_is_a_file_that_reads_back", "another cluster"),
        (by_name, "test_names_are_labels", "other names, other engines"),
        (terse, "test_what_fits_nowhere_is_infeasible_and_says_what_would_help", "says no change"),
    ],
)
def test_the_contract_catches(bad: Callable[..., LLMPlan], test: str, said: str) -> None:
    class Bad(Contract):
        planner = staticmethod(bad)

    with pytest.raises(AssertionError, match=said):
        getattr(Bad(), test)()
