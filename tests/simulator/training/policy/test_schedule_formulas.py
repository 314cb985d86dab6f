"""Schedules with equal stages: their bubbles and their memory are the formulas of the papers."""

import numpy as np
import pytest
from meshwright.seeds import generator
from meshwright.simulator.training import Link, Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.configuration.schedule import pipeline_time, vee_bubble
from meshwright.simulator.training.result.memory_timeline import in_flight
from meshwright.simulator.training.timing import prepared

SIZES = [(1, 1), (2, 2), (2, 9), (4, 4), (4, 8), (4, 31), (8, 8), (8, 32)]


def timed(program, forward=1.0, backward_input=1.0, backward_weight=1.0):
    timing = Timing(forward, backward_input, backward_weight)
    costs = prepared(program, timing)
    return costs, run_compiled(program, costs)


def span(program, times):
    """Longest time from a mesh's first computation to its end: what comes again every iteration (Qi et al., §2.3)."""
    rows = [np.arange(a, b) for a, b in zip(program.columns.offsets, program.columns.offsets[1:], strict=False)]
    computes = [r[times.finish[r] > times.start[r]] for r in rows]
    first = [r[np.isin(program.columns.op[r], (1, 4, 5))][0] for r in computes]
    return max(times.finish[r[-1]] - times.start[f] for r, f in zip(rows, first, strict=True))


@pytest.mark.parametrize(("p", "m"), SIZES)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("f", "b"), [(1.0, 2.0), (0.3, 0.7), (2.0, 1.0)])
def test_gpipe_and_1f1b_are_equation_2(schedule, p, m, f, b):
    """Σ t + (B − 1) max t, thus a bubble of (p − 1)/(m + p − 1)."""
    program = make_program(schedule, p, m)
    _, times = timed(program, f, b, 0.0)
    assert times.finish.max() == pytest.approx((m + p - 1) * (f + b))
    bubble = 1 - m * (f + b) / times.finish.max()
    assert bubble == pytest.approx((p - 1) / (m + p - 1))


@pytest.mark.parametrize(("p", "m"), [(2, 2), (2, 8), (4, 4), (4, 16), (8, 8), (8, 24)])
@pytest.mark.parametrize("v", [1, 2, 3])
def test_interleaving_divides_the_bubble(p, m, v):
    """Bubble over work is (p − 1)/(v m) (Narayanan et al. 2021, §2.2.2)."""
    program = make_program("interleaved_1f1b", p * v, m, n_meshes=p)
    _, times = timed(program, 1.0 / v, 2.0 / v, 0.0)
    assert times.finish.max() == pytest.approx(3 * m + 3 * (p - 1) / v)


@pytest.mark.parametrize(("p", "m"), [(p, m) for p, m in SIZES if m >= p])
def test_zero_bubble_h1_has_a_third_of_the_bubble(p, m):
    one = span(*_pair("1f1b", p, m)) - 3 * m
    h1 = span(*_pair("zb_h1", p, m)) - 3 * m
    assert one == pytest.approx(3 * (p - 1))
    assert h1 == pytest.approx(one / 3)


@pytest.mark.parametrize(
    ("p", "m"), [(1, 1), (2, 3), (2, 8), (4, 7), (4, 8), (8, 15), pytest.param(16, 64, marks=pytest.mark.slow)]
)
def test_zero_bubble_h2_and_v_have_none(p, m):
    """With m ≥ 2p − 1 microbatches (Qi et al. 2023, §2.2 and §6)."""
    assert span(*_pair("zb_h2", p, m)) == pytest.approx(3 * m)
    v = make_program("zb_v", 2 * p, m)
    assert span(v, timed(v)[1]) == pytest.approx(6 * m)


def _pair(schedule, p, m):
    program = make_program(schedule, p, m)
    return program, timed(program)[1]


@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 4), (4, 32), (8, 32)])
def test_activations_in_flight(p, m):
    assert in_flight(make_program("1f1b", p, m)).tolist() == [min(m, p - s) for s in range(p)]
    assert in_flight(make_program("gpipe", p, m)).tolist() == [m] * p
    assert in_flight(make_program("inference", p, m)).tolist() == [1] * p
    one = in_flight(make_program("1f1b", p, m)).max()
    assert in_flight(make_program("zb_h1", p, m)).max() == one  # memory as 1F1B's
    if m >= 2 * p - 1:
        assert in_flight(make_program("zb_h2", p, m)).tolist() == [2 * p - 1] * p  # twice 1F1B's, less one


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 32)])
def test_zero_bubble_v_keeps_as_much_as_1f1b(p, m):
    """Counted over time, for a mesh keeps most of one stage while it keeps less of the other: 2p halves."""
    program = make_program("zb_v", 2 * p, m)
    for mine in program.actions:
        live = most = 0
        for a in mine:
            live += (a.op == "F") - (a.op == "W")
            most = max(most, live)
        assert most == 2 * p


@pytest.mark.parametrize("seed", range(6))
def test_zero_bubble_v_with_unequal_passes(seed):
    """Its wait for a common end, of passes that take anything, is the longest of eight paths."""
    draw = generator(seed, "passes")
    p = int(draw.integers(2, 10))
    m = int(draw.integers(2 * p - 1, 4 * p))
    f, b, w = draw.uniform(0.2, 2.0, 3)
    _, times = timed(make_program("zb_v", 2 * p, m), f, b, w)
    assert times.finish.max() - 2 * m * (f + b + w) == pytest.approx(float(vee_bubble(p, f, b, w)), rel=1e-9)


@pytest.mark.parametrize(("p", "m"), [(2, 2), (4, 4), (4, 9), (6, 8), (8, 20)])
def test_dualpipe_is_shorter_than_its_report_says(p, m):
    """``(p / 2 - 1)(FB + B - 3W)`` holds back what either pass of a pair has until both are done (DeepSeek-V3, Table
    2); here it goes on at once. m microbatches of each direction, p + 1 kept."""
    draw = generator(p, "dualpipe")
    program = make_program("dualpipe", 2 * p, m)
    for _ in range(3):
        f, b, w = np.array([1.0, 1.0, 0.9]) * draw.uniform(0.9, 1.1, 3)
        _, times = timed(program, f, b, w)
        bubble = times.finish.max() - 2 * m * (f + b + w)
        report = (p / 2 - 1) * (f + 2 * (b + w) - 3 * w)
        assert -1e-9 <= bubble <= report + 1e-9
        assert bubble >= report - (p / 2 - 1) * b - 1e-9
    for mine in program.actions:
        later = {(a.stage, a.microbatch) for a in mine if a.op == "W"}
        ends = [a.op == "W" or (a.op == "B" and (a.stage, a.microbatch) not in later) for a in mine]
        assert max(np.cumsum([a.op == "F" for a in mine]) - np.cumsum([0, *ends[:-1]])) == p + 1


@pytest.mark.parametrize(("p", "m", "v"), [(2, 4, 2), (4, 8, 2), (4, 16, 3)])
def test_interleaving_keeps_more(p, m, v):
    """Mesh 0 keeps p v + p − 1 chunks at the least: its warm-up and the one after it."""
    program = make_program("interleaved_1f1b", p * v, m, n_meshes=p)
    live = np.cumsum([(a.op == "F") - (a.op == "B") for a in program.actions[0]]).max()
    assert live == min((v - 1) * p + 2 * (p - 1) + 1, m * v)


@pytest.mark.parametrize("seed", range(8))
def test_gpipe_with_unequal_stages(seed):
    """Two flow shops, one after the other: Σ f + (m − 1) max f, then the same of the backward passes."""
    draw = generator(seed, "stages")
    p, m = int(draw.integers(1, 7)), int(draw.integers(1, 20))
    f, b = draw.random(p), draw.random(p)
    _, times = timed(make_program("gpipe", p, m), f, b, 0.0)
    assert times.finish.max() == pytest.approx(sum(f) + (m - 1) * max(f) + sum(b) + (m - 1) * max(b))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("p", "v", "m"), [(2, 1, 16), (4, 1, 16), (8, 1, 32), (4, 2, 16), (4, 3, 16), (8, 4, 64)])
def test_messages_against_the_closed_form_of_estimates(p, v, m, overlap):
    """`pipeline_time` lets every stage wait for every exchange; the simulation hides those that fall into a bubble.

    Where interleaved schedules overlap their exchanges, both count the same: each hop of the first and last microbatch.
    """
    x = 0.02
    program = make_program("interleaved_1f1b" if v > 1 else "1f1b", p * v, m, n_meshes=p)
    hops = [("forward", s, s + 1) for s in range(p * v - 1)] + [("backward", s + 1, s) for s in range(p * v - 1)]
    links = {
        (what, a, b): Link(x, resources=(("out", program.mesh_of[a]), ("in", program.mesh_of[b])))
        for what, a, b in hops
    }
    timing = Timing(1.0 / v, 2.0 / v, links=links, overlap=overlap)
    seconds = run_compiled(program, prepared(program, timing)).finish.max()
    closed = float(pipeline_time(3.0, 0.0, 0.0, x, p, v, m, overlap=overlap).total)
    apart = 3 * m + 3 * (p - 1) / v
    if overlap and v > 1:
        assert seconds == pytest.approx(closed)
    else:
        assert apart < seconds <= closed + 1e-9
        assert seconds - apart >= 0.5 * (closed - apart)


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 16), (8, 32)])
@pytest.mark.parametrize("x", [0.0, 0.25, 0.75, 1.5])
def test_eager_1f1b_hides_messages(p, m, x):
    """Messages of up to half a forward and backward delay the first and last microbatch only; 1F1B waits for more."""
    links = {("forward", s, s + 1): Link(x) for s in range(p - 1)}
    links |= {("backward", s + 1, s): Link(x) for s in range(p - 1)}
    seconds = {}
    for schedule in ("1f1b", "eager_1f1b"):
        program = make_program(schedule, p, m)
        seconds[schedule] = run_compiled(
            program, prepared(program, Timing(1.0, 2.0, links=links, overlap=True))
        ).finish.max()
    assert seconds["eager_1f1b"] == pytest.approx((m + p - 1) * 3.0 + 2 * (p - 1) * x)
    assert seconds["1f1b"] >= seconds["eager_1f1b"] + (x if p > 2 else 0.0) - 1e-9
    assert in_flight(make_program("eager_1f1b", p, m)).tolist() == [min(m, 2 * (p - s) - 1) for s in range(p)]
