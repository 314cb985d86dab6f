"""What GraphPipe's lead hinges on: settings, sweeps and swings, and the searches as they are printed."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from meshwright.errors import InputError
from meshwright.planners.graphpipe.tree import chain_of
from meshwright.reproduce.graphpipe.counted import counted, counts_in_words, moved, piper_stages, task_of
from meshwright.reproduce.graphpipe.lead import Case, Lead
from meshwright.reproduce.graphpipe.printed import EPSILON, graphpipe_loops, pipedream_loops
from meshwright.reproduce.graphpipe.setting import SUMMIT, Setting
from meshwright.reproduce.graphpipe.spared import differences, spared
from meshwright.reproduce.graphpipe.sweeps import AXES, crossings, draw_sweep, leads, sweeps
from meshwright.reproduce.graphpipe.swings import sensitivity
from meshwright.reproduce.graphpipe.systems import graph_of
from meshwright.reproduce.style import canvas

NAN = math.nan


def swept_leads(*found: float) -> pd.DataFrame:
    """GraphPipe's lead at the first values of every axis, one case."""
    rows = [
        {"case": "toy", "axis": axis.field, "value": axis.values[k], "system": s,
         "samples_per_s": x if s == "GraphPipe" else 1.0}
        for axis in AXES.values() for k, x in enumerate(found) for s in ("GraphPipe", "PipeDream")
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_where_an_assumption_gives_the_papers_lead():
    swept = swept_leads(1.1, 1.3, 1.7)
    assert crossings(swept, 1.61) == (
        "memory of a GPU: toy 6 to 3 GiB; host time of a pass: toy 100 to 200 µs; half of a product's speed at: "
        "toy 64 to 128 rows"
    )
    assert "toy nowhere, 1.30× at most" in crossings(swept_leads(1.1, 1.3, NAN), 1.61)
    assert dict(leads(swept, "host_s"))["toy"] == {0.0: 1.1, 1e-4: 1.3, 2e-4: 1.7}
    with canvas() as (_, axes):
        (line, paper, _) = draw_sweep(swept, axes[0, 0], AXES["usable_gib"], 1.61).lines
        assert list(line.get_ydata()) == [1.1, 1.3, 1.7]
        assert set(paper.get_ydata()) == {1.61}


def test_sweeps_and_swings_are_points_in_settings():
    case = Case("candle-uno", 2, 2, 8, "small")
    lead = Lead("small", 1.5, (case,))
    frame = sweeps(lead, fast=True)
    for axis in AXES.values():
        found = dict(leads(frame, axis.field))["small"]
        assert found[axis.values[0]] == pytest.approx(lead.at(Setting()))
        assert list(found) == [v for v in axis.of(fast=True) if v in found]
    result = sensitivity(lead, 0.1, frame)
    assert result.ours == pytest.approx(lead.at(Setting()))
    swings = {s.assumption.split(",")[0]: s for s in result.swings}
    assert math.isnan(swings["memory of a GPU"].at_low)  # not even the weights of a layer fit
    assert swings["data parallelism"].at_low == pytest.approx(lead.at(Setting(one_device=True)))
    assert swings["host time of a pass"].at_high == pytest.approx(lead.at(Setting(host_s=AXES["host_s"].values[3])))


def test_settings_change_what_they_say():
    spec = Setting(usable_gib=2.0, network=0.5).cluster(8).spec
    assert (spec.memory_bytes, spec.inter_node.bandwidth_bytes_per_s) == (2 * 2**30, 6.25e9)
    graph = graph_of("candle-uno", 2).with_batch(8)
    plain, slow = (Setting(host_s=s).costs(SUMMIT) for s in (0.0, 1e-3))
    added = sum(slow.times(op, {}).total_s - plain.times(op, {}).total_s for op in graph.operators)
    kernels = 2 * 4 + 1 + 1  # the layers of two branches, the head, the loss: forward and backward each
    assert added == pytest.approx(2 * kernels * 1e-3)
    for wrong in ({"usable_gib": 0.0}, {"network": -1.0}, {"host_s": -1.0}, {"half_rows": -1.0}):
        with pytest.raises(InputError, match="setting"):
            Setting(**wrong)


def test_products_with_few_rows_are_slower():
    """rows / (rows + half_rows) of the speed: with 8 rows and half_rows 8, twice the seconds; the rest stays."""
    graph = graph_of("candle-uno", 2).with_batch(8)
    plain, slow = Setting().costs(SUMMIT), Setting(half_rows=8.0).costs(SUMMIT)
    for op in graph.operators:
        ratio = 2.0 if op.kind == "contraction" else 1.0
        assert slow.times(op, {}).total_s == pytest.approx(ratio * plain.times(op, {}).total_s)
    scores = [op for op in graph_of("case-study-3-7-4", 2).operators if op.name.endswith("scores")]
    assert scores  # a product for each sample and head: more samples do not make it larger
    assert all(slow.times(op, {}) == plain.times(op, {}) for op in scores)


def test_level_by_level_interleaves_the_branches():
    graph = graph_of("candle-uno", 2)
    turned = Setting(by_level=True).ordered(graph)
    assert Setting().ordered(graph) is graph
    assert {op.name for op in turned.operators} == {op.name for op in graph.operators}
    products = [op.name for op in turned.operators if op.kind == "contraction"]
    assert products == [*(f"branches.{b}.layers.{k}" for k in range(4) for b in range(2)), "head"]


def test_the_printed_loops_find_the_least_bottleneck():
    """On one line both are the same search: PipeDream's recurrence, and Algorithm 2 but for its ε."""
    task = task_of("mmt", 4)
    costs, line, room = task.costs, chain_of(task.costs.n_units), 2.0**40
    chain, mine = pipedream_loops(costs, 16, room, 4), graphpipe_loops(line, costs, 16, room, 4)
    assert chain.tps <= mine.tps <= chain.tps * (1 + 2 * EPSILON)
    n = costs.n_units
    assert chain.tried == n * (n + 1) // 2 * (1 + 2 + 3 + 4)
    groups, one = (graphpipe_loops(task.tree, costs, 16, room, 4, apart) for apart in ("groups", "one"))
    assert groups.tps <= one.tps * (1 + 2 * EPSILON)  # more ways of parting branches: at least as good
    assert one.tried <= groups.tried < mine.tried
    assert pipedream_loops(costs, 16, 1.0, 4).tps == math.inf
    assert graphpipe_loops(task.tree, costs, 16, 1.0, 4).tps == math.inf


def test_what_is_counted():
    frame = counted((4,), models=("mmt",))
    row = frame.iloc[0]
    assert row.pipedream_stages == 17 * 18 // 2  # two branches of eight layers and a head
    # 81 downsets hold the head. Of a branch's nine states 45 pairs are in order: 45² pairs of downsets, less 81 that
    # are no stage; and 81 stages that end with the head.
    assert piper_stages(task_of("mmt", 4)) == row.piper_stages == 45**2 - 81 + 81
    words = counts_in_words(frame)
    assert "one branch at a time" in words
    found = moved(frame, 1.0, 21.4)
    assert found.paper == 21.4
    assert all(math.isfinite(s.at_low) and math.isfinite(s.at_high) for s in found.swings)


def test_stages_that_our_piper_spares():
    """A branch of four layers has 15 nested pairs of downsets, equal ones among them; listed, they are as many."""
    found = spared("candle-uno", 4, 3)
    assert found.all == differences(3, 4) == 15**3
    assert found.both < min(found.alike, found.fast)
    assert max(found.alike, found.fast) < found.all
    assert "170,859,375: 18 GiB" in found.told("it", 7, differences(7, 4))


def test_the_baselines_try_ties():
    assert Setting().ties == 4
    case = Case("candle-uno", 2, 2, 8, "small")
    lead = Lead("small", 1.5, (case,))
    assert lead.at(Setting()) <= lead.at(Setting(ties=1))
