"""How GraphPipe's figures are measured, judged and drawn: closed forms, made-up points, a small model."""

from __future__ import annotations

import importlib
import math
from itertools import pairwise

import pandas as pd
import pytest
from meshwright.reproduce import FIGURES
from meshwright.reproduce.graphpipe import fig06, fig07, fig09, table1
from meshwright.reproduce.graphpipe.case import IDEAL_MICROBATCHES, SHAPES, ideal_rounds
from meshwright.reproduce.graphpipe.counted import counted
from meshwright.reproduce.graphpipe.lead import Case
from meshwright.reproduce.graphpipe.points import depth_of, measure, measure_all, over
from meshwright.reproduce.graphpipe.setting import SUMMIT, Setting, cluster_of
from meshwright.reproduce.graphpipe.sweeps import AXES
from meshwright.reproduce.graphpipe.systems import GPUS, MODELS, SYSTEMS, Point, plan_of
from meshwright.reproduce.graphpipe.variants import VARIANTS, shared_stages, split
from meshwright.reproduce.style import canvas
from meshwright.simulator.training import simulate_training

NAN = math.nan
NAMES = [name for name in FIGURES if name.startswith("graphpipe/")]


def verdicts(claims) -> dict[str, str]:
    return {c.text: c.verdict for c in claims}


def test_eight_equal_stages_are_the_closed_form():
    """n + depth − 1 rounds: 39 of a chain, 35 of two chains of four, 36 where the last stages meet."""
    found = {name: ideal_rounds(*edges) for name, edges in SHAPES.items()}
    n = IDEAL_MICROBATCHES
    assert found == pytest.approx({"one chain": n + 7, "two chains": n + 3, "two chains that meet": n + 4})


def test_summit():
    """§3.7: four V100s a node with one adapter of 100 Gb/s."""
    for gpus in GPUS:
        cluster = cluster_of(gpus)
        assert (cluster.n_devices, cluster.devices_per_node) == (gpus, 4)
        assert cluster.adapters(4) == 1
    assert SUMMIT.inter_node.bandwidth_bytes_per_s == 100e9 / 8
    assert SUMMIT.peak_flops == 125e12


def test_mini_batches_are_the_appendixs():
    """§3.10.3: twice the devices, twice the samples; 4 GPUs have 64, 256 and 4096."""
    assert {m.name: m.batches[4] for m in MODELS.values()} == {"mmt": 64, "dlrm": 256, "candle-uno": 4096}
    for model in MODELS.values():
        assert all(model.batches[b] == 2 * model.batches[a] for a, b in pairwise(GPUS))


def test_a_point_is_its_plan_simulated():
    row = measure(Point("GraphPipe", "candle-uno", 2, 4, 256))
    plan = plan_of(Point("GraphPipe", "candle-uno", 2, 4, 256))
    assert row["samples_per_s"] == pytest.approx(256 / simulate_training(plan).seconds)
    assert (row["stages"], row["depth"]) == (len(plan.stages), depth_of(plan))
    for system in ("PipeDream", "Piper"):
        fixed = measure(Point(system, "candle-uno", 2, 4, 256, 32, Setting(one_device=True)))
        assert (fixed["least_microbatch"], fixed["largest_microbatch"], fixed["data_parallel"]) == (32, 32, 1)
        assert fixed["depth"] == fixed["stages"]


def test_what_has_no_plan_says_why():
    (row,) = measure_all([Point("Piper", "candle-uno", 16, 4, 4096)]).to_dict("records")
    assert math.isnan(row["samples_per_s"])
    assert "downsets" in row["note"]


def throughput(rows: list[tuple[str, int, str, float]], **more: object) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["model", "gpus", "system", "samples_per_s"])
    return frame.assign(depth=frame.system.map({"GraphPipe": 4, "PipeDream": 8, "Piper": 8}), **more)


def test_ratios_are_of_points_that_both_have():
    rows = [
        ("mmt", 4, "GraphPipe", 3.0),
        ("mmt", 4, "PipeDream", 2.0),
        ("mmt", 8, "GraphPipe", 5.0),
        ("mmt", 8, "PipeDream", NAN),
    ]
    frame = throughput(rows)
    assert over(frame, "GraphPipe", "PipeDream") == {4: 1.5}
    assert over(frame, "GraphPipe", "Piper") == {}


def paperlike(gap: float) -> pd.DataFrame:
    """GraphPipe 1.1 times PipeDream on 4 GPUs, `gap` times on 32; Piper has plans of MMT alone."""
    rows = [
        (m, n, s, (1.0 if s != "GraphPipe" else g) * n if s != "Piper" or m == "mmt" else NAN)
        for m in MODELS
        for n, g in ((4, 1.1), (32, gap))
        for s in SYSTEMS
    ]
    return throughput(rows).assign(planning_s=1.0, note="")


SWEPT = pd.DataFrame(
    {"case": "toy", "axis": axis.field, "value": axis.values[k], "system": s, "samples_per_s": x}
    for axis in AXES.values() for k, lead in enumerate((1.1, 1.7)) for s, x in (("GraphPipe", lead), ("PipeDream", 1.0))
)  # fmt: skip


def test_figure_3_6_is_judged():
    good = verdicts(fig06.judged(paperlike(1.61), SWEPT))
    assert set(good.values()) == {"holds"}
    assert len(good) == len(fig06.EXPECTED)
    bad = verdicts(fig06.judged(paperlike(0.9), SWEPT))
    texts = {key: e.text for key, e in fig06.EXPECTED.items()}
    assert {key: bad[texts[key]] for key in ("most", "never worse", "widens")} == {
        "most": "does not hold", "never worse": "does not hold", "widens": "does not hold",
    }  # fmt: skip


def test_figure_3_7_is_judged_and_drawn():
    def frames(gap: float) -> tuple[pd.DataFrame, pd.DataFrame]:
        left = [
            {"gpus": n, "branches": k, "system": s, "samples_per_s": 1 + (s == "GraphPipe") * gap * k / 16}
            for n in (4, 8, 16) for k in fig07.BRANCHES for s in ("GraphPipe", "PipeDream")
        ]  # fmt: skip
        right = [
            {"fixed_microbatch": b, "system": s, "samples_per_s": 1 + (s == "GraphPipe") * gap * b / 32}
            for b in fig07.MICROBATCHES for s in SYSTEMS
        ]  # fmt: skip
        return pd.DataFrame(left), pd.DataFrame(right)

    assert set(verdicts(fig07.judged(*frames(1.0), SWEPT)).values()) == {"holds"}
    worse = verdicts(fig07.judged(*frames(-0.2), SWEPT))
    assert set(worse.values()) == {"does not hold"}
    with canvas(1, 2) as (_, axes):
        fig07.draw_branches(frames(1.0)[0], axes[0, 0])
        fig07.draw_sizes(frames(1.0)[1], axes[0, 1])
        tops = [max(line.get_ydata()) for line in axes[0, 0].lines if len(line.get_ydata()) == 4]
        assert tops == [2.0, 2.0, 2.0]


def test_table_3_1_is_judged():
    def frame(slower: float, piper: float) -> pd.DataFrame:
        paper = table1.PAPER
        rows = [
            {"model": m, "gpus": n, "system": s, "paper_s": paper[m].get(s, (NAN,) * 4)[k],
             "seconds": {"GraphPipe": 0.01, "PipeDream": 0.01 * slower, "Piper": piper if m == "mmt" else NAN}[s]}
            for m in MODELS for k, n in enumerate(GPUS) for s in SYSTEMS
        ]  # fmt: skip
        return pd.DataFrame(rows)

    tried = counted((4,), models=("mmt",))
    assert set(verdicts(table1.judged(frame(21.0, 4.4), tried)).values()) == {"holds"}
    texts = {key: e.text for key, e in table1.EXPECTED.items()}
    ours = verdicts(table1.judged(frame(0.5, 0.02), tried))
    assert [ours[texts[key]] for key in ("pipedream least", "pipedream most", "piper most")] == ["does not hold"] * 3
    assert ours[texts["minute"]] == "holds"
    more = verdicts(table1.judged(frame(30.0, 6.0), tried))
    assert [more[texts[key]] for key in ("pipedream most", "piper most")] == ["beyond"] * 2


def test_the_papers_seconds_have_its_ratios():
    """Table 3.1's own ratios in parentheses: 21.4, 9.2, 440.5 and 73.7, of rounded seconds."""
    paper = table1.PAPER
    dream = [a / b for m in paper.values() for a, b in zip(m["PipeDream"], m["GraphPipe"], strict=True)]
    piper = [a / b for a, b in zip(paper["mmt"]["Piper"], paper["mmt"]["GraphPipe"], strict=True)]
    assert (max(dream), min(dream)) == pytest.approx((21.4, 9.2), abs=0.06)
    assert (max(piper), min(piper)) == pytest.approx((440.5, 73.7), rel=0.002)


def test_the_case_study_counts_equal_stages_and_splits_the_gain():
    case, one = Case("candle-uno", 2, 4, 256, "small"), Setting(one_device=True)
    shared, number = shared_stages(case, one)
    assert shared <= number == len(plan_of(case.point("GraphPipe", one)).stages)
    claim = fig09._shared("one partition", (shared, number), why="")
    assert claim.value == shared
    assert claim.ours == f"{shared} of {number}"
    found = split(case, one)
    assert found["gain"] == pytest.approx(found["from_warm_up"] * found["from_microbatch"])
    assert (found["shared_stages"], found["stages"]) == (shared, number)
    assert VARIANTS["one device a stage"] == one


@pytest.mark.parametrize("name", NAMES)
def test_modules_have_what_figures_have(name: str):
    module = importlib.import_module(FIGURES[name].module)
    assert len({e.text for e in module.EXPECTED.values()}) == len(module.EXPECTED)
