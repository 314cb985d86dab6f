"""The compiled engine and SimPy's agree on stage graphs with microbatches, orders and token slices of their own."""

import numpy as np
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.simulator.training import Link, Timing, Turns, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.program.checks import DeadlockError
from meshwright.simulator.training.program.columns import SEND_F
from meshwright.simulator.training.reference import run_reference
from meshwright.simulator.training.result.memory_timeline import in_flight, memory_timeline
from meshwright.simulator.training.timing import prepared

WHOLE = st.integers(0, 2).map(float)
ANY = st.floats(0.0, 2.0, allow_subnormal=False)


@st.composite
def graphs(draw):
    """Edges of a graph of stages in which every stage but the first has one before it."""
    n = draw(st.integers(1, 5))
    edges = {(draw(st.integers(0, s - 1)), s) for s in range(1, n)}
    for _ in range(draw(st.integers(0, 3)) if n > 1 else 0):
        b = draw(st.integers(1, n - 1))
        edges.add((draw(st.integers(0, b - 1)), b))
    return n, sorted(edges)


def runs(passes):
    """``FFB`` -> ``2F 1B``."""
    text, k = [], 0
    while k < len(passes):
        j = k
        while j < len(passes) and passes[j] == passes[k]:
            j += 1
        text.append(f"{j - k}{passes[k]}")
        k = j
    return " ".join(text)


def needed(number, mine, theirs):
    """Microbatches of a peer that must be done before mine of this number."""
    return (number + 1) * theirs // mine if theirs >= mine else number * theirs // mine + 1


@st.composite
def uneven(draw):
    """Stages of 1, 2, 4 or 8 microbatches: kFkB of Table 3.2, or any orders that end."""
    n, edges = draw(graphs())
    counts = draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=n, max_size=n))
    if draw(st.booleans()):
        k = draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=n, max_size=n))
        return make_program("kfkb", n, counts, turns=Turns(k=k), transfers=edges)
    done = {(s, op): 0 for s in range(n) for op in "FB"}
    orders = [""] * n
    while True:
        ready = []
        for s in range(n):
            f, b = done[s, "F"], done[s, "B"]
            before = [(a, "F", f) for a, t in edges if t == s]
            after = [(t, "B", b) for a, t in edges if a == s]
            if f < counts[s] and all(done[a, op] >= needed(f, counts[s], counts[a]) for a, op, _ in before):
                ready.append((s, "F"))
            if b < f and all(done[t, op] >= needed(b, counts[s], counts[t]) for t, op, _ in after):
                ready.append((s, "B"))
        if not ready:
            break
        s, op = draw(st.sampled_from(ready))
        orders[s] += op
        done[s, op] += 1
    assert all(done[s, op] == counts[s] for s, op in done)  # whatever is done first, it always ends
    return make_program("explicit", n, counts, turns=Turns(order=[runs(o) for o in orders]), transfers=edges)


@st.composite
def sliced(draw):
    n, edges = draw(graphs())
    slices = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return make_program(
        draw(st.sampled_from(["terapipe", "terapipe_1f1b"])), n, len(slices), slices=slices, transfers=edges
    )


@st.composite
def timings(draw, program):
    n, m, width = program.n_stages, program.microbatches, 1 + int(program.columns.slice.max(initial=0))
    seconds = draw(st.sampled_from([WHOLE, ANY]))

    def table(*shape):
        return np.array(draw(st.lists(seconds, min_size=(size := int(np.prod(shape))), max_size=size))).reshape(shape)

    shape = draw(st.sampled_from([(n,), (n, width), (n, m, width), (1, m, width)]))
    links = {}
    for what in ("forward", "backward"):
        for a in range(n):
            for b in range(n):
                if a != b and draw(st.booleans()):
                    own = (("out", program.mesh_of[a]), ("in", program.mesh_of[b]))
                    shared = tuple(draw(st.sets(st.sampled_from("pqr"), max_size=2)))
                    each = draw(st.booleans())
                    times = [table(m, width) if each else draw(seconds) for _ in range(2)]
                    links[what, a, b] = Link(*times, own + shared)
    return Timing(table(*shape), table(*shape), 0.0, table(n), table(n), links, draw(st.booleans()))


@st.composite
def cases(draw):
    program = draw(st.one_of(uneven(), sliced()))
    return program, draw(timings(program))


@given(cases())
@settings(max_examples=examples(60, anew=200), deadline=None)
def test_both_engines_say_the_same(case):
    program, timing = case
    costs = prepared(program, timing)
    fast, slow = run_compiled(program, costs), run_reference(program, costs)
    for name in ("start", "finish", "sent", "arrived"):
        a, b = getattr(fast, name), getattr(slow, name)
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True), name


@given(cases())
@settings(max_examples=examples(25, anew=75), deadline=None)
def test_laws(case):
    """Samples, not microbatches, decide: a pass begins when every sample of it has come from every source."""
    program, timing = case
    costs = prepared(program, timing)
    times = run_compiled(program, costs)
    when = {}
    for row in range(len(program)):
        a = program.action(row)
        when[str(a.op), a.stage, a.microbatch, a.slice, a.peer] = times.start[row], times.finish[row]
    counts = program.microbatches_of
    sends = {(op, s, peer) for op, s, _, _, peer in when if op.startswith("SEND")}
    for op, source, target in sends:
        way = op[-1]
        for (o, s, k, piece, _), (start, _) in when.items():
            if o == way and s == target:
                first = k * counts[source] // counts[target]
                for j in range(first, needed(k, counts[target], counts[source])):
                    assert when[way, source, j, piece, -1][1] <= start + 1e-9
    for (o, s, k, piece, _), (start, _) in when.items():
        if o == "B":
            assert when["F", s, k, piece, -1][1] <= start
            if ("B", s, k, piece + 1, -1) in when:  # gradients of keys and values come from later slices
                assert when["B", s, k, piece + 1, -1][1] <= start
        if o == "F" and piece:
            assert when["F", s, k, piece - 1, -1][1] <= start
    n = program.n_stages
    memory = memory_timeline(program, times.start, times.finish, [1.0] * n, [2.0] * n, [4.0] * n, 10.0)
    assert [held[-1] for held in memory.n_bytes] == [1.0] * n  # every activation is freed
    assert np.all(memory.peak == 1.0 + 2.0 * in_flight(program) + 4.0)


@given(uneven(), st.randoms(use_true_random=False))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_any_order_ends_or_names_who_waits(program, random):
    """Orders drawn stage by stage: either they end, in both engines, or one error says who waits for whom."""
    n, counts = program.n_stages, program.microbatches_of
    c = program.columns
    edges = np.unique(np.column_stack((c.stage, c.peer))[c.op == SEND_F], axis=0).tolist()
    orders = []
    for count in counts:
        left, order, balance = {"F": count, "B": count}, "", 0
        while left["F"] or left["B"]:
            op = "F" if left["F"] and (balance == 0 or random.random() < 0.5) else "B"
            left[op] -= 1
            balance += 1 if op == "F" else -1
            order += op
        orders.append(runs(order))
    try:
        drawn = make_program("explicit", n, counts, turns=Turns(order=orders), transfers=[(a, b) for a, b in edges])
    except DeadlockError as error:
        said = str(error)
        assert "(stage " in said and said.count("waits at RECV_") >= 2  # noqa: PT018
        return
    costs = prepared(drawn, Timing([1.0] * n, 1.0))
    assert run_compiled(drawn, costs).finish.max() == run_reference(drawn, costs).finish.max()
