"""A real measurement of tiny operators and collectives, 1 round. Structure only, never seconds."""

from dataclasses import replace

import pytest
from meshwright.cli import run
from meshwright.errors import InputError
from meshwright.profiles.graph import OperatorTimes, zoo_graph
from meshwright.profiles.graph.costs.measured.model import MeasuredCosts
from meshwright.profiles.graph.costs.measured.profile import TrainingProfile
from meshwright.profiles.measure.pool import usable_cores
from meshwright.profiles.measure.training import Asked, measure_training, take
from meshwright.profiles.measure.training.shapes import shapes_of
from meshwright.runtime.training.measure import in_place
from meshwright.runtime.training.measure.in_place import fits, measured_in_place
from meshwright.runtime.training.session import TrainingSession
from meshwright.worlds.registry import world

torch = pytest.importorskip("torch", reason="measuring needs torch")
ASKED = Asked((2,), devices=2, rounds=1, fast=True)


@pytest.fixture(scope="module")
def graph():
    return zoo_graph("tiny-mlp")


@pytest.fixture(scope="module")
def file(graph, tmp_path_factory):
    path = tmp_path_factory.mktemp("measured") / "p.json"
    measure_training(graph, replace(ASKED, most=5), path)
    assert len(TrainingProfile.load(path).operators) == 5
    return path


def test_it_goes_on_where_it_was_and_measures_all_that_planners_ask_for(graph, file):
    before, told = TrainingProfile.load(file), list[str]()
    found = measure_training(graph, ASKED, file, told.append)
    assert found.operators[:5] == before.operators
    assert found.collectives == before.collectives
    assert not any("device, links" in line or "cannot be measured" in line for line in told)
    assert TrainingProfile.load(file).by_key.keys() == found.by_key.keys()
    costs = MeasuredCosts(found)
    for op in graph.with_batch(2).operators:
        for loop in ("", *op.cuttable):
            parts = {loop: 2} if loop and op.sizes[loop] % 2 == 0 else {}
            assert costs.origin(op, parts) == "measured"
            times = costs.times(op, parts)
            assert times.forward_s > 0
            assert times.backward_s >= 0
            if op.kind == "contraction":
                assert times.backward_s > 0


def test_sets_are_equally_full(graph, monkeypatch):
    """A short last set would find its operands in the cache."""
    monkeypatch.setattr("meshwright.profiles.measure.training.take.TOGETHER", 8)
    shapes = shapes_of(graph, (2, 4), 4, "float32")[:18]
    sets = list(take._sets(shapes))
    assert [one for some in sets for one in some] == shapes
    assert [len(some) for some in sets] == [8, 5, 5]
    assert [len(take._filled(some)) for some in sets] == [8, 8, 8]
    assert {id(one) for one in take._filled(sets[1])} == {id(one) for one in sets[1]}
    monkeypatch.setattr("meshwright.profiles.measure.training.take.TOGETHER_BYTES", 0)
    assert [len(take._filled(some)) for some in sets] == [8, 5, 5]


def test_shapes_that_no_device_holds_are_left_out_or_refused(graph):
    shapes, told = shapes_of(graph, (2,), 2, "float32"), list[str]()
    most = max(map(take._bytes, shapes))
    kept = take._fitting(shapes, most - 1, told.append)
    assert len(kept) < len(shapes)
    assert all(take._bytes(one) < most for one in kept)
    assert "hold more than a device" in told[0]
    with pytest.raises(InputError, match="give fewer samples"):
        take._fitting(shapes, 1, told.append)


def test_stages_at_work_are_held_against_their_operators(graph, file):
    profile = TrainingProfile.load(file)
    assert fits(profile, graph, 2)
    assert not fits(replace(profile, device=replace(profile.device, usable_memory_bytes=1000)), graph, 2)
    with TrainingSession(profile.devices) as session:
        found = measured_in_place(profile, graph, 2, session, rounds=1, iterations=2)
        again = measured_in_place(replace(found, in_place=(9.0, 9.0)), graph, 2, session, rounds=1, iterations=2)
    assert found.operators == profile.operators
    assert all(ratio > 0 for ratio in found.in_place)
    assert found.update_bytes_per_s is not None
    # What was there before is no part of what is measured; small operators take as they like.
    assert all(ratio < 9 * 9 for ratio in again.in_place)


def test_stages_of_a_pipeline_take_equally_long():
    times = [OperatorTimes(x, 0.0, 0.0) for x in (1.0, 1.0, 1.0, 3.0, 1.0, 5.0)]
    assert in_place._cuts(times, 2) == [0, 4, 6]
    assert in_place._cuts(times, 6) == [0, 1, 2, 3, 4, 5, 6]
    assert in_place._cuts(times[:3], 1) == [0, 3]


def test_collectives_of_every_kind_are_measured(file):
    found = TrainingProfile.load(file)
    if len(usable_cores()) < 2:
        pytest.skip("needs two cores for two devices")
    assert {(c.collective, c.devices) for c in found.collectives} == {
        (kind, 2) for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
    }
    assert found.device.name == "cpu-core"
    assert found.versions["torch"] == str(torch.__version__)


def test_a_file_of_another_machine_is_not_gone_on_with(graph, file, tmp_path):
    other = replace(TrainingProfile.load(file), machine="an abacus").save(tmp_path / "other.json")
    text = other.read_text()
    with pytest.raises(InputError, match=r"was measured on an abacus .*give another file"):
        measure_training(graph, ASKED, other)
    assert other.read_text() == text


def test_shapes_are_distinct_and_come_whole_first(graph):
    shapes = shapes_of(graph, (2, 4), 4, "float32")
    keys = [shape.local.key for shape in shapes]
    assert len(set(keys)) == len(keys)
    whole = {shape.local.key for shape in shapes_of(graph, (2, 4), 1, "float32")}
    assert set(keys[: len(whole)]) == whole


@pytest.mark.parametrize("said", [{"batches": ()}, {"batches": (0,)}, {"devices": 0}, {"rounds": 0}, {"most": 0}])
def test_numbers_out_of_range_are_refused(said):
    with pytest.raises(InputError, match=r"^(batches|devices|rounds|most): expected"):
        replace(ASKED, **said)


def test_a_profile_is_shown(file, capsys):
    assert run(["profile", "show", str(file)]) == 0
    assert "cpu-core: measured on" in capsys.readouterr().out


def test_a_graph_of_inference_is_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(InputError, match="has no loss"):
        measure_training(zoo_graph("dcgan"), ASKED, tmp_path / "p.json")
    assert not list(tmp_path.iterdir())


def test_of_a_graph_that_does_not_fit_no_ratio_of_another_is_kept(graph, file):
    profile = replace(TrainingProfile.load(file), in_place=(2.0, 2.0), update_bytes_per_s=1e9)
    small = replace(profile, device=replace(profile.device, usable_memory_bytes=1000))
    told = list[str]()
    found = world("training").at_work(small, graph, ASKED, told.append)
    assert (found.in_place, found.update_bytes_per_s) == ((1.0, 1.0), None)
    assert "do not run on these devices" in told[0]


def test_profiles_of_serving_are_measured_elsewhere(tmp_path, capsys):
    assert run(["profile", "measure", "tiny-mlp", "--out", str(tmp_path / "p.json")]) == 2
    assert "meshwright measure serving" in capsys.readouterr().err
