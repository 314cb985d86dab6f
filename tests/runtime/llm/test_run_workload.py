"""What `meshwright run` draws for an LLM engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from meshwright.errors import InputError
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import LLMPlan, LLMTrace
from meshwright.simulator.llm.plan.entries import LLMWorkload
from meshwright.simulator.llm.plan.file import Deployment, ServedModel
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.worlds.faces import case
from meshwright.worlds.llm.case import LLMCase
from meshwright.worlds.llm.doors.drawn import requests_of
from meshwright.worlds.llm.options import RunOptions

HERE = Path()


def asked(**said: object) -> LLMCase:
    made = case("llm", model="tiny-llama", devices=1, device="cpu-core", **said)
    assert isinstance(made, LLMCase)
    return made


def a_plan() -> LLMPlan:
    deployment = Deployment(name="one", model="tiny-llama", num_blocks=50, devices=((0,),))
    traffic = LLMWorkload(requests=10, duration_s=5.0, rate_per_s={"tiny-llama": 2.0}, source="by hand")
    return LLMPlan.of(
        Cluster(1, 1, "cpu-core"), (ServedModel.of(decoder("tiny-llama")),), (deployment,),
        planner=PlannerEntry(name="by hand"), workload=traffic,
    )  # fmt: skip


def test_lengths_shrink_for_a_small_model_but_not_for_a_plan() -> None:
    """A plan was made for the lengths as they are: too long ones are cut, as the planner cuts them."""
    what = asked(lengths="alpaca", requests=200)
    small, said = requests_of(what, RunOptions(), 384, HERE)
    assert said == "lengths like alpaca x 0.1875, seed 0"
    whole, said = requests_of(what, RunOptions(), 384, HERE, plan=a_plan())
    assert said == "lengths like alpaca, seed 0"
    assert int((whole.prompt_tokens + whole.output_tokens).max()) <= 384
    assert whole.output_tokens.mean() > 4 * small.output_tokens.mean()


def test_a_factor_on_the_rate_counts(tmp_path: Path) -> None:
    """Of drawn requests it squeezes the same gaps; of a trace too."""
    (slow, _), (fast, _) = (
        requests_of(asked(rate=4, rate_scale=factor, requests=20), RunOptions(), 384, HERE) for factor in (1, 2)
    )
    assert np.allclose(slow.arrival, 2 * fast.arrival)
    file = tmp_path / "trace.csv"
    file.write_text("arrival,model,prompt_tokens,output_tokens\n0.0,a,9,3\n0.5,a,12,4\n")
    trace, _ = requests_of(asked(trace="trace.csv", rate_scale=2), RunOptions(), 384, tmp_path)
    assert trace.arrival.tolist() == [0.0, 0.25]


def test_how_many() -> None:
    def count(**said: object) -> int:
        return len(requests_of(asked(**said), RunOptions(), 384, HERE)[0])

    assert (count(), count(rate=4, duration=5), count(rate=4), count(requests=7)) == (32, 20, 32, 7)
    with pytest.raises(InputError, match=r"workload\.duration: goes with a rate"):
        count(duration=5)
    with pytest.raises(InputError, match=r"workload\.duration: expected at most [\d,]+ requests of a real run"):
        count(rate=10_000, duration=10_000)


def test_a_closed_loop_takes_the_place_of_a_planned_rate_and_not_of_one_that_is_said() -> None:
    """The case of a plan holds its rate, which nobody said."""
    loop = RunOptions(concurrency=2)
    trace, _ = requests_of(asked(rate=2.0, requests=5), loop, 384, HERE, plan=a_plan())
    assert isinstance(trace, LLMTrace)
    assert not trace.arrival.any()
    for plan, rate in ((a_plan(), 3.0), (None, 2.0)):
        with pytest.raises(InputError, match="a closed loop has no rate"):
            requests_of(asked(rate=rate, requests=5), loop, 384, HERE, plan=plan)
