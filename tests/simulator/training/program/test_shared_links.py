"""Links that are shared: both engines agree, and both keep the laws of flows."""

import math

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.training import Link, Op, Timing, make_program
from meshwright.simulator.training.fluid import compiled, reference
from meshwright.simulator.training.fluid.loads import Loads, loaded
from meshwright.simulator.training.fluid.rates import fair_rates
from meshwright.simulator.training.timing import prepared
from random_programs import cases

ENGINES = [compiled.run_compiled, reference.run_reference]
SHARES = st.one_of(st.sampled_from([0.25, 0.5, 1.0]), st.floats(0.01, 1.0))
USES = st.dictionaries(st.sampled_from("pqrs"), SHARES, max_size=3)


@st.composite
def loads(draw, program):
    n = program.n_stages
    passes = {(op, s): draw(USES) for op in (Op.F, Op.B, Op.W, Op.REDUCE, Op.UPDATE) for s in range(n)}
    pairs = [(kind, a, b) for kind in ("forward", "backward", "tied") for a in range(n) for b in range(n) if a != b]
    return Loads(passes, {pair: draw(USES) for pair in pairs}, draw(st.integers(0, 3)))


@st.composite
def loaded_cases(draw):
    program, timing = draw(cases())
    return program, timing, draw(loads(program))


def both(program, timing, load):
    costs = prepared(program, timing)
    arrays = loaded(program, costs, load)
    return costs, arrays, [run(program, costs, arrays) for run in ENGINES]


@given(loaded_cases())
@settings(max_examples=examples(30, anew=300), deadline=None)
def test_both_engines_say_the_same(case):
    _, _, (fast, slow) = both(*case)
    for name in ("start", "finish", "sent", "arrived"):
        a, b = getattr(fast, name), getattr(slow, name)
        assert np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True), name


@given(loaded_cases())
@settings(max_examples=examples(15, anew=100), deadline=None)
def test_laws_of_flows(case):
    """Nothing is faster than alone; no link carries more than it can; unshared links make no difference."""
    program, timing, load = case
    costs, arrays, (times, _) = both(program, timing, load)
    end = max(times.finish.max(initial=0.0), np.nan_to_num(times.arrived).max(initial=0.0))
    took, alone = times.finish - times.start, costs.duration
    computes = costs.messages.kind == 0
    reduces = np.isin(np.arange(len(program)), arrays.reduces[arrays.buckets > 0])
    assert np.all(took[computes & ~reduces] >= alone[computes & ~reduces] - 1e-9)
    used = np.flatnonzero(~np.isnan(times.sent))
    flight = times.arrived[used] - times.sent[used]
    assert np.all(flight >= costs.sending_s(used) - 1e-9)
    carried = np.zeros(arrays.n_links)
    for row in np.flatnonzero(computes):
        for link, share in arrays.use(int(arrays.of_row[row])).items():
            carried[link] += share * alone[row]
    first = len(arrays.links) - len(costs.messages.pairs)
    for m in used:
        for link, share in arrays.use(first + int(m) // costs.messages.units).items():
            carried[link] += share * float(costs.sending_s(np.array([m]))[0])
    assert np.all(carried <= end + 1e-9 * (1 + len(program)))
    free = both(program, timing, Loads(buckets=load.buckets))[2][0]
    for name in ("start", "finish"):  # sends never wait, so that every time is a maximum of sums of what things take
        assert np.all(getattr(times, name) >= getattr(free, name) - 1e-9)


@given(st.lists(USES, max_size=6))
@settings(max_examples=examples(40, anew=500), deadline=None)
def test_rates_are_fair(uses):
    """Feasible, and every flow that is held back crosses a full link on which none goes faster (max-min)."""
    rates = fair_rates(uses)
    asked = {}
    for use, rate in zip(uses, rates, strict=True):
        assert 0.0 < rate <= 1.0
        for link, share in use.items():
            asked[link] = asked.get(link, 0.0) + share * rate
    assert all(x <= 1.0 + 1e-8 for x in asked.values())
    for use, rate in zip(uses, rates, strict=True):
        if rate < 1.0:
            full = [link for link in use if asked[link] >= 1.0 - 1e-8]
            assert any(all(r <= rate + 1e-8 for u, r in zip(uses, rates, strict=True) if link in u) for link in full)


@pytest.mark.parametrize("run", ENGINES)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_equal_messages_on_one_card_take_so_many_times_as_long(run, count):
    """Stages 0 … count − 1 hand the last one something at 1 s, over one network card: 2 s alone."""
    program = make_program("inference", count + 1, 1, transfers=[(s, count) for s in range(count)])
    pairs = [("forward", s, count) for s in range(count)]
    costs = prepared(program, Timing(1.0, 1.0, links={pair: Link(2.0) for pair in pairs}))
    times = run(program, costs, loaded(program, costs, Loads(messages={pair: {"card": 1.0} for pair in pairs})))
    assert times.arrived[~np.isnan(times.arrived)] == pytest.approx([1.0 + 2.0 * count] * count)
    apart = Loads(messages={pair: {("card", k): 1.0} for k, pair in enumerate(pairs)})
    times = run(program, costs, loaded(program, costs, apart))
    assert times.arrived[~np.isnan(times.arrived)] == pytest.approx([3.0] * count)


@pytest.mark.parametrize("run", ENGINES)
@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_a_message_beside_a_pass_with_collectives(run, share):
    """A pass whose collectives take a share u of the card's time, and a message: both at 1/(1 + u).

    So it is too where a pass computes for 1 − u of its time and then communicates, by turns, each getting half of the
    card while both want it: the pass takes (1 − u) + 2 u.
    """
    program = make_program("inference", 2, 2)
    costs = prepared(program, Timing([4.0, 0.0], 0.0, links={("forward", 0, 1): Link(2.0)}, overlap=True))
    load = Loads({(Op.F, 0): {"card": share}}, {("forward", 0, 1): {"card": 1.0}})
    times = run(program, costs, loaded(program, costs, load))
    first = 4.0 + 2.0 * (1 + share)  # the second pass begins with the message, and is still there when that is through
    assert times.arrived[~np.isnan(times.arrived)][0] == pytest.approx(first)
    done = [times.finish[r] for r in range(len(program)) if str(program.action(r)) == "F0.1"]
    assert done == pytest.approx([first + 4.0 - 2.0])


@pytest.mark.parametrize("run", ENGINES)
def test_a_flow_is_as_fast_as_its_fullest_link(run):
    """Max-min: three flows, a over x and y, b over x, c over y and twice: by hand."""
    assert fair_rates([{"x": 1.0, "y": 1.0}, {"x": 1.0}, {"y": 1.0}, {"y": 1.0}]) == pytest.approx(
        [1 / 3, 2 / 3, 1 / 3, 1 / 3]
    )
    program = make_program("inference", 5, 1, transfers=[(s, 4) for s in range(4)])
    ways = ({"x": 1.0, "y": 1.0}, {"x": 1.0}, {"y": 1.0}, {"y": 1.0})
    load = Loads(messages={("forward", s, 4): way for s, way in enumerate(ways)})
    links = {("forward", s, 4): Link(1.0) for s in range(4)}
    costs = prepared(program, Timing(0.0, 0.0, links=links))
    times = run(program, costs, loaded(program, costs, load))
    assert sorted(times.arrived[~np.isnan(times.arrived)]) == pytest.approx([1.5, 3.0, 3.0, 3.0])


@pytest.mark.parametrize("run", ENGINES)
def test_shared_may_be_faster_than_one_after_another(run):
    """A short message behind a long one waits for all of it where links are apart, and for its own length here: no
    order of the two modes holds for all plans."""
    program = make_program("inference", 3, 1, transfers=[(0, 1), (0, 2)])
    links = {("forward", 0, 1): Link(10.0, resources=("card",)), ("forward", 0, 2): Link(1.0, resources=("card",))}
    costs = prepared(program, Timing([0.0, 0.0, 5.0], 0.0, links=links, overlap=True))
    load = Loads(messages={pair: {"card": 1.0} for pair in links})
    from meshwright.simulator.training.compiled import run_compiled

    assert run_compiled(program, costs).finish.max() == 16.0
    assert run(program, costs, loaded(program, costs, load)).finish.max() == pytest.approx(11.0)  # 2 s, then 5 s; 11 s


@pytest.mark.parametrize("run", ENGINES)
@pytest.mark.parametrize("buckets", [1, 2, 4, 8])
@pytest.mark.parametrize("reduce_s", [0.5, 8.0])
def test_gradients_are_reduced_beside_the_last_backward(run, buckets, reduce_s):
    """Bucket k is ready after k parts of the last backward pass, and follows the one before it."""
    program = make_program("1f1b", 1, 3)
    costs = prepared(program, Timing(1.0, 2.0, reduce_s=reduce_s, update_s=0.25))
    times = run(program, costs, loaded(program, costs, Loads(buckets=buckets)))
    begun, free = 3 * 3.0 - 2.0, 0.0
    for k in range(buckets):
        free = max(free, begun + 2.0 * (k + 1) / buckets) + reduce_s / buckets
    assert times.finish.max() == pytest.approx(free + 0.25)
    after = run(program, costs, loaded(program, costs, Loads()))
    assert after.finish.max() == pytest.approx(9.0 + reduce_s + 0.25)


@pytest.mark.parametrize("run", ENGINES)
def test_buckets_share_the_card_with_the_pass(run):
    """Half of the pass's time is collectives over the card that buckets need: rates 1/1.5 while both are there."""
    program = make_program("1f1b", 1, 1)
    costs = prepared(program, Timing(0.0, 2.0, reduce_s=2.0))
    load = Loads({(Op.B, 0): {"card": 0.5}, (Op.REDUCE, 0): {"card": 1.0}}, buckets=2)
    times = run(program, costs, loaded(program, costs, load))
    # 1 s alone; then the pass's other second beside a bucket of 1 s, both 1.5 s; then the second bucket
    assert times.finish.max() == pytest.approx(1.0 + 1.5 + 1.0)


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0, math.nan])
def test_shares_are_checked(share):
    with pytest.raises(InputError, match=r"expected a share in \(0, 1\]"):
        Loads({(Op.F, 0): {"card": share}})
    with pytest.raises(InputError, match="buckets"):
        Loads(buckets=-1)
    with pytest.raises(InputError, match="expected F, B, W, REDUCE or UPDATE"):
        Loads({(Op.SEND_F, 0): {}})
