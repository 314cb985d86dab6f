"""Programs: both forms, transfers over any graph of stages, what is wrong with bad ones, deadlocks named."""

import pickle

import numpy as np
import pytest
from meshwright.errors import InputError
from meshwright.simulator.training import Action, DeadlockError, Op, Program, Timing, check_program, make_program
from meshwright.simulator.training.compiled import run_compiled
from meshwright.simulator.training.program.transfers import with_transfers
from meshwright.simulator.training.reference import run_reference
from meshwright.simulator.training.timing import prepared


def text(*meshes):
    """A program from actions such as F0.1, SEND_F0~1.1."""
    actions = []
    for line in meshes:
        mine = []
        for word in line.split():
            head, _, microbatch = word.partition(".")
            head, _, peer = head.partition("~")
            op = head.rstrip("0123456789")
            stage = int(head[len(op) :])
            mine.append(Action(Op(op), stage, int(microbatch or -1), int(peer or -1)))
        actions.append(mine)
    stages = 1 + max(a.stage for mine in actions for a in mine)
    mesh_of = [next(m for m, mine in enumerate(actions) if any(a.stage == s for a in mine)) for s in range(stages)]
    return Program(actions, mesh_of, 1 + max(a.microbatch for mine in actions for a in mine))


def test_1f1b_in_full():
    program = make_program("1f1b", 2, 3)
    assert str(program) == (
        "mesh 0: F0.0 SEND_F0~1.0 F0.1 SEND_F0~1.1 RECV_B0~1.0 B0.0 F0.2 SEND_F0~1.2 RECV_B0~1.1 B0.1 "
        "RECV_B0~1.2 B0.2 REDUCE0 UPDATE0\n"
        "mesh 1: RECV_F1~0.0 F1.0 B1.0 SEND_B1~0.0 RECV_F1~0.1 F1.1 B1.1 SEND_B1~0.1 RECV_F1~0.2 F1.2 B1.2 "
        "SEND_B1~0.2 REDUCE1 UPDATE1"
    )


def test_both_forms_say_the_same():
    program = make_program("zb_v", 6, 7, tied=[(0, 3)])
    again = Program(program.actions, program.mesh_of, program.microbatches, program.schedule)
    assert again == program
    assert again.actions == program.actions
    assert again != make_program("zb_v", 6, 7)
    assert pickle.loads(pickle.dumps(program)) == program
    with pytest.raises(AttributeError, match="immutable"):
        program.microbatches = 3


def test_edges_that_skip_stages():
    edges = [(0, 1), (1, 2), (0, 2, False)]
    program = make_program("1f1b", 3, 1, transfers=edges)
    assert str(program) == (
        "mesh 0: F0.0 SEND_F0~1.0 SEND_F0~2.0 RECV_B0~1.0 B0.0 REDUCE0 UPDATE0\n"
        "mesh 1: RECV_F1~0.0 F1.0 SEND_F1~2.0 RECV_B1~2.0 B1.0 SEND_B1~0.0 REDUCE1 UPDATE1\n"
        "mesh 2: RECV_F2~0.0 RECV_F2~1.0 F2.0 B2.0 SEND_B2~1.0 REDUCE2 UPDATE2"
    )


def test_branches_warm_up_by_the_longest_path():
    """Two branches of one stage each between a first and a last stage: depth 3, not 4."""
    program = make_program("1f1b", 4, 6, transfers=[(0, 1), (0, 2), (1, 3), (2, 3)])
    warm = [[str(a.op) for a in mine if a.op in "FB"].index("B") for mine in program.actions]
    assert warm == [3, 2, 2, 1]


def test_tied_parameters_are_exchanged_between_reduction_and_update():
    program = make_program("1f1b", 3, 1, tied=[(0, 2)])
    ends = [[str(a) for a in mine[-4:]] for mine in program.actions]
    assert ends[0] == ["REDUCE0", "SEND_B0~2", "RECV_B0~2", "UPDATE0"]
    assert ends[2] == ["REDUCE2", "SEND_B2~0", "RECV_B2~0", "UPDATE2"]
    assert ends[1][-2:] == ["REDUCE1", "UPDATE1"]


def test_nothing_is_sent_to_oneself():
    program = make_program("zb_v", 4, 3, tied=[(0, 3)])  # stages 1 and 2, and 0 and 3, share a mesh
    assert not any({a.stage, a.peer} in ({1, 2}, {0, 3}) for mine in program.actions for a in mine if a.peer >= 0)


def engines(program):
    costs = prepared(program, Timing(1.0, 1.0))
    return [lambda: run_compiled(program, costs), lambda: run_reference(program, costs)]


def test_deadlock_names_who_waits_for_what():
    program = text("F0.0 RECV_B0~1.0 SEND_F0~1.0 B0.0", "RECV_F1~0.0 F1.0 B1.0 SEND_B1~0.0")
    said = (
        r"deadlock: mesh 0 \(stage 0\) waits at RECV_B0~1.0 for stage 1 on mesh 1; "
        r"mesh 1 \(stage 1\) waits at RECV_F1~0.0 for stage 0 on mesh 0"
    )
    for run in [lambda: check_program(program), *engines(program)]:
        with pytest.raises(DeadlockError, match=said):
            run()


def test_sends_do_not_wait():
    """Both meshes send before they receive: no deadlock, for sends are buffered."""
    program = text("F0.0 SEND_F0~1.0 RECV_F0~1.0", "F1.0 SEND_F1~0.0 RECV_F1~0.0")
    check_program(program)
    for run in engines(program):
        assert run().finish.max() == 1.0


@pytest.mark.parametrize(
    ("meshes", "said"),
    [
        (("F0.0 B0.0 B0.0",), "B0.0 happens twice"),
        (("B0.0 F0.0",), "B0.0: no forward before this backward"),
        (("F0.0 W0.0",), "W0.0: no backward before this weights' half"),
        (("F0.0 F0.1 B0.0",), "F0.1 has no backward"),
        (("F0.0 SEND_F0~1.0", "F1.0"), "SEND_F0~1.0 is never received by stage 1 on mesh 1"),
        (("F0.0", "RECV_F1~0.0 F1.0"), "RECV_F1~0.0 is never sent by stage 0 on mesh 0"),
        (("F0.0 SEND_F0~1.0 SEND_F0~1.0", "RECV_F1~0.0 F1.0"), "SEND_F0~1.0 is sent twice"),
    ],
)
def test_programs_that_are_wrong(meshes, said):
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        check_program(text(*meshes))


def test_a_mesh_that_reads_before_it_writes():
    actions = [[Action(Op.F, 1, 0), Action(Op.F, 0, 0)]]
    with pytest.raises(DeadlockError, match=r"mesh 0 does F1\.0 before F0\.0, whose result it needs"):
        check_program(Program(actions, (0, 0), 1), [(0, 1)])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"schedule": "1f2b"}, r"unknown schedule '1f2b'; did you mean '1f1b'\?"),
        ({"n_stages": 0}, r"n_stages: expected a positive integer \(got 0\)"),
        ({"microbatches": True}, r"microbatches: expected a positive integer \(got True\)"),
        ({"mesh_of": [0, 1, 3, 2]}, None),
        ({"mesh_of": [0, 1, 2, 4]}, "numbered from 0 without gaps"),
        ({"mesh_of": [0, 1, 0, 1]}, "one stage on each mesh"),
        ({"schedule": "interleaved_1f1b", "mesh_of": [0, 1, 1, 0]}, r"mesh_of=\[0, 1, 0, 1\]"),
        ({"schedule": "interleaved_1f1b", "n_meshes": 2, "microbatches": 5}, "take a multiple of 2 microbatches"),
        ({"schedule": "interleaved_1f1b", "n_meshes": 3}, "3 do not divide 4 stages"),
        ({"schedule": "zb_v", "mesh_of": [0, 1, 0, 1]}, r"mesh_of=\[0, 1, 1, 0\]"),
        ({"schedule": "zb_v", "n_stages": 3}, "two stages on each mesh"),
        ({"transfers": [(0, 1), (1, 1)]}, r"transfers\.1: expected two of 4 stages \(got 1 and 1\)"),
        ({"transfers": [(0, 4)]}, "expected two of 4 stages"),
        ({"transfers": [(0, 1), (1, 2), (2, 1)]}, "stages 0, 1, 2 wait for each other in a circle"),
        ({"tied": [(0, 0)]}, "tied: expected different ones of 4 stages"),
    ],
)
def test_bad_arguments(arguments, said):
    good = {"schedule": "1f1b", "n_stages": 4, "microbatches": 8}
    call = {**good, **arguments}
    if said is None:
        make_program(**call)
        return
    with pytest.raises(InputError, match=said):
        make_program(**call)


def test_an_order_that_deadlocks_over_unusual_edges():
    """An edge that skips stages ends; a chain that runs against the order of the stages is refused when it is made."""
    make_program("interleaved_1f1b", 4, 4, n_meshes=2, transfers=[(0, 1), (1, 2), (2, 3), (0, 3)])
    with pytest.raises(DeadlockError, match="deadlock"):
        make_program("interleaved_1f1b", 4, 4, n_meshes=2, transfers=[(3, 2), (2, 1), (1, 0)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forward_s": -1.0}, "forward_s: expected finite seconds"),
        ({"reduce_s": float("nan")}, "reduce_s: expected finite seconds"),
    ],
)
def test_bad_times(change, said):
    with pytest.raises(InputError, match=said):
        Timing(**{"forward_s": 1.0, "backward_input_s": 1.0, **change})


def test_times_of_other_stages():
    with pytest.raises(InputError, match="expected 3 stages"):
        prepared(make_program("1f1b", 3, 2), Timing([1.0, 2.0], 1.0))


@pytest.mark.parametrize(
    ("schedule", "homes"),
    [("1f1b", [2, 0, 1]), ("zb_h1", [2, 0, 1]), ("zb_h2", [1, 2, 0]), ("zb_v", [1, 0, 0, 1]), ("gpipe", [1, 0])],
)
def test_meshes_may_be_numbered_in_any_order(schedule, homes):
    """A mesh's place in the pipeline counts, not its number."""
    usual = make_program(schedule, len(homes), 5)
    program = make_program(schedule, len(homes), 5, mesh_of=homes)
    assert program.mesh_of == tuple(homes)
    for stage, mesh in enumerate(homes):
        assert program.actions[mesh] == usual.actions[usual.mesh_of[stage]]


def test_interleaving_over_meshes_in_any_order():
    usual = make_program("interleaved_1f1b", 6, 6, n_meshes=3)
    program = make_program("interleaved_1f1b", 6, 6, mesh_of=[2, 0, 1, 2, 0, 1])
    assert [program.actions[m] for m in (2, 0, 1)] == list(usual.actions)


def test_orders_of_other_things():
    with pytest.raises(
        InputError, match=r"orders: mesh 0: expected F, B or W of one of 1 stages \(got \[1, 1, 0, 0\]\)"
    ):
        with_transfers([np.array([[1, 0, 0, 0], [1, 1, 0, 0]])], [0], [])
    with pytest.raises(InputError, match=r"F0\.0/-1 of 1 microbatches"):
        Program([[Action(Op.F, 0, 0, -1, -1)]], (0,), 1)
