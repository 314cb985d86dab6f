"""How Alpa's figures are judged and drawn, on made-up points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest
from meshwright.reproduce.alpa import fig07, fig09, fig10, fig11, swings, table5
from meshwright.reproduce.alpa.clock import Clock
from meshwright.reproduce.alpa.fig12 import agreeing
from meshwright.reproduce.alpa.picture import Cut, Layer
from meshwright.reproduce.alpa.swings import needed
from meshwright.reproduce.alpa.systems import AS_SAID
from meshwright.reproduce.alpa.tolerance import scaling, speedup
from meshwright.reproduce.bars import bars, linear
from meshwright.reproduce.sensitivity import Swing
from meshwright.reproduce.style import canvas

if TYPE_CHECKING:
    from meshwright.simulator.training.plan.file import TrainingPlan

NAN = math.nan


def points(family: str = "moe") -> pd.DataFrame:
    rows = [
        (1, "Alpa", 1.0), (4, "Alpa", 4.0), (16, "Alpa", 14.0),
        (1, "DeepSpeed", 1.0), (4, "DeepSpeed", 3.0), (16, "DeepSpeed", 4.0),
        (1, "Inter-op only", 1.0), (4, "Inter-op only", 2.0), (16, "Inter-op only", NAN),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["gpus", "system", "pflops"]).assign(family=family)


def test_ratios_leave_out_what_the_other_cannot_train():
    assert fig07.ratio(points(), "moe", "Alpa", "DeepSpeed") == pytest.approx({1: 1.0, 4: 4 / 3, 16: 3.5})
    assert fig07.ratio(points(), "moe", "Alpa", "Inter-op only") == pytest.approx({1: 1.0, 4: 2.0})
    assert fig07.ratio(points(), "moe", "Inter-op only", "Alpa")[16] == 0.0


def test_scaling_and_memory():
    assert fig07.per_gpu(points(), "moe", "Alpa", 16) == pytest.approx(14 / 16)
    assert fig07.out_of_memory(points(), "moe", "Inter-op only", (4, 16)) == 1
    assert linear(points(), "Alpa") == {1: 1.0, 4: 4.0, 16: 16.0}
    assert linear(points()[lambda x: x.gpus > 1].assign(pflops=NAN), "Alpa") == {}


def test_bars_mark_what_runs_out_of_memory():
    with canvas() as (_, axes):
        ax = bars(points(), axes[0, 0], {"Alpa": "blue", "Inter-op only": "green"}, ideal=linear(points(), "Alpa"))
        heights = sorted(p.get_height() for p in ax.patches)
        assert heights == [0.0, 1.0, 1.0, 2.0, 4.0, 14.0]
        assert [t.get_text() for t in ax.texts] == ["×"]
        assert max(max(line.get_ydata()) for line in ax.lines) == 16.0


def test_verdicts_of_the_stage_ablation():
    rows = [
        ("gpt", 1, 1.0, 1.0, 1.0), ("gpt", 4, 4.0, 3.9, 4.0), ("gpt", 32, 32.0, NAN, 31.0),
        ("resnet", 4, 4.0, 2.0, 3.0), ("resnet", 32, 26.0, 10.0, NAN), ("resnet", 1, 1.0, 1.0, 1.0),
    ]  # fmt: skip
    names = ("Alpa", "Equal operator", "Equal layer")
    frame = pd.DataFrame(
        [(f, n, s, v) for f, n, *values in rows for s, v in zip(names, values, strict=True)],
        columns=["family", "gpus", "system", "pflops"],
    )
    found = {c.text: (round(c.value, 3), c.verdict) for c in fig09.judged(frame)}
    assert found[fig09.EXPECTED["operator"].text] == (2.6, "holds")
    layer = next(c for c in fig09.judged(frame) if c.text == fig09.EXPECTED["layer"].text)
    assert math.isnan(layer.value)  # the paper's equal layers fit
    assert (layer.ours, layer.verdict) == ("Equal layer runs out of memory", "does not hold")
    assert found[fig09.EXPECTED["always"].text] == (2.0, "holds")
    assert found[fig09.EXPECTED["gpt"].text] == (0.969, "partly")  # the farthest from 1
    assert found[fig09.EXPECTED["gpt always"].text] == (1.026, "holds")  # on 32 it is not planned


def test_the_all_gather_is_held_against_the_naive_sender():
    seconds = {"signal send/recv": 1.0, "w/o local all-gather": 2.2, "w/o, senders balanced": 1.5,
               "w/ local all-gather": 1.1}  # fmt: skip
    frame = pd.DataFrame([{"gpus": 32, "system": name, "pflops": 1 / s} for name, s in seconds.items()])
    assert set(seconds) == set(fig11.RESHARDINGS)
    speedup, satisfactory, never = fig11.judged(frame)
    assert (speedup.value, speedup.verdict) == (pytest.approx(2.0), "holds")
    assert satisfactory.value == pytest.approx(1 / 1.1)
    assert never.value == pytest.approx(2.0)


def test_what_an_end_of_a_swing_must_pass():
    swings = (Swing("a", "low", "high", 1.5, 3.6), Swing("b", "low", "high", math.nan, 3.4))
    assert needed(3.5, 2.0, swings) == "past the paper's figure: a: high (3.60)"
    assert needed(1.7, 2.0, swings) == "past the paper's figure: a: low (1.50)"
    assert needed(4.0, 2.0, swings).startswith("none")


def test_pieces_of_a_cut_go_to_the_devices_that_the_mesh_says():
    both = Cut(rows=(0,), columns=(1,))
    assert both.pieces((2, 4)) == (2, 4)
    assert [both.piece((2, 4), d) for d in range(8)] == [(r, c) for r in range(2) for c in range(4)]
    twice = Cut(rows=(0, 1), columns=())
    assert [twice.piece((2, 2), d)[0] for d in range(4)] == [0, 1, 2, 3]
    swapped = Cut(rows=(1, 0), columns=())
    assert [swapped.piece((2, 2), d)[0] for d in range(4)] == [0, 2, 1, 3]
    assert [Cut((), ()).kind, twice.kind, Cut((), (1,)).kind, both.kind] == ["replicated", "batch", "hidden", "both"]


def test_agreement_with_one_switch():
    batch, hidden = Cut((0, 1), ()), Cut((), (0, 1))
    early, late = Layer("a", 0, batch, Cut((), ())), Layer("b", 0, hidden, hidden)
    assert agreeing((early, early, early, late)) == 1.0
    assert agreeing((early, late, early, late)) == 0.75
    assert agreeing((early, early)) == 0.0


def test_one_width_for_all_speedups():
    rule = speedup(1.6)
    assert [rule(x) for x in (1.1, 1.16, 1.29, 1.31, 1.89, 1.91, math.nan)] == [
        "does not hold", "partly", "partly", "holds", "holds", "beyond", "does not hold",
    ]  # fmt: skip
    large = speedup(9.7)
    assert [large(x) for x in (3.8, 3.9, 6.8, 12.6, 12.7)] == ["does not hold", "partly", "holds", "holds", "beyond"]
    assert [scaling(0.85, 0.7)(x) for x in (0.69, 0.71, 0.86, 1.14, 1.16)] == [
        "does not hold", "partly", "holds", "holds", "beyond",
    ]  # fmt: skip


def test_seconds_that_are_not_of_the_same_work_are_not_counted():
    kinds = {e.text: e.kind for e in (*table5.EXPECTED.values(), *fig10.EXPECTED.values())}
    clock = Clock(pricing_s=8.0, solving_s=80.0, dp_s=1.5, rest_s=0.5, plan=cast("TrainingPlan", None))
    found = {c.text: c for c in table5.judged(clock, fast=False)}
    assert found[table5.EXPECTED["pricing"].text].value == pytest.approx(0.8)  # exact solving is no step of theirs
    assert found[table5.EXPECTED["dp"].text].verdict == "holds"
    assert found[table5.EXPECTED["other"].text].verdict == "beyond"
    assert [kinds[e.text] for e in (table5.EXPECTED["total"], fig10.EXPECTED["faster"])] == ["identity"] * 2
    assert len(table5.judged(clock, fast=True)) == 1


def measured(
    family: str, system: str, gpus: int, assumed: Any = AS_SAID, counts: tuple[int, ...] = ()
) -> dict[str, Any]:
    """A made-up point: equal operators take 2 s where convolutions are as said, 4 s where small ones are slow."""
    slow = assumed.shares.small < 0.5
    seconds = {"Equal operator": 4.0 if slow else 2.0, "DeepSpeed": 3.0 / assumed.deepspeed.all_to_all}.get(system, 1.0)
    count = counts[0] if counts else 16
    return {"family": family, "system": system, "gpus": gpus, "seconds": seconds, "pflops": 1 / seconds,
            "microbatches": count}  # fmt: skip


def test_each_assumption_is_moved_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(swings, "measure", measured)
    found = swings.stage_lead(2.6, "Equal operator", 32, (32,))
    assert found.ours == 2.0
    moved = {s.assumption.split(",")[0]: (s.at_low, s.at_high) for s in found.swings}
    assert moved["share of the peak of convolutions"] == (2.0, 4.0)
    assert moved["memory that plans may fill"] == (2.0, 2.0)
    assert found.needed.startswith("past the paper's figure: share of the peak of convolutions: 0.35 at sides up to 7")
    moe = swings.moe_lead(9.7, 32)
    assert moe.ours == 3.0
    assert {(s.at_low, s.at_high) for s in moe.swings} == {(3.0, 3.0), (6.0, 24.0)}
    assert len(swings.moe_lead(9.7, 32, fast={"Alpa": (64,), "DeepSpeed": (8,)}).swings) == len(moe.swings) - 2


def test_gpts_equal_operator_has_the_microbatches_that_dp_chose(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, ...]] = []

    def measure_all(families: Any, sizes: Any, _: Any, *, systems: Any, counts: Any = None) -> pd.DataFrame:
        asked.append((families, sizes, systems, dict(counts or {})))
        return pd.DataFrame([measured(f, s, n) for f in families for n in sizes for s in systems])

    monkeypatch.setattr(fig09, "measure_all", measure_all)
    frame = fig09.points(fast=False)
    assert asked[-1] == (("gpt",), (1, 4, 8, 16), ("Equal operator",), dict.fromkeys((1, 4, 8, 16), (16,)))
    assert {c.text for c in fig09.judged(frame)} == {e.text for e in fig09.EXPECTED.values()}
    fast = fig09.points(fast=True)
    assert set(zip(fast.family, fast.gpus, strict=True)) == {("gpt", 16), ("resnet", 32)}
    assert fig09.EXPECTED["gpt always"].text not in {c.text for c in fig09.judged(fast)}
