"""Training plans that contradict themselves: transfers, specs, schedules; one line each, at their place in the file."""

import json

import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import MeshEntry, ModelEntry, StageEntry, TrainingPlan, TransferEntry

ENTRY = {"forward_s": 1.0, "backward_input_s": 1.0, "state_bytes": 1.0, "activation_bytes": 1.0, "logical": (1, 2)}


def document(**changes):
    made = TrainingPlan.of(
        Cluster(2, 2, "v100-16gb"),
        model=ModelEntry(name="m"),
        global_batch=8,
        microbatches=4,
        meshes=tuple(MeshEntry(hosts=1, devices=2, first_host=h) for h in range(2)),
        stages=tuple(StageEntry(mesh=s, first=s, last=s + 1, **ENTRY) for s in range(2)),
        transfers=(TransferEntry(source=0, target=1, value="x", bytes=8.0, source_spec="S0R", target_spec="RS1"),),
        planner=PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
    )
    return {**json.loads(made.to_json()), **changes}


def transfer(**changes):
    return {**document()["transfers"][0], **changes}


def stages(*meshes):
    first = document()["stages"][0]
    return [{**first, "mesh": m, "first": s, "last": s + 1} for s, m in enumerate(meshes)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schedule": "1f2b"}, "schedule: unknown schedule '1f2b'; did you mean '1f1b'?"),
        ({"schedule": "zb_v"}, "schedule: schedule zb_v: stages must go over the 2 meshes and back"),
        ({"stages": stages(0, 1, 0, 1)}, "schedule: schedule 1f1b: one stage on each mesh is expected"),
        (
            {"stages": stages(0, 1, 1, 0), "schedule": "interleaved_1f1b"},
            "schedule: schedule interleaved_1f1b: stages must go round the 2 meshes in turn",
        ),
        (
            {"stages": stages(0, 1, 0, 1), "schedule": "interleaved_1f1b", "global_batch": 10, "microbatches": 5},
            "schedule: schedule interleaved_1f1b: 5 microbatches are not 2 equal rounds",
        ),
        ({"stages": stages(0), "transfers": []}, "meshes[1]: no stage is on this mesh"),
        ({"transfers": [transfer(), transfer()]}, "transfers[1]: 'x' goes there by transfer 0 already"),
        ({"transfers": [transfer(source_spec="S0Q")]}, "transfers[0].source_spec: sharding spec: expected R, S0, S1"),
        ({"transfers": [transfer(source_spec="S0S0")]}, "transfers[0].source_spec: sharding spec S0S0: a mesh axis"),
        ({"transfers": [transfer(source_spec="S0")]}, "transfers[0]: S0 and RS1 are of tensors of different ranks"),
        (
            {"transfers": [transfer(), transfer(source=1, target=0, value="y")]},
            "transfers: stages 0, 1 wait for each other in a circle",
        ),
    ],
)
def test_contradictions(changes, said):
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(json.dumps(document(**changes), indent=1), "p.json")
    (line,) = str(caught.value).splitlines()
    assert line.startswith("p.json:")
    assert said in line


def test_the_plan_itself_is_fine():
    text = json.dumps(document())
    assert TrainingPlan.from_json(text).transfers[0].source_spec == "S0R"


def test_a_tied_parameter_makes_no_circle():
    """Its gradient goes both ways, once an iteration."""
    data = document()
    for stage in data["stages"]:
        stage["parameters"] = {"table": "RR"}
    data["transfers"].append(transfer(source=1, target=0, value="table", source_spec="RR", target_spec="RR"))
    TrainingPlan.from_json(json.dumps(data))
