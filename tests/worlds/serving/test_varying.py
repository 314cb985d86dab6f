"""Cases whose times vary: what a case says, an interval that is printed, metrics of studies, bad input."""

from pathlib import Path

import pytest
from meshwright.errors import InputError
from meshwright.profiles import ModelProfile, ParallelConfig, ProfileSet, Provenance, save
from meshwright.profiles.spread import Spread, Variation
from meshwright.worlds import open_world
from meshwright.worlds.cases import build

WORLD = open_world("serving")
ONE = ParallelConfig(1, 1)


@pytest.fixture
def profile(tmp_path):
    def make(variation):
        models = {"a": ModelProfile.from_stages("a", {ONE: {1: [0.02]}}, weight_bytes={ONE: [1e9]})}
        known = ProfileSet("hand", "v100-16gb", models, Provenance("by hand"), variation=variation)
        return save(known, tmp_path / "profile.json")

    return make


def asked(profile, **more):
    fields = {
        "cluster.devices": 2, "models": {"a": 2}, "profile": str(profile), "workload.rate": 60.0, "workload.cv": 3.0,
        "workload.duration": 30.0, "workload.slo_scale": 4.0, "planner.name": "selective-replication",
        "serving.times": "drawn", "serving.draws": 20, **more,
    }  # fmt: skip
    return build(WORLD, {}, fields)


def metrics_of(profile, **more):
    one = asked(profile, **more)
    outcome = WORLD.evaluate(one, WORLD.share([one], Path()))
    assert not outcome.error
    return outcome.metrics


def test_a_measured_variation_is_drawn_from(profile):
    slow = Spread(runs=(0.8, 1.0, 1.2), correlation_s=3.0)
    path = profile(Variation(stages=slow))
    metrics = metrics_of(path)
    assert metrics["attainment_low"] < metrics["attainment"] < metrics["attainment_high"]
    fixed = metrics_of(path, **{"serving.times": "mean"})
    assert "attainment_low" not in fixed
    assert metrics["attainment"] != fixed["attainment"]


def test_a_spread_said_by_hand_counts_before_the_profiles(profile):
    path = profile(Variation(stages=Spread(visits=(0.5, 1.5))))
    narrow = metrics_of(path, **{"serving.spread.visits": [0.999, 1.001]})
    wide = metrics_of(path)
    assert wide["attainment"] < narrow["attainment"]
    assert narrow["attainment_high"] - narrow["attainment_low"] < wide["attainment_high"] - wide["attainment_low"]


def test_one_seed_gives_one_interval(profile):
    path = profile(Variation(stages=Spread(visits=(0.5, 1.5))))
    one, again, other = (metrics_of(path, seed=seed) for seed in (3, 3, 4))
    assert one == again
    assert one["attainment"] != other["attainment"]


def test_a_profile_that_does_not_say_how_times_vary_is_refused(profile):
    with pytest.raises(InputError, match=r"serving.times: the profile does not say how times vary; measure a plan"):
        metrics_of(profile(Variation()))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"serving.draws": 0}, "draws"),
        ({"serving.draws": 1}, "draws"),
        ({"serving.spread.visits": [-1.0, 2.0]}, "visits"),
        ({"serving.spread.visits": [float("nan")]}, "visits"),
        ({"serving.spread.visits": []}, "visits"),
        ({"serving.spread.visits": [1.2, 0.9]}, "ascending"),
        ({"serving.spread.runs": [0.9, 1.2]}, "needs correlation"),
        ({"serving.times": "mean", "serving.spread.visits": [1.0]}, "set times: drawn"),
    ],
)
def test_bad_input_is_a_line(profile, fields, words):
    with pytest.raises(InputError, match=words) as caught:
        asked(profile(Variation()), **fields)
    assert "\n" not in str(caught.value)


def test_profiles_keep_their_variation_in_the_file(profile):
    from meshwright.profiles import load as load_profile

    variation = Variation(Spread(paths=((1.0, 1.1, 0.9),), window_s=0.5), Spread(visits=(0.5, 1.5)))
    found = load_profile(str(profile(variation)))
    assert found.variation == variation
    assert found.instances({"a": 3}).variation == variation
    assert found.digest() != load_profile(str(profile(Variation()))).digest()


def test_a_cautious_controller_admits_less_and_misses_less(profile):
    path = profile(Variation(stages=Spread(visits=(0.6, 0.9, 1.0, 1.5))))
    said = {"serving.overhead": 0.0, "workload.rate": 90.0}
    bold, careful = (metrics_of(path, **said, **more) for more in ({}, {"serving.admission_quantile": 0.9}))
    missed = [1 - m["attainment"] - m["rejected"] / m["n_requests"] for m in (bold, careful)]
    assert careful["rejected"] > bold["rejected"]
    assert missed[1] < missed[0]


@pytest.mark.parametrize("quantile", [0.0, 1.0, -0.2, float("nan")])
def test_an_admission_quantile_is_a_share(profile, quantile):
    with pytest.raises(InputError, match="admission_quantile"):
        asked(profile(Variation()), **{"serving.admission_quantile": quantile})
