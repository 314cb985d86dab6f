"""The compiled engine and SimPy's agree on random programs; both keep the laws of the world."""

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from meshwright.simulator.training import Action, Link, Op, Program, Timing, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.program.kernels import SEND
from meshwright.simulator.training.reference import run_reference
from meshwright.simulator.training.result.memory_timeline import memory_timeline
from meshwright.simulator.training.timing import prepared
from random_programs import cases


@given(cases())
@settings(max_examples=examples(50, anew=150), deadline=None)
def test_both_engines_say_the_same(case):
    program, timing = case
    costs = prepared(program, timing)
    fast, slow = run_compiled(program, costs), run_reference(program, costs)
    for name in ("start", "finish", "sent", "arrived"):
        a, b = getattr(fast, name), getattr(slow, name)
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True), name


def rows(program):
    c = program.columns
    return [np.arange(a, b) for a, b in zip(c.offsets, c.offsets[1:], strict=False)]


@given(cases())
@settings(max_examples=examples(25, anew=75), deadline=None)
def test_laws(case):
    program, timing = case
    costs = prepared(program, timing)
    times = run_compiled(program, costs)
    c, messages = program.columns, costs.messages
    assert np.all(times.finish >= times.start)
    for mine in rows(program):  # one thing at a time, and all the time but while it waits
        assert np.array_equal(times.start[mine][1:], times.finish[mine][:-1])
    computes = costs.messages.kind == 0
    assert np.allclose((times.finish - times.start)[computes], costs.duration[computes])
    when = {}  # what is computed comes after what it needs
    for row in range(len(program)):
        a = program.action(row)
        when[str(a.op), a.stage, a.microbatch, a.peer] = times.start[row], times.finish[row]
    for (op, s, k, peer), (start, finish) in when.items():
        if op == "B":
            assert when["F", s, k, -1][1] <= start
        if op.startswith("RECV"):
            assert when[op.replace("RECV", "SEND"), peer, k, s][0] <= finish
    sends = np.flatnonzero(messages.kind == SEND)  # a link carries one message at a time, first asked first served
    users = {}
    for row in sends:
        pair = messages.pairs[messages.message[row] // messages.units]
        for resource in timing.links.get(pair, Link()).resources:
            users.setdefault(resource, []).append((times.start[row], c.mesh[row], row))
    for asked in users.values():
        order = [messages.message[row] for _, _, row in sorted(asked)]
        begin, end = times.sent[order], times.arrived[order]
        same = [x[0] for x in sorted(asked)]
        if len(set(same)) == len(same):
            assert np.all(begin[1:] >= end[:-1] - 1e-9)
    work = np.bincount(c.mesh, weights=np.where(computes, costs.duration, 0.0), minlength=program.n_meshes)
    assert np.all(work <= times.finish.max(initial=0.0) + 1e-9)
    n = program.n_stages
    memory = memory_timeline(program, times.start, times.finish, [1.0] * n, [2.0] * n, [4.0] * n, 10.0)
    for mesh, held in enumerate(memory.n_bytes):  # every activation is freed
        assert held[-1] == held[0] == program.mesh_of.count(mesh)


@pytest.mark.parametrize("overlap", [False, True])
def test_one_message_by_hand(overlap):
    """F 1 s, message 2 s, gather 0.5 s, F 1 s."""
    program = make_program("inference", 2, 2)
    timing = Timing(1.0, 1.0, links={("forward", 0, 1): Link(2.0, 0.5, ("wire",))}, overlap=overlap)
    for run in (run_compiled, run_reference):
        times = run(program, prepared(program, timing))
        ours = [(str(program.action(r)), times.start[r], times.finish[r]) for r in range(len(program))]
        if overlap:  # the sender goes on; its second message queues; gathers go beside computation
            assert ours == [
                ("F0.0", 0.0, 1.0),
                ("SEND_F0~1.0", 1.0, 1.0),
                ("F0.1", 1.0, 2.0),
                ("SEND_F0~1.1", 2.0, 2.0),
                ("RECV_F1~0.0", 0.0, 3.5),
                ("F1.0", 3.5, 4.5),
                ("RECV_F1~0.1", 4.5, 5.5),
                ("F1.1", 5.5, 6.5),
            ]
            assert times.sent[~np.isnan(times.sent)].tolist() == [1.0, 3.0]
        else:
            assert ours == [
                ("F0.0", 0.0, 1.0),
                ("SEND_F0~1.0", 1.0, 3.0),
                ("F0.1", 3.0, 4.0),
                ("SEND_F0~1.1", 4.0, 6.0),
                ("RECV_F1~0.0", 0.0, 3.5),
                ("F1.0", 3.5, 4.5),
                ("RECV_F1~0.1", 4.5, 6.5),
                ("F1.1", 6.5, 7.5),
            ]


@pytest.mark.parametrize("run", [run_compiled, run_reference])
def test_messages_that_share_an_adapter_queue(run):
    """Stages 0 and 1 hand stage 2 something at 1 s over one adapter: the lower mesh first."""
    program = make_program("inference", 3, 1, transfers=[(0, 2), (1, 2)])
    shared = {("forward", a, 2): Link(2.0 + a, resources=(("node in", 1),)) for a in (0, 1)}
    times = run(program, prepared(program, Timing(1.0, 1.0, links=shared)))
    assert times.finish.max() == 1 + 2 + 3 + 1
    assert sorted(times.arrived[~np.isnan(times.arrived)]) == [3.0, 6.0]
    apart = {("forward", a, 2): Link(2.0, resources=(("node in", a),)) for a in (0, 1)}
    assert run(program, prepared(program, Timing(1.0, 1.0, links=apart))).finish.max() == 1 + 2 + 1


@pytest.mark.parametrize("run", [run_compiled, run_reference])
def test_times_per_slice(run):
    """Slices of one microbatch, each with its own time (token slices)."""
    actions = [
        [Action(op, 0, 0, peer, k) for k in range(2) for op, peer in ((Op.F, -1), (Op.SEND_F, 1))],
        [Action(op, 1, 0, peer, k) for k in range(2) for op, peer in ((Op.RECV_F, 0), (Op.F, -1))],
    ]
    program = Program(actions, (0, 1), 1)
    times = run(program, prepared(program, Timing([[1.0, 2.0], [3.0, 5.0]], 0.0)))
    assert times.finish[-1] == 1 + 3 + 5
    assert [str(a) for a in program.actions[0]] == ["F0.0", "SEND_F0~1.0", "F0.0/1", "SEND_F0~1.0/1"]
