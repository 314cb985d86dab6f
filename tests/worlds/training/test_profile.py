"""Training cases with a profile of measured operators: what planners make of it, and what is refused."""

import pytest
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.graph import OperatorTimes, roofline, zoo_graph
from meshwright.profiles.graph.costs.measured.local_operator import LocalOperator
from meshwright.profiles.graph.costs.measured.profile import CollectiveCurve, MeasuredOperator, TrainingProfile
from meshwright.worlds.training.case import TrainingCase
from meshwright.worlds.training.data import load_data
from meshwright.worlds.training.solve import plan

CORE = device("cpu-core")


def write(path, slow="", of="cpu-core", layers=None, reduce_s=0.0):
    """Measured operators of tiny-gpt: as the roofline has them; those whose names begin with `slow` 50 times that."""
    graph, plain, found = zoo_graph("tiny-gpt", batch=4), roofline(CORE, "float32"), {}
    for op in graph.operators:
        if layers is None or op.layer in layers:
            times, local = plain.times(op, {}), LocalOperator.of(op, {}, "float32")
            factor = 50.0 if slow and op.name.startswith(slow) else 1.0
            passes = (times.forward_s, times.backward_input_s, times.backward_weight_s)
            found[local.key] = MeasuredOperator(local, OperatorTimes(*(factor * s for s in passes)))
    curves = (CollectiveCurve("all_reduce", 2, (1, 2**30), (reduce_s, reduce_s)),) if reduce_s else ()
    measured = tuple(found.values())
    return TrainingProfile(device(of), "a core", "2026-11-28", {}, 2, 3, "float32", measured, curves).save(path)


def planned(folder, planner="alpa", **said):
    case = TrainingCase.model_validate(
        {
            "cluster": {"devices": 2, "device": "cpu-core"}, "model": "tiny-gpt", "planner": {"name": planner},
            "workload": {"global_batch": 16, "microbatches": 4}, **said,
        }
    )  # fmt: skip
    return plan(case, load_data([case], folder))


@pytest.mark.parametrize("planner", ["alpa", "inter-only", "graphpipe", "piper"])
def test_a_slow_operator_moves_the_cut(tmp_path, planner):
    write(tmp_path / "even.json")
    write(tmp_path / "slow.json", slow="head")  # the last operator of the model: its stage gets less beside it
    even, slow = (planned(tmp_path, planner, profile=f"{name}.json") for name in ("even", "slow"))
    assert [s.last - s.first for s in even.stages] != [s.last - s.first for s in slow.stages]


def test_the_plan_says_how_many_operators_were_measured(tmp_path):
    write(tmp_path / "all.json")
    found = planned(tmp_path, "inter-only", profile="all.json")
    n = len(zoo_graph("tiny-gpt").operators)
    assert found.cost_source == f"measured on a core, 2026-11-28: {n} operators measured, 0 scaled"
    write(tmp_path / "few.json", layers={0, 1})
    measured = planned(tmp_path, "inter-only", profile="few.json").cost_source.split(": ")[1]
    first, second = (int(word.split()[0]) for word in measured.split(", "))
    assert first + second == n
    assert 0 < second < n


def test_a_file_that_changed_is_planned_with_anew(tmp_path):
    write(tmp_path / "one.json")
    before = planned(tmp_path, profile="one.json")
    write(tmp_path / "one.json", slow="head")
    assert planned(tmp_path, profile="one.json").stages != before.stages


def test_collectives_take_as_long_as_they_were_measured_to(tmp_path):
    write(tmp_path / "slow.json", reduce_s=7.0)
    write(tmp_path / "none.json")
    slow, plain = (planned(tmp_path, "data", profile=f"{name}.json").stages for name in ("slow", "none"))
    assert slow[0].logical != (1, 1)
    assert max(slow[0].forward_s, slow[0].reduce_s) >= 7.0  # at least one is needed somewhere
    assert max(plain[0].forward_s, plain[0].reduce_s) < 1.0
    assert len(planned(tmp_path, profile="slow.json").stages) == 2  # alpa is free to do without


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"profile": "gpu.json"}, "profile: gpu.json: was measured on v100-16gb .*give cluster.device v100-16gb"),
        ({"profile": "none.json"}, "profile: .*none.json: cannot read"),
        ({"profile": "core.json", "speed": {"cpu-core": 2.0}}, "leave speed or the profile out"),
        ({"profile": "core.json", "planner": {"name": "search"}, "model": "gpt3-350m"}, "profile: is of operators"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(tmp_path, said, says):
    write(tmp_path / "gpu.json", of="v100-16gb")
    write(tmp_path / "core.json")
    workload = {"global_batch": 16} if "model" in said else {"global_batch": 16, "microbatches": 4}
    with pytest.raises(InputError, match=says) as told:
        planned(tmp_path, **said, workload=workload) if "planner" not in said else _with(tmp_path, said, workload)
    assert "\n" not in str(told.value)


def _with(folder, said, workload):
    case = {"cluster": {"devices": 2, "device": "cpu-core"}, "workload": workload, **said}
    load_data([TrainingCase.model_validate(case)], folder)
