"""Plans whose stages, orders or slices contradict themselves: one line each, at their place, all of them at once."""

import json

import pytest
from meshwright.errors import InputError
from meshwright.simulator import Cluster
from meshwright.simulator.plan.entries import PlannerEntry
from meshwright.simulator.training import (
    MeshEntry,
    ModelEntry,
    SliceEntry,
    StageEntry,
    TrainingPlan,
    TransferEntry,
    simulate_training,
)

ENTRY = {"forward_s": 1.0, "backward_input_s": 1.0, "state_bytes": 1.0, "activation_bytes": 1.0, "logical": (1, 1)}
SLICES = (SliceEntry(samples=1, tokens=(4, 3, 1), count=2), SliceEntry(samples=6, tokens=(5, 3)))
SECONDS = ((1.0, 2.0, 3.0), (1.0, 2.0))


def made(*, sliced=False, **entries):
    times = {"slice_forward_s": SECONDS, "slice_backward_s": SECONDS} if sliced else {}
    return TrainingPlan.of(
        Cluster(1, 3, "v100-16gb"),
        model=ModelEntry(name="m"),
        global_batch=8,
        microbatches=3 if sliced else 4,
        schedule="terapipe" if sliced else "kfkb",
        meshes=tuple(MeshEntry(hosts=1, devices=1, first_device=d) for d in range(3)),
        stages=tuple(StageEntry(mesh=s, first=s, last=s + 1, **ENTRY, **times) for s in range(3)),
        transfers=tuple(TransferEntry(source=s, target=2, value="x", bytes=8.0) for s in range(2)),
        slices=SLICES if sliced else (),
        planner=PlannerEntry(name="hand", options={}, version="0", seed=0, seconds=0.0, evaluations=0),
        **entries,
    )


def document(changes, **made_with):
    """A plan's JSON with some of it changed: ``{"stages.0.k": 2}``; None takes it out."""
    data = json.loads(made(**made_with).to_json())
    for path, value in changes.items():
        *steps, last = [int(x) if x.isdigit() else x for x in path.split(".")]
        place = data
        for step in steps:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return json.dumps(data, indent=1)


@pytest.mark.parametrize(
    ("sliced", "changes", "said"),
    [
        (False, {"stages.1.microbatch": 3}, "stages[1].microbatch: 3 samples do not divide the global batch of 8"),
        (
            False,
            {"global_batch": 12, "stages.0.microbatch": 2},
            "transfers[0]: stages 0 and 2 have microbatches of 2 and 3 samples; one must divide the other",
        ),
        (False, {"stages.0.microbatch": -1}, "stages[0].microbatch: should be greater than or equal to 0"),
        (False, {"stages.0.k": 0}, "stages[0].k: should be greater than 0"),
        (
            False,
            {"stages.2.k": 2, "stages.2.warmup": 1},
            "stages[2].warmup: expected 2 … 4 forward passes before the first 2 backward (got 1)",
        ),
        (False, {"stages.2.warmup": 5}, "stages[2].warmup: expected 1 … 4 forward passes"),
        (
            False,
            {"stages.0.warmup": 1, "stages.2.k": 4},
            "schedule: deadlock: mesh 0 (stage 0) waits at RECV_B0~2.0 for stage 2 on mesh 2; ",
        ),
        (False, {"schedule": "1f1b", "stages.0.k": 2}, "stages[0].k: is read by schedule kfkb (got schedule 1f1b)"),
        (False, {"stages.0.order": "4F 4B"}, "stages[0].order: is read by schedule explicit (got schedule kfkb)"),
        (
            False,
            {"schedule": "1f1b", "stages.0.microbatch": 1},
            "schedule: schedule 1f1b: as many microbatches on every stage are expected (got 4, 8); take one of gpipe",
        ),
        (
            False,
            {"schedule": "terapipe"},
            "schedule: terapipe runs token slices, and the plan has none; add slices",
        ),
        (False, {"transfers.1.source": 2, "transfers.1.target": 0}, "stages 0, 2 wait for each other in a circle"),
        (
            False,
            {"stages.0.slice_forward_s": [[1.0]]},
            "stages[0].slice_forward_s: the plan has no slices; add them, or leave this out",
        ),
        (False, {"model.order": [0, 1, 1]}, "model.order: expected each of 0 … 2 once"),
        (True, {"slices.0.samples": 2}, "slices: samples of all microbatches sum to 10, the global batch is 8"),
        (True, {"slices.1.count": 2, "slices.1.samples": 3}, "slices: counts sum to 4, microbatches is 3"),
        (
            True,
            {"slices.1.tokens": [5, 4]},
            "slices[1].tokens: 9 tokens, and slices[0] has 8; slices cut the same sequence",
        ),
        (True, {"slices.1.tokens": [8, 0]}, "slices[1].tokens[1]: should be greater than 0"),
        (True, {"schedule": "1f1b"}, "schedule: 1f1b runs no token slices; take terapipe or terapipe_1f1b, or leave"),
        (
            True,
            {"stages.1.slice_forward_s": [[1.0, 2.0], [1.0, 2.0]]},
            "stages[1].slice_forward_s[0]: expected seconds of each of the 3 slices (got 2)",
        ),
        (
            True,
            {"stages.1.slice_backward_s": [[1.0, 2.0, 3.0]]},
            "stages[1].slice_backward_s: expected a row for each of 2 entries of slices (got 1)",
        ),
        (True, {"stages.1.slice_backward_s": None}, "stages[1].slice_backward_s: expected a row for each of 2 entries"),
        (
            True,
            {"stages.1.microbatch": 1},
            "stages[1].microbatch: the microbatches of slices are those of every stage; leave it out",
        ),
    ],
)
def test_contradictions(sliced, changes, said):
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(document(changes, sliced=sliced), "p.json")
    (line,) = str(caught.value).splitlines()
    assert line.startswith("p.json:")
    assert said in line


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        (["4F 4B", "4F 4B", ""], "stages[2].order: expected runs of passes such as '4F 1B 1F 4B' (got nothing)"),
        (
            ["4F 4B", "4F 4B", "4F 3B"],
            "stages[2].order: expected 4 forward and as many backward passes (got 4 F and 3 B)",
        ),
        (["4F 4B", "B 4F 3B", "4F 4B"], "stages[1].order: backward pass 0 comes before its forward pass"),
        (["4F 4B", "4f 4b", "4F 4B"], "stages[1].order: expected runs of passes such as '4F 1B 1F 4B' (got '4f')"),
        (["F B 3F 3B", "4F 4B", "2F B 2F 3B"], "schedule: deadlock: mesh 0 (stage 0) waits at RECV_B0~2.0 for stage 2"),
    ],
)
def test_orders(orders, said):
    changes = {"schedule": "explicit"} | {f"stages.{s}.order": order for s, order in enumerate(orders)}
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(document(changes), "p.json")
    (line,) = str(caught.value).splitlines()
    assert said in line


def test_all_at_once():
    changes = {
        "slices.0.samples": 2,
        "slices.1.tokens": [5, 4],
        "stages.1.slice_forward_s": [],
        "stages.2.microbatch": 4,
    }
    with pytest.raises(InputError) as caught:
        TrainingPlan.from_json(document(changes, sliced=True), "p.json")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    places = {line.split(": ")[1] for line in lines}
    assert places == {"slices", "slices[1].tokens", "stages[1].slice_forward_s", "stages[2].microbatch"}
    with pytest.raises(InputError) as caught:
        made(sliced=True, cost_source=3)  # and where a plan is put together
    assert "cost_source" in str(caught.value)


def test_what_plans_do_not_say_is_not_written():
    """Plans of one microbatch size and no slices have the bytes that they had."""
    text = made().to_json()
    assert not any(f'"{name}"' in text for name in ("slices", "k", "warmup", "microbatch", "slice_forward_s", "order"))
    assert TrainingPlan.from_json(text) == made()
    rich = TrainingPlan.from_json(document({"stages.0.k": 2, "stages.0.microbatch": 1, "model.order": [2, 0, 1]}))
    assert rich.stages[0].k == 2
    assert rich.microbatches_of == (8, 4, 4)
    assert [rich.microbatch_of(s) for s in range(3)] == [1, 2, 2]
    assert TrainingPlan.from_json(rich.to_json()) == rich
    assert made(sliced=True) == TrainingPlan.from_json(made(sliced=True).to_json())


def test_a_plan_of_uneven_stages():
    """Two branches of 1 and 4 samples a microbatch before a stage of 2; messages grow with the sender's microbatch."""
    changes = {
        "stages.0.microbatch": 1,
        "stages.1.microbatch": 4,
        "stages.1.forward_s": 4.0,
        "stages.1.flops": 4.0,
        "transfers.0.bytes": 1e6,
        "transfers.1.bytes": 4e6,
    }
    plan = TrainingPlan.from_json(document(changes))
    fast, slow = (simulate_training(plan, engine=engine) for engine in ("compiled", "simpy"))
    assert fast.seconds == pytest.approx(slow.seconds, rel=1e-12)
    assert fast.program.microbatches_of == (8, 2, 4)
    sent = {pair: ways[0][1].n_bytes for pair, ways in fast.links.reshardings.items()}
    assert sent == {
        ("forward", 0, 2): 1e6, ("backward", 2, 0): 2e6, ("forward", 1, 2): 4e6, ("backward", 2, 1): 2e6
    }  # fmt: skip
    assert fast.model_flops == 3 * 2 * 4.0
    assert fast.busy_s.tolist() == pytest.approx([8 * 2.0, 2 * 5.0, 4 * 2.0])
    assert "2 to 8 microbatches" in fast.explain()
    assert "Eq. 2 over the longest path (no communication): 18 s" in fast.explain()
    assert plan.explain()
    # stage 1 has two microbatches of 5 s, and its path's last stage 2 s
    assert fast.pipeline_s == max(8 * 2 + 2, 2 * 5 + 2, 5 + 4 * 2)
