"""`planners.terapipe.plan`: the plan is what is simulated, nothing it is compared with is faster, memory, bad input."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from meshwright.errors import InfeasibleError, InputError
from meshwright.planners import terapipe
from meshwright.planners.alpa.intra import IntraOptions
from meshwright.planners.terapipe import SliceProfile
from meshwright.planners.terapipe.cell_pricer import CellPricer
from meshwright.planners.terapipe.slice_profile import part_bounds
from meshwright.profiles.devices import DEVICES
from meshwright.profiles.graph import roofline, zoo_graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.simulator import Cluster
from meshwright.simulator.mesh import Mesh
from meshwright.simulator.training.plan.file import TrainingPlan
from meshwright.simulator.training.simulate import simulate_training

TINY = zoo_graph("tiny-gpt")
UNTIED = Llama(layers=8, hidden=256, heads=8, ffn=512, vocab=64, seq=256, dtype="float16").graph("untied")
NODE = Cluster(1, 8, "v100-16gb")
INTRA = IntraOptions(microbatches=2)


def plan(graph, cluster, *, options=None, **rest):
    """The planner's, with few places to cut where a test asks for no others: 8 of 256 tokens."""
    options = dict(options or {})
    if graph is UNTIED and "tokens" not in options:
        options.setdefault("granularity", 32)
    return terapipe.plan(graph, cluster, options=options, **rest)


def small(memory_gib, nodes=1, width=8):
    """A node of devices with less memory."""
    spec = replace(DEVICES["v100-16gb"], memory_bytes=int(memory_gib * 2**30), usable_memory_bytes=1)
    return Cluster(nodes, width, spec)


def lengths(made):
    return [(e.samples, e.tokens, e.count) for e in made.slices]


# -- the plan is what is simulated -----------------------------------------------------------------------------------


DEGREES = ((1, 8, 1), (2, 4, 1), (1, 4, 2), (2, 2, 2), (1, 1, 8))


@pytest.mark.parametrize(
    ("graph", "degrees", "overlap"),
    [
        *((UNTIED, degrees, overlap) for degrees in DEGREES for overlap in (False, True)),
        # Beside computation a tied gradient waits for the last message's link, which no formula here says.
        *((TINY, degrees, False) for degrees in DEGREES[1:4]),
    ],
)
def test_simulated_as_the_closed_form_says(graph, degrees, overlap):
    """Unequal stages, messages, tied embeddings: stage after stage by hand, and both engines."""
    data, pipe, op = degrees
    options = {"data": data, "pipe": pipe, "op": op, "overlap": overlap, "samples": [1, 2]}
    made = plan(graph, NODE, global_batch=4 * data, options=options)
    assert made.schedule == "terapipe"
    for engine in ("compiled", "simpy"):
        assert simulate_training(made, engine=engine).seconds == pytest.approx(made.predicted["seconds"], rel=1e-9)
    assert made.predicted["simulated_s"] == simulate_training(made).seconds


def test_groups_of_several_sizes_are_simulated_so():
    """Three and two samples: the mean microbatch is neither, messages and activations are each group's own."""
    made = plan(UNTIED, NODE, global_batch=10, options={"pipe": 4, "data": 2, "samples": [3, 2]})
    assert {e.samples for e in made.slices} == {4, 6}
    result = simulate_training(made)
    assert result.seconds == pytest.approx(made.predicted["seconds"], rel=1e-9)
    stage = made.stages[1]
    kept = stage.state_bytes + made.microbatches * stage.activation_bytes + stage.work_bytes
    assert result.peak_bytes[1] == pytest.approx(kept, rel=0.01)  # kept scores are not in proportion to tokens


def test_equal_cells_are_the_papers_formula():
    """Stages 2 to K - 1 are equal; with the ends' times put to theirs, Eq. 2.5 in each direction to the last digit."""
    made = plan(UNTIED, NODE, global_batch=4, options={"pipe": 8, "samples": 1})
    middle = made.stages[3]
    times = {"slice_forward_s": middle.slice_forward_s, "slice_backward_s": middle.slice_backward_s}
    stages = tuple(s.model_copy(update={**times, "reduce_s": 0.0, "update_s": 0.0}) for s in made.stages)
    cells = made.model_copy(update={"stages": stages, "transfers": ()})
    expected = 0.0
    for mine in times.values():
        every = [t for entry, one in zip(made.slices, mine, strict=True) for t in one * entry.count]
        expected += sum(every) + 7 * max(every)
    assert simulate_training(cells).seconds == pytest.approx(expected, rel=1e-12)


def test_slices_sum_and_times_are_the_cost_models():
    made = plan(UNTIED, NODE, global_batch=6, options={"pipe": 4, "op": 2})
    assert all(sum(e.tokens) == 256 for e in made.slices)
    assert sum(e.samples * e.count for e in made.slices) == 6
    assert sum(e.count for e in made.slices) == made.microbatches
    pricer = CellPricer(UNTIED, roofline(NODE.spec), INTRA)
    cell = pricer.cell(made.stages[1].first, made.stages[1].last, Mesh(NODE, 1, 2).view((1, 2)), "none")
    for entry, forward, backward in zip(
        made.slices, made.stages[1].slice_forward_s, made.stages[1].slice_backward_s, strict=True
    ):
        context = 0
        for length, f, b in zip(entry.tokens, forward, backward, strict=True):
            assert (f, b) == pytest.approx(cell.seconds(entry.samples, length, context))
            context += length


def test_the_same_plan_again_and_back_from_json():
    first, again = (plan(UNTIED, NODE, global_batch=4, options={"pipe": 8}) for _ in range(2))
    dumps = [json.loads(x.to_json()) for x in (first, again)]
    for one in dumps:
        one["planner"].pop("seconds")
    assert dumps[0] == dumps[1]
    assert TrainingPlan.from_json(first.to_json()) == first
    assert "slices, in the order in which they are fed" in first.explain()


# -- nothing it is compared with is faster ---------------------------------------------------------------------------


def test_brute_force_on_a_short_sequence():
    """All slicings of 16 tokens at 4 places, of all groups of 4 samples, simulated: none beats the planner's."""
    cluster = Cluster(1, 4, "v100-16gb")
    slow = Llama(layers=4, hidden=512, heads=8, ffn=2048, vocab=64, seq=1024, dtype="float32").graph("slow")
    options = {"pipe": 4, "granularity": 256, "context": "exact", "recompute": "none", "schedule": "terapipe"}
    made = plan(slow, cluster, global_batch=4, options=options)
    best = float("inf")
    cuts = [c for k in range(1, 5) for c in itertools.product(range(1, 5), repeat=k) if sum(c) == 4]
    for samples, cut in itertools.product((1, 2, 4), cuts):
        tokens = [256 * x for x in cut]
        given = {"pipe": 4, "tokens": tokens, "samples": samples, "recompute": "none", "schedule": "terapipe"}
        best = min(best, plan(slow, cluster, global_batch=4, options=given).predicted["simulated_s"])
    # The search minimises an estimate where stages are unequal; here the last one has the head.
    assert made.predicted["simulated_s"] <= best * 1.01
    assert len(made.slices[0].tokens) > 1


def test_the_fit_finds_what_exact_costs_find():
    """32 places to cut: Eq. 2.9, made exact where the search goes, beside all pairs priced one by one."""
    options = {"pipe": 8, "granularity": 8, "samples": 1, "recompute": "none"}
    fitted, exact = (
        plan(UNTIED, NODE, global_batch=2, options=options | {"context": x}).predicted for x in ("linear", "exact")
    )
    assert fitted["overhead_error"] > 0
    assert "overhead_error" not in exact
    assert exact["seconds"] <= fitted["seconds"] * (1 + 1e-3)
    assert fitted["seconds"] <= exact["seconds"] * 1.02


@pytest.mark.parametrize("batch", [1, 4])
def test_slices_beat_uniform_slices_beat_samples_alone(batch):
    options = {"pipe": 8, "op": 1}
    seconds = [
        plan(UNTIED, NODE, global_batch=batch, options=options | {"slicing": x}).predicted["simulated_s"]
        for x in ("dp", "uniform", "none")
    ]
    assert seconds == sorted(seconds)


def test_samples_alone_are_gpipes():
    made = plan(UNTIED, NODE, global_batch=8, options={"pipe": 8, "slicing": "none"})
    assert {e.tokens for e in made.slices} == {(256,)}
    again = plan(UNTIED, NODE, global_batch=8, microbatches=made.microbatches, options={"pipe": 8, "slicing": "none"})
    gpipe = again.model_copy(update={"schedule": "gpipe", "slices": ()})
    assert simulate_training(again).seconds == pytest.approx(simulate_training(gpipe).seconds, rel=1e-9)


def test_degrees_are_chosen_by_simulation():
    free = plan(UNTIED, NODE, global_batch=8, options={"samples": [1, 2]})
    each = []
    for data, pipe, op in itertools.product((1, 2, 4, 8), repeat=3):
        if data * pipe * op == 8:
            given = {"data": data, "pipe": pipe, "op": op, "samples": [1, 2]}
            each.append(plan(UNTIED, NODE, global_batch=8, options=given).predicted["simulated_s"])
    assert len(each) == 10
    assert free.predicted["simulated_s"] <= min(each) * 1.01


def test_given_slices_are_kept():
    made = plan(UNTIED, NODE, global_batch=4, options={"pipe": 4, "tokens": [104, 88, 64], "samples": 2})
    assert lengths(made) == [(2 * 2, (104, 88, 64), 1)] or lengths(made) == [(2, (104, 88, 64), 2)]


def test_microbatches_are_groups_of_samples():
    made = plan(UNTIED, NODE, global_batch=12, microbatches=3, options={"pipe": 4, "data": 2})
    assert {e.samples for e in made.slices} == {4}
    assert made.microbatches == 3


# -- memory ----------------------------------------------------------------------------------------------------------


def test_the_whole_batch_is_kept():
    made = plan(UNTIED, NODE, global_batch=8, options={"pipe": 8, "recompute": "none"})
    stage, result = made.stages[2], simulate_training(made)
    kept = stage.state_bytes + made.microbatches * stage.activation_bytes
    assert result.peak_bytes[2] == pytest.approx(kept + stage.work_bytes, rel=1e-9)
    assert result.peak_bytes.max() <= 0.9 * NODE.spec.memory_bytes


def test_accumulation_where_the_whole_batch_does_not_fit():
    options = {"pipe": 8, "recompute": "none", "samples": [1, 2]}
    whole = plan(UNTIED, NODE, global_batch=64, options=options)
    memory = whole.predicted["peak_bytes"] / 2**30 / 0.9 * 0.6
    made = plan(UNTIED, small(memory), global_batch=64, options=options)
    assert made.schedule == "terapipe_1f1b"
    assert simulate_training(made).peak_bytes.max() <= 0.9 * memory * 2**30
    with pytest.raises(InfeasibleError, match=r"terapipe_1f1b \(gradient accumulation\)"):
        plan(UNTIED, small(memory), global_batch=64, options=options | {"schedule": "terapipe"})


def test_recomputation_where_nothing_else_fits():
    options = {"pipe": 8, "schedule": "terapipe", "samples": [1, 2]}
    whole = plan(UNTIED, NODE, global_batch=64, options=options)
    least = plan(UNTIED, NODE, global_batch=64, options=options | {"recompute": "full"})
    memory = 1.05 * least.predicted["peak_bytes"] / 2**30 / 0.9
    assert memory < whole.predicted["peak_bytes"] / 2**30
    made = plan(UNTIED, small(memory), global_batch=64, options=options)
    assert made.stages[0].recompute == "full"
    with pytest.raises(InfeasibleError, match="recompute=full"):
        plan(UNTIED, small(memory), global_batch=64, options=options | {"recompute": "none"})


def test_the_smallest_memory_named_is_enough():
    options = {"pipe": 8, "recompute": "full", "schedule": "terapipe", "samples": [1, 2]}
    with pytest.raises(InfeasibleError, match="fits the memory") as error:
        plan(UNTIED, small(0.01), global_batch=64, options=options)
    said = float(str(error.value).split("devices with ")[1].split(" GiB")[0])
    assert plan(UNTIED, small(said / 0.9 * 1.001), global_batch=64, options=options)
    with pytest.raises(InfeasibleError):
        plan(UNTIED, small(said / 0.9 * 0.9), global_batch=64, options=options)


# -- measured slices -------------------------------------------------------------------------------------------------


def profile_of(graph, tokens):
    """Slices of each part as the cost model has them, as if they were measured."""
    pricer = CellPricer(graph, roofline(NODE.spec), INTRA)
    mesh = Mesh(NODE, 1, 1).view((1, 1))
    parts = {}
    for name, bounds in part_bounds(graph).items():
        cell = pricer.cell(*bounds, mesh, "none")
        grid = [(b, i, j) for b in (1, 2) for i in range(16, tokens + 1, 16) for j in range(0, tokens - i + 1, 48)]
        times = [cell.seconds(*x) for x in grid]
        parts[name] = {
            "samples": [x[0] for x in grid], "lengths": [x[1] for x in grid], "contexts": [x[2] for x in grid],
            "forward_s": [max(t[0], 1e-12) for t in times], "backward_s": [max(t[1], 1e-12) for t in times],
        }  # fmt: skip
    return SliceProfile(model=graph.name, digest=graph.digest, tokens=tokens, parts=parts, source="no machine")


def test_a_profile_of_the_cost_model_plans_as_the_cost_model(tmp_path):
    profile = profile_of(UNTIED, 256)
    path = profile.save(tmp_path / "slices.json")
    assert SliceProfile.load(path) == profile
    options = {"pipe": 8, "granularity": 16, "samples": [1, 2], "recompute": "none"}
    by_costs = plan(UNTIED, NODE, global_batch=8, options=options)
    by_profile = plan(UNTIED, NODE, global_batch=8, options=options | {"slice_profile": str(path)})
    assert by_profile.predicted["simulated_s"] == pytest.approx(by_costs.predicted["simulated_s"], rel=0.03)
    assert "no machine" in by_profile.cost_source
    report = "\n".join(profile.report())
    assert "the paper: < 2%" in report
    assert len(profile.report()) == 6


def test_profiles_of_something_else_are_refused(tmp_path):
    profile = profile_of(UNTIED, 256)
    for graph, options, said in (
        (TINY, {}, "of sequences of 256 tokens; 'tiny-gpt' has 16"),
        (UNTIED, {"op": 2}, "measured with op degree 1"),
        (UNTIED, {"recompute": "selective", "op": 1}, "says nothing of parts of blocks"),
    ):
        with pytest.raises(InputError, match=said):
            plan(graph, NODE, global_batch=8, options=options | {"slice_profile": profile})
    path = tmp_path / "x.json"
    for text, said in (("{", "no JSON"), ("{}", "not a slice profile"), (profile.model_dump_json()[:-2] + "}", "JSON")):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            SliceProfile.load(path)
    data = json.loads(profile.model_dump_json())
    data["parts"]["block"]["lengths"] = [1]
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="lists of one length"):
        SliceProfile.load(path)
    with pytest.raises(InputError, match="cannot read"):
        SliceProfile.load(tmp_path / "none.json")


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "batch", "said"),
    [
        ({"tokens": [100, 100]}, 4, "slices sum to 200; a sequence has 256 tokens"),
        ({"granularity": 100}, 4, "100 does not divide the sequence of 256 tokens; use 128"),
        ({"pipe": 16}, 4, "16 stages do not divide 8 blocks equally; use 8"),
        ({"pipe": 8, "op": 2}, 4, "8 x 2 need 16 devices; .* has 8: use more devices"),
        ({"pipe": 4, "op": 1, "data": 1}, 4, "4 x 1 = 4 do not make up 8 devices|1 x 4 x 1 = 4 do not make up"),
        ({"data": 3}, 4, "3 replicas do not divide a batch of 4; use 2|use 4"),
        ({"op": 3}, 4, "3 does not divide its 8 devices"),
        ({"samples": [3], "pipe": 8}, 4, "no groups of 3 samples make up a batch of 4"),
        ({"samples": [8], "pipe": 8}, 4, "8 together are more than a replica's batch of 4"),
        ({"slicing": "best"}, 4, "slicing: unknown value 'best'"),
        ({"slicing": "none", "tokens": [256]}, 4, "leave out slicing 'none'"),
        ({"pipes": 2}, 4, "unknown option 'pipes'; did you mean 'pipe'"),
        ({"pipe": 0}, 4, "pipe: expected a positive integer"),
        ({"tokens": []}, 4, "tokens: expected positive integers"),
        ({"epsilon": -1}, 4, "epsilon: expected seconds >= 0"),
        ({"memory_fraction": 2}, 4, "memory_fraction"),
        ({"granularity": -8}, 4, "granularity"),
        ({"overlap": 1}, 4, "overlap: expected true or false"),
        ({}, 0, "global_batch: expected a positive integer"),
    ],
)
def test_bad_input(options, batch, said):
    with pytest.raises((InputError, InfeasibleError), match=said) as error:
        plan(UNTIED, NODE, global_batch=batch, options=options)
    assert "\n" not in str(error.value)


def test_layouts_that_cannot_be_leave_the_others():
    """Four heads, groups of four samples: of eight devices only few layouts are left."""
    made = plan(TINY, NODE, global_batch=8, options={"samples": [4], "granularity": 4})
    assert made.planner.options["op"] <= 4
    assert made.planner.options["data"] <= 2


@pytest.mark.parametrize("name", ["bert-large", "tiny-moe", "tiny-resnet"])
def test_models_without_slices(name):
    with pytest.raises(InputError, match=r"not causal|tokens"):
        plan(zoo_graph(name), NODE, global_batch=8)


def test_microbatches_that_do_not_divide():
    with pytest.raises(InputError, match="3 do not divide the global batch of 4"):
        plan(UNTIED, NODE, global_batch=4, microbatches=3)


def test_what_is_no_graph_or_cluster():
    with pytest.raises(InputError, match="graph: expected a training graph"):
        plan("tiny-gpt", NODE, global_batch=4)
    with pytest.raises(InputError, match="cluster: expected a Cluster"):
        plan(TINY, 8, global_batch=4)


def test_slices_are_given_in_whole_samples_of_all_replicas():
    made = plan(UNTIED, NODE, global_batch=8, options={"data": 4, "pipe": 2})
    assert all(e.samples % 4 == 0 for e in made.slices)
    assert made.stages[0].logical == (4, 1)
