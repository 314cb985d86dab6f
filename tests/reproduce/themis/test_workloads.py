"""Themis' figures of its workloads and Tables 1, 2, 4: made, the same twice, and judged by rules that can fail."""

from __future__ import annotations

import json

import numpy as np
import pytest
from meshwright.reproduce import FIGURES, reproduce
from meshwright.reproduce.themis import fig01, fig03, fig05, fig08
from meshwright.reproduce.themis.experiments.workloads import cdf_frame, demand_within, two_sided
from meshwright.reproduce.themis.tables import table1, table2, table4
from meshwright.simulator.sharing import App, WorkloadOptions, workload1, workload2

NAMES = (
    *(f"themis/fig{k:02d}" for k in (1, 2, 3, 4, 5, 8)),
    *(f"themis/table{k}" for k in (1, 2, 4)),
)


DRAWN = ("themis/fig01", "themis/fig08", "themis/table4")
"""Both workloads, their arrivals and the mix of models: all that the others draw, too."""


@pytest.mark.parametrize("name", NAMES)
def test_is_made_and_what_draws_is_made_the_same_twice(name, tmp_path):
    assert name in FIGURES
    first = reproduce(name, fast=True, out=tmp_path / "0")
    claims = json.loads((tmp_path / "0" / f"{name}.json").read_text())["claims"]
    assert len(claims) == len(first.claims) > 1
    assert all(c["value"] is not None for c in claims)
    assert all(c["why"] for c in claims if c["verdict"] != "holds")
    if name in DRAWN:
        second = reproduce(name, fast=True, out=tmp_path / "1")
        for a, b in zip(first.files, second.files, strict=True):
            if a.suffix != ".json":
                assert a.read_bytes() == b.read_bytes()


def test_helpers_of_the_figures():
    frame = cdf_frame({"x": [3, 1], "y": [5]})
    assert frame.values.tolist() == [["x", 1.0, 0.5], ["x", 3.0, 1.0], ["y", 5.0, 1.0]]
    assert two_sided(0.5, 100) == pytest.approx((0.4, 0.6))
    apps = (App.single("a", 0.0, 100.0, gpus=2), App.single("b", 40.0, 90.0, gpus=3))
    _, gpus, mean = demand_within(apps, 60.0)  # 2 GPUs for 50 s, 3 for 20 s of their 30
    assert gpus.tolist() == [2.0, 5.0, 3.0]
    assert mean == pytest.approx(160 / 60)


def test_demand_far_off_does_not_hold():
    frame = fig01.demands(range(2))
    frame["mean_gpus"] = 50.0
    assert [c.verdict for c in fig01.judged(frame)][:2] == ["holds", "holds"]
    frame["mean_gpus"] = 200.0
    assert [c.verdict for c in fig01.judged(frame)][:2] == ["does not hold", "does not hold"]


def test_a_narrow_distribution_does_not_hold():
    claims = fig03.judged(cdf_frame({"x": np.linspace(10, 13, 85)}))
    assert [c.verdict for c in claims] == ["holds", "does not hold", "does not hold"]


def test_the_instances_of_figure_5():
    """By hand: two machines cost VGG16 103.6/80.4, and Inception-v3 nothing."""
    slow = 103.6 / 80.4
    values = [c.value for c in fig05.judged(fig05.played())]
    # ρ by the agent: 4 h · slow / 4 GPUs, over T_id = 2 apps · 4 h / 4 GPUs
    assert values[:4] == pytest.approx([slow, slow / 2, 1 / slow, 1.0])


def test_policies_in_figure_5():
    frame = fig05.played()
    assert len(frame) == 2 * 2 * len(fig05.POLICIES) * 2
    themis = frame[frame.policy == "themis"]
    assert (themis.slowdown == 1).all()
    assert (themis[themis.model == "VGG16"].level == "MACHINE").all()
    # the order of arrival decides what policies do that do not look at models
    las = frame[(frame.policy == "tiresias") & (frame.instance == "2") & (frame.model == "VGG16")]
    assert sorted(las.level) == ["MACHINE", "RACK"]


def test_wrong_tables_do_not_hold():
    frame = table1.rows()
    frame.loc[frame.model == "VGG16", "images_per_s_two_servers"] = 103.6
    assert table1.judged(frame)[0].verdict == "does not hold"
    bids = table2.rows()
    assert bids.rho.tolist() == [np.inf, 0.5, 0.5, 0.25]
    bids["rho"] *= 1.1
    assert [c.verdict for c in table2.judged(bids)][:2] == ["does not hold"] * 2
    mix = table4.rows(0)
    assert mix.apps.sum() == 85
    mix["apps"] = 85 / 11
    assert [c.verdict for c in table4.judged(mix)][1:3] == ["does not hold", "does not hold"]


def test_workload_2_in_place_of_1_does_not_hold():
    options = WorkloadOptions(seed=1)
    verdicts = [c.verdict for c in fig08.judged(workload2(options), workload1(options))]
    assert verdicts[:3] == ["does not hold"] * 3
