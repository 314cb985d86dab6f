"""`LLMPlannerContract`: what every planner of LLM serving must keep, as a test class for pytest.

A planner here is a callable ``(cluster, demands, seed) -> LLMPlan``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ...errors import InfeasibleError
from ...profiles.llm.zoo import DECODERS
from ...simulator.cluster import Cluster
from ...simulator.llm.plan.file import LLMPlan
from ...simulator.llm.plan.simulate import simulate_plan
from ...traces.lengths import length_profile
from .demand import DrawnTraffic, LLMDemand

__all__ = ["LLMPlannerContract"]

Planner = Callable[[Cluster, Sequence[LLMDemand], int], LLMPlan]
CLOSE = 1e-9
SMALL, OTHER, LARGE = "Llama-3.2-1B", "Qwen2.5-1.5B", "Llama-3.1-405B"


class LLMPlannerContract:
    """Inherit, set `planner`, and pytest does the rest.

    Parameters
    ----------
    planner : callable
        ``staticmethod(function)`` of cluster, demands and seed that gives a plan.

    Examples
    --------
    A whole test file::

        from meshwright.planners.vllm.contract import LLMPlannerContract
        from mine import plan

        class TestMine(LLMPlannerContract):
            planner = staticmethod(plan)
    """

    planner: ClassVar[Any]

    def demands(self) -> list[LLMDemand]:
        """Two models under a light load; override it for others."""
        lengths = length_profile("alpaca")
        return [
            LLMDemand(DECODERS[name], DrawnTraffic(lengths, 4.0, 40, stream=i), 0.5, 0.05)
            for i, name in enumerate((SMALL, OTHER))
        ]

    def cluster(self, devices: int = 2) -> Cluster:
        """One node of A100s; override it for another."""
        return Cluster(1, devices, "a100-40gb")

    def plan(self, cluster: Cluster, demands: Sequence[LLMDemand], seed: int) -> LLMPlan:
        """What the planner makes of a problem."""
        planner: Planner = type(self).planner
        return planner(cluster, demands, seed)

    def test_plan_is_a_file_that_reads_back(self) -> None:
        """What it returns is a plan for the cluster and the models that were asked for, and stands in a file."""
        made = self.plan(self.cluster(), self.demands(), 0)
        assert isinstance(made, LLMPlan), f"expected an LLMPlan, got {type(made).__name__}"
        assert LLMPlan.from_json(made.to_json()) == made
        assert made.cluster_spec == self.cluster(), "the plan is for another cluster than was asked for"
        assert [m.name for m in made.models] == [d.name for d in self.demands()], "other models, or in another order"

    def test_every_model_is_served_within_its_limits_of_memory(self) -> None:
        """Each model has an engine, and no engine promises more KV blocks than its ranks have room for."""
        made = self.plan(self.cluster(), self.demands(), 0)
        for demand in self.demands():
            assert made.deployments_of(demand.name), f"no engine serves {demand.name}"
        for each in made.deployments:
            room = made.capacity(each).tokens // each.block_size
            assert each.num_blocks <= room, f"{each.name}: {each.num_blocks} KV blocks, there is room for {room}"

    def test_limits_are_those_asked_for(self) -> None:
        """The plan carries the service-level objectives."""
        made = self.plan(self.cluster(), self.demands(), 0)
        for demand in self.demands():
            said = made.model(demand.name)
            assert (said.slo_ttft_s, said.slo_tpot_s) == (demand.ttft_s, demand.tpot_s), f"limits of {demand.name}"

    def test_prediction_is_what_the_simulator_says(self) -> None:
        """What the plan predicts is reached when the plan, read back from its file, is simulated."""
        made = self.plan(self.cluster(), self.demands(), 0)
        again = LLMPlan.from_json(made.to_json())
        result = simulate_plan(again, {d.name: d.traffic.trace(0) for d in self.demands()})
        assert "attainment" in made.predicted, "the plan predicts no attainment"
        gap = abs(result.attainment - made.predicted["attainment"])
        assert gap <= CLOSE, f"predicted {made.predicted['attainment']}, simulated {result.attainment}"

    def test_same_seed_same_plan(self) -> None:
        """Twice the same question, twice the same plan but for the seconds."""
        one, two = (_decided(self.plan(self.cluster(), self.demands(), 3)) for _ in range(2))
        assert one == two, "two plans for one problem and one seed"

    def test_names_are_labels(self) -> None:
        """Models called otherwise get the same engines."""
        plain = self.demands()
        renamed = [LLMDemand(d.model, d.traffic, d.ttft_s, d.tpot_s, f"z-{i}") for i, d in enumerate(plain)]
        shapes = [
            sorted((d.tp, d.pp, d.num_blocks, d.devices) for d in self.plan(self.cluster(), asked, 0).deployments)
            for asked in (plain, renamed)
        ]
        assert shapes[0] == shapes[1], "other names, other engines"

    def test_what_fits_nowhere_is_infeasible_and_says_what_would_help(self) -> None:
        """A model that no engine holds raises InfeasibleError with a change that would mend it."""
        asked = [LLMDemand(DECODERS[LARGE], self.demands()[0].traffic, 1.0, 1.0)]
        said = ""
        try:
            made = self.plan(self.cluster(), asked, 0)
        except InfeasibleError as error:
            said = str(error)
        else:
            raise AssertionError(f"placed {LARGE} on 2 devices of 40 GB: {made.deployments}")
        assert "smallest change" in said, f"says no change that would help: {said}"


def _decided(made: LLMPlan) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(made.to_json())
    said["planner"].pop("seconds")
    return said
