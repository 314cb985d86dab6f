"""Times that vary: both engines draw alike, and steady times are what they are without a draw."""

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.spread import Spread
from meshwright.simulator.draws import draw
from meshwright.simulator.training import Link, Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.reference import run_reference
from meshwright.simulator.training.timing import prepared
from meshwright.simulator.training.varying.drawn import Drawn

SECONDS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 0.3])
QUANTILES = st.lists(st.floats(0.5, 3.0), min_size=1, max_size=4).map(lambda x: tuple(sorted(x)))
PATHS = st.lists(st.lists(st.floats(0.5, 2.0), min_size=5, max_size=5).map(tuple), min_size=1, max_size=3).map(tuple)


@st.composite
def spreads(draw_):
    kind = draw_(st.integers(0, 2))
    visits = draw_(QUANTILES)
    if kind == 0:
        return Spread(visits=visits)
    if kind == 1:
        return Spread(visits=visits, paths=draw_(PATHS), window_s=draw_(st.sampled_from([0.4, 1.0, 7.0])))
    return Spread(runs=draw_(QUANTILES), correlation_s=draw_(st.sampled_from([0.5, 20.0])))


@st.composite
def cases(draw_):
    schedule = draw_(st.sampled_from(["gpipe", "1f1b", "zb_h1"]))
    n, m = draw_(st.integers(1, 3)), draw_(st.integers(1, 4))
    program = make_program(schedule, n, m, tied=[[0, n - 1]] if n > 1 and draw_(st.booleans()) else [])
    kinds = [("forward", s, s + 1) for s in range(n - 1)] + [("backward", s + 1, s) for s in range(n - 1)]
    kinds += [("tied", a, b) for a, b in ((0, n - 1), (n - 1, 0)) if a != b]
    links = {
        pair: Link(draw_(SECONDS), draw_(SECONDS), (("out", pair[1]), ("in", pair[2])), draw_(SECONDS), draw_(SECONDS))
        for pair in kinds
    }
    passes = [[draw_(SECONDS) for _ in range(n)] for _ in range(5)]
    begin = [draw_(SECONDS) for _ in range(n)]
    timing = Timing(*passes, links=links, overlap=draw_(st.booleans()), begin_s=begin)
    seed, horizon = draw_(st.integers(0, 99)), 50.0
    streams = [tuple(draw_(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))) for _ in range(n)]
    drawn = Drawn(
        draw(draw_(spreads()), 4, horizon, seed, "p"), draw(draw_(spreads()), n, horizon, seed, "m"), tuple(streams),
        since_s=draw_(st.sampled_from([0.0, 3.7])), iteration=draw_(st.integers(0, 3)),
    )  # fmt: skip
    return program, prepared(program, timing), drawn


def same(a, b):
    for name in ("start", "finish", "sent", "arrived"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@settings(max_examples=examples(150, anew=500), deadline=None)
@given(cases())
def test_both_engines_draw_alike(case):
    program, costs, drawn = case
    fast, slow = run_compiled(program, costs, drawn), run_reference(program, costs, drawn)
    np.testing.assert_array_equal(fast.finish, slow.finish)
    np.testing.assert_array_equal(fast.start, slow.start)
    np.testing.assert_array_equal(fast.arrived, slow.arrived)
    np.testing.assert_allclose(fast.sent, slow.sent, rtol=1e-12, atol=1e-12)


@settings(max_examples=examples(60, anew=200), deadline=None)
@given(cases())
def test_factors_of_one_change_nothing(case):
    program, costs, drawn = case
    one = Drawn(draw(Spread(), 4, 1.0, 0), draw(Spread(), len(drawn.devices), 1.0, 0), drawn.devices)
    for run in (run_compiled, run_reference):
        same(run(program, costs, one), run(program, costs))


def test_by_hand():
    """Two devices hold the first mesh, one the second; the path doubles from second 2 on."""
    program = make_program("gpipe", 2, 1)
    costs = prepared(
        program,
        Timing([1.0, 1.0], [2.0, 2.0], links={("forward", 0, 1): Link(1.0, send_s=0.5)}, overlap=True),
    )
    passes = draw(Spread(paths=((1.0, 1.0), (1.5, 1.5), (1.0, 3.0)), window_s=2.5), 3, 5.0, 0)
    passes = type(passes)(2.5, np.array([[1.0, 1.0], [1.5, 1.5], [1.0, 3.0]]), passes.keys, passes.visits)
    drawn = Drawn(passes, draw(Spread(visits=(2.0,)), 2, 1.0, 0), ((0, 1), (2,)))
    times = run_compiled(program, costs, drawn)
    # F0 1.0 x 1.5, then a send of 0.5 x 1.5; the message leaves at 1.5 and takes 1.0 x 2; F1 starts at 3.5: x 3.
    assert times.finish[:2].tolist() == [1.5, 2.25]
    assert np.nanmin(times.arrived) == 3.5
    rows = program.columns.offsets[1]
    assert times.finish[rows : rows + 2].tolist() == [3.5, 6.5]


@pytest.mark.parametrize("devices", [((0,), ()), ((0,), (4,)), ((-1,), (0,))])
def test_streams_that_are_not_there(devices):
    with pytest.raises(InputError, match="streams"):
        Drawn(draw(Spread(), 4, 1.0, 0), draw(Spread(), 2, 1.0, 0), devices)


def test_messages_need_a_stream_for_each_mesh():
    with pytest.raises(InputError, match="2 streams of messages"):
        Drawn(draw(Spread(), 4, 1.0, 0), draw(Spread(), 1, 1.0, 0), ((0,), (1,)))
