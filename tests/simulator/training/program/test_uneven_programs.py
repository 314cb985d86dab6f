"""Stages with microbatches of their own: who waits for which message, kFkB's warm-up (Table 3.2), explicit orders."""

import itertools

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.planners.graphpipe.schedule.in_flight import in_flight_offset
from meshwright.simulator.training import Action, DeadlockError, Op, Program, Timing, Turns, check_program, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.policy.uneven import in_flight_samples, order_of
from meshwright.simulator.training.result.memory_timeline import in_flight, memory_timeline
from meshwright.simulator.training.timing import prepared


def passes(program, stage):
    """``F0 F1 B0`` …, with what is received before each: ``F0<0,1``, the numbers of the peers' messages."""
    said, received = [], []
    for action in program.actions[program.mesh_of[stage]]:
        if action.op in (Op.RECV_F, Op.RECV_B):
            received.append(str(action.microbatch))
        elif action.op in (Op.F, Op.B):
            said.append(f"{action.op}{action.microbatch}" + (f"<{','.join(received)}" if received else ""))
            received = []
    return " ".join(said)


def test_a_message_is_of_its_senders_microbatch():
    """b = 2, 1, 4 on a chain: 4, 8 and 2 microbatches of 8 samples."""
    program = make_program("gpipe", 3, [4, 8, 2])
    assert passes(program, 0) == "F0 F1 F2 F3 B0<0,1 B1<2,3 B2<4,5 B3<6,7"
    assert passes(program, 1) == "F0<0 F1 F2<1 F3 F4<2 F5 F6<3 F7 B0<0 B1 B2 B3 B4<1 B5 B6 B7"
    assert passes(program, 2) == "F0<0,1,2,3 F1<4,5,6,7 B0 B1"
    assert program.microbatches_of == (4, 8, 2)
    assert program.microbatches == 8
    assert Program(program.actions, program.mesh_of, program.microbatches_of) == program
    assert Program(program.actions, program.mesh_of, 8) != program


def test_a_microbatch_that_a_stage_has_not():
    with pytest.raises(InputError, match=r"mesh 0: F0\.2 of 2 microbatches"):
        Program([[Action(Op.F, 0, 2)], []], (0, 1), (2, 4))
    Program([[Action(Op.RECV_F, 0, 3, 1)], [Action(Op.SEND_F, 1, 3, 0)]], (0, 1), (2, 4))  # a message of stage 1's
    with pytest.raises(InputError, match=r"mesh 1: RECV_F1~0\.2 of 2 microbatches"):
        Program([[Action(Op.SEND_F, 0, 1, 1)], [Action(Op.RECV_F, 1, 2, 0)]], (0, 1), (2, 4))
    with pytest.raises(InputError, match="expected a number for each of 2 stages"):
        Program([[], []], (0, 1), (2,))


@pytest.mark.parametrize("stages", range(1, 6))
@pytest.mark.parametrize("microbatches", [1, 3, 8])
def test_kfkb_with_k_1_is_1f1b(stages, microbatches):
    assert make_program("kfkb", stages, microbatches) == make_program("1f1b", stages, microbatches)
    edges = [(0, s) for s in range(1, stages - 1)] + [(s, stages - 1) for s in range(1, stages - 1)]
    if stages > 2:
        forked = make_program("1f1b", stages, microbatches, transfers=edges)
        assert make_program("kfkb", stages, microbatches, transfers=edges) == forked


def test_kfkb_in_full():
    program = make_program("kfkb", 1, 7, turns=Turns(k=2, warmup=3))
    assert passes(program, 0) == "F0 F1 F2 B0 B1 F3 F4 B2 B3 F5 F6 B4 B5 B6"
    assert passes(make_program("kfkb", 1, 2, turns=Turns(k=4)), 0) == "F0 F1 B0 B1"
    assert in_flight(make_program("kfkb", 3, 8, turns=Turns(warmup=[-1, 5, -1]))).tolist() == [
        6,
        5,
        1,
    ]  # a given one counts too


TABLE = {  # rows of Table 3.2: which case, and what a stage needs, of b_x, k_x, b_y, k_y and the successor's i
    "m<X<Y": (lambda x, y, m, bx, by: m < x < y, lambda i, x, y, m, bx, by: i + 2 * m),
    "m=X<Y": (lambda x, y, m, bx, by: m == x < y, lambda i, x, y, m, bx, by: i + m),
    "bx<=by<Y<X": (lambda x, y, m, bx, by: bx <= by < y < x, lambda i, x, y, m, bx, by: i + x - y + 2 * by),
    "bx<=by=Y<X": (lambda x, y, m, bx, by: bx <= by == y < x, lambda i, x, y, m, bx, by: i + x),
    "by<=bx<Y<X": (lambda x, y, m, bx, by: by <= bx < y < x, lambda i, x, y, m, bx, by: i + x - y + 2 * bx),
    "by<=bx=Y<X": (lambda x, y, m, bx, by: by <= bx == y < x, lambda i, x, y, m, bx, by: i + x),
    "m=X=Y": (lambda x, y, m, bx, by: m == x == y, lambda i, x, y, m, bx, by: i + y),
    "m<X=Y": (lambda x, y, m, bx, by: m < x == y, lambda i, x, y, m, bx, by: i + 2 * m),
    "bx<=X<by<=Y": (lambda x, y, m, bx, by: bx <= x < by <= y, lambda i, x, y, m, bx, by: i + by),
    "by<=Y<bx<=X": (lambda x, y, m, bx, by: by <= y < bx <= x, lambda i, x, y, m, bx, by: i + x - y + bx),
}


def test_the_rows_of_table_3_2():
    seen = set()
    for bx, kx, by, ky in itertools.product((1, 2, 4, 8), repeat=4):
        x, y, m = kx * bx, ky * by, max(bx, by)
        rows = [(name, need) for name, (case, need) in TABLE.items() if case(x, y, m, bx, by)]
        assert (
            len({need(y, x, y, m, bx, by) for _, need in rows}) == 1
        )  # all 256 are covered; where rows meet they agree
        assert in_flight_samples(y, bx, kx, by, ky) == rows[0][1](y, x, y, m, bx, by)
        assert in_flight_samples(y, bx, kx, by, ky) == y + in_flight_offset(kx, bx, ky, by)  # the planner's reading
        seen.update(name for name, _ in rows)
    assert seen == set(TABLE)


BATCH = 64


def two_stages(bx, kx, by, ky, warmup, *, backward):
    """Seconds, and what each stage holds at most, of two stages of which each takes a second a sample forward."""
    counts = [BATCH // bx, BATCH // by]
    program = make_program("kfkb", 2, counts, turns=Turns(k=[kx, ky], warmup=[warmup, -1]))
    timing = Timing([float(bx), float(by)], [backward * bx, backward * by])
    times = run_compiled(program, prepared(program, timing))
    return times.finish.max(), in_flight(program).tolist()


def fewest(bx, kx, by, ky, near, *, backward):
    """The fewest microbatches in flight on the first stage with which the iteration is as short as it can be.

    All fewer than `near`, some more, and all of them are tried.
    """
    found = {}
    most = BATCH // bx
    for warmup in sorted({*range(min(kx, most), min(near + 4, most)), most}):
        try:
            seconds, (first, _) = two_stages(bx, kx, by, ky, warmup, backward=backward)
        except DeadlockError:  # the second stage waits for more than the first one lets go
            continue
        found.setdefault(first, seconds)
    best = min(found.values())
    return min(n for n, seconds in found.items() if seconds <= best + 1e-9)


def test_fewest_in_flight_by_brute_force():
    """Table 3.2 is the minimum in 81 of 81 cases where backward takes as long as forward, 78 where twice as long."""
    short = {1.0: {}, 2.0: {}}
    for bx, kx, by, ky in itertools.product((1, 2, 4), repeat=4):
        table = -(-in_flight_samples(ky * by, bx, kx, by, ky) // bx)
        program = make_program("kfkb", 2, [BATCH // bx, BATCH // by], turns=Turns(k=[kx, ky]))
        assert in_flight(program).tolist() == [min(table, BATCH // bx), min(ky, BATCH // by)]
        for backward, found in short.items():
            best = fewest(bx, kx, by, ky, table, backward=backward)
            if best != table:
                found[bx, kx, by, ky] = best - table
    assert short == {1.0: {}, 2.0: {(b, 4, b, 4): 1 for b in (1, 2, 4)}}  # there one microbatch more is as fast as any


@pytest.mark.parametrize("batch", [24, 36])
def test_the_formula_of_the_table_ends_for_any_numbers(batch):
    """Not only powers of two: turns of which neither divides the other leave no stage waiting for ever."""
    sizes = [b for b in range(1, batch + 1) if batch % b == 0]
    for bx, by in itertools.product(sizes, repeat=2):
        if max(bx, by) % min(bx, by) == 0:
            for k in itertools.product((1, 3, 4, 5, 7), repeat=2):
                program = make_program("kfkb", 2, [batch // bx, batch // by], turns=Turns(k=k))
                passes = [action for mine in program.actions for action in mine if action.op in (Op.F, Op.B)]
                assert len(passes) == 2 * (batch // bx + batch // by)


def test_figure_3_5():
    """b = 2, 1, 2: where the middle stage runs 2F2B the first one holds 3 microbatches, else 4; both take as long."""
    seconds = {}
    for k, held in ((1, 4), (2, 3)):
        program = make_program("kfkb", 3, [4, 8, 4], turns=Turns(k=[1, k, 1]))
        assert in_flight(program)[0] == held
        times = run_compiled(program, prepared(program, Timing([2.0, 1.0, 2.0], [2.0, 1.0, 2.0])))
        seconds[k] = times.finish.max()
        memory = memory_timeline(program, times.start, times.finish, [0.0] * 3, [2.0, 1.0, 2.0], [0.0] * 3, 1.0)
        assert memory.peak[0] == 2.0 * held  # samples
    assert seconds[1] == seconds[2]


def test_explicit_orders():
    program = make_program("explicit", 2, [2, 4], turns=Turns(order=["2F 2B", "2F 1B 2F 3B"]))
    assert passes(program, 0) == "F0 F1 B0<0,1 B1<2,3"
    assert passes(program, 1) == "F0<0 F1 B0 F2<1 F3 B1 B2 B3"
    assert order_of("F B 2F 2B", 3).tolist() == order_of("1F 1B 2F 2B", 3).tolist()
    same = make_program(
        "explicit", 3, 5, turns=Turns(order=["3F B F B F 3B", "2F B F B F B F 2B", "F B F B F B F B F B"])
    )
    assert same == make_program("1f1b", 3, 5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"expected runs of passes such as '4F 1B 1F 4B' \(got nothing\)"),
        ("2F 1C 2B", "got '1C'"),
        ("2F0 2B", "got '2F0'"),
        ("0F 2F 2B", "got '0F'"),
        ("2F -2B", "got '-2B'"),
        ("2F 1B", r"expected 2 forward and as many backward passes \(got 2 F and 1 B\)"),
        ("3F 3B", r"got 3 F and 3 B"),
        ("1F 2B 1F", r"backward pass 1 comes before its forward pass; put 2 F before it"),
    ],
)
def test_malformed_orders(text, said):
    with pytest.raises(InputError, match=said):
        order_of(text, 2)


def test_an_explicit_order_that_deadlocks_names_its_stages():
    """Stage 1 wants both microbatches forward before it gives a gradient, stage 0 a gradient before the second."""
    with pytest.raises(
        DeadlockError, match=r"mesh 0 \(stage 0\) waits at RECV_B0~1\.0 for stage 1 .* mesh 1 \(stage 1\)"
    ):
        make_program("explicit", 2, 2, turns=Turns(order=["F B F B", "2F 2B"]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"microbatches": [4, 6]}, "stages 0 and 1 exchange 4 and 6 microbatches, of which neither divides the other"),
        ({"microbatches": [4, 8, 4]}, "microbatches: expected one for each of 2 stages"),
        ({"microbatches": [4, 0]}, "microbatches: expected a positive integer"),
        (
            {"microbatches": [4, 8], "schedule": "1f1b"},
            "as many microbatches on every stage are expected .got 4, 8.; take",
        ),
        ({"turns": Turns(k=[1, 2, 3])}, "k: expected one for each of 2 stages"),
        (
            {"turns": Turns(warmup=9)},
            "stage 0: expected 1 … 4 forward passes before the first 1 backward .got a warm-up of 9",
        ),
        ({"turns": Turns(k=3, warmup=2)}, "stage 0: expected 3 … 4 forward passes before the first 3 backward"),
        ({"schedule": "explicit"}, "expected an order for each of 2 stages .got 0"),
        (
            {"schedule": "explicit", "turns": Turns(order=["4F 4B", "4F 3B"])},
            "schedule explicit: stage 1: order: expected 4 forward",
        ),
        ({"mesh_of": [0, 0]}, "one stage on each mesh"),
        ({"slices": [2, 2, 2, 2]}, "schedule kfkb: runs no token slices; take one of terapipe, terapipe_1f1b"),
    ],
)
def test_bad_arguments(arguments, said):
    call = {"schedule": "kfkb", "n_stages": 2, "microbatches": 4, **arguments}
    with pytest.raises(InputError, match=said):
        make_program(**call)


def test_a_mesh_that_hands_itself_what_it_made():
    """Stages 0 and 1 on one mesh, microbatches of 2 and 1 samples: F1.0 and F1.1 need F0.0."""
    good = [Action(Op.F, 0, 0), Action(Op.F, 1, 0), Action(Op.F, 1, 1), Action(Op.F, 0, 1)]
    rest = [Action(Op.F, 1, 2), Action(Op.F, 1, 3)]
    check_program(Program([good + rest], (0, 0), (2, 4)), [(0, 1)])
    for bad, said in (
        ([*good[:3], rest[0], good[3], rest[1]], r"F1\.2 before F0\.1"),
        ([good[1], good[0], *good[2:], *rest], r"F1\.0 before F0\.0"),
    ):
        with pytest.raises(DeadlockError, match=said):
            check_program(Program([bad], (0, 0), (2, 4)), [(0, 1)])
    turned = [Action(Op.F, 1 - a.stage, a.microbatch) for a in [good[1], good[2], good[0], *rest, good[3]]]
    check_program(Program([turned], (0, 0), (4, 2)), [(0, 1)])
    wrong = [turned[0], turned[2], turned[1], *turned[3:]]
    with pytest.raises(DeadlockError, match=r"F1\.0 before F0\.1"):
        check_program(Program([wrong], (0, 0), (4, 2)), [(0, 1)])


def test_uneven_microbatches_take_their_own_seconds():
    """Stage 0: 2 microbatches of 3 s; stage 1: 4 of 1 s, one by one as they come; then a backward of 1 s each."""
    program = make_program("inference", 2, [2, 4])
    times = run_compiled(program, prepared(program, Timing([3.0, 1.0], 0.0)))
    c = program.columns
    mine = [(int(c.microbatch[r]), times.start[r]) for r in np.flatnonzero((c.stage == 1) & (c.op == 1))]
    assert mine == [(0, 3.0), (1, 4.0), (2, 6.0), (3, 7.0)]
