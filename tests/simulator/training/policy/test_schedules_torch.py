"""Schedules against torch's: the same passes in the same order on every rank, and its checkers accept them."""

from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace

import pytest
from meshwright.simulator.training import make_program


@cache
def torchs() -> ModuleType:
    """The module of torch that schedules; loaded when a test asks, for it brings all of sympy."""
    return import_module("torch.distributed.pipelining.schedules")


@pytest.fixture(autouse=True)
def torch_has_schedules() -> None:
    """They are the oracle."""
    pytest.importorskip("torch")
    if not hasattr(torchs(), "_get_1f1b_rank_ops"):
        pytest.skip("this torch keeps its schedules elsewhere")


def passes(program, split):
    """Our F, B and W as torch's actions, rank by rank."""
    kinds = torchs()._ComputationType
    kind = {
        "F": kinds.FORWARD,
        "B": kinds.BACKWARD_INPUT if split else kinds.FULL_BACKWARD,
        "W": kinds.BACKWARD_WEIGHT,
    }
    return {
        rank: [torchs()._Action(a.stage, kind[a.op], a.microbatch) for a in mine if a.op in kind]
        for rank, mine in enumerate(program.actions)
    }


def torch_order(cls, ranks, stages, microbatches):
    """What a schedule class of torch computes for each rank, without processes."""
    found = {}
    for rank in range(ranks):
        self = SimpleNamespace(pp_group_size=ranks, n_local_stages=stages // ranks, num_stages=stages, rank=rank)
        self._n_microbatches = microbatches
        self.number_of_rounds = max(1, microbatches // ranks)
        self.microbatches_per_round = microbatches // self.number_of_rounds
        found[rank] = [a for a in cls._calculate_single_rank_operations(self, rank) if a is not None]
    return found


def single(cls, ranks, microbatches):
    self = SimpleNamespace(_num_stages=ranks, _n_microbatches=microbatches)
    order = cls._get_pipeline_order(self)
    kinds = torchs()._ComputationType
    computed = (kinds.FORWARD, kinds.FULL_BACKWARD)
    return {r: [a for a in mine if a is not None and a.computation_type in computed] for r, mine in order.items()}


def accepted(ours, mesh_of, microbatches):
    """torch's own checkers: valid, and it ends once receives and sends are put in."""
    found = torchs()._validate_schedule(ours, len(ours), len(mesh_of), microbatches)
    assert found == dict(enumerate(mesh_of))
    to_rank = dict(enumerate(mesh_of)).__getitem__
    with_comms = torchs()._add_send_recv({r: list(mine) for r, mine in ours.items()}, to_rank, len(mesh_of))
    torchs()._simulate_comms_compute(with_comms, to_rank, len(mesh_of))


SIZES = [(1, 1), (1, 5), (2, 2), (2, 7), (3, 2), (4, 4), (4, 9), (6, 24), (8, 8)]


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_gpipe(ranks, microbatches):
    ours = passes(make_program("gpipe", ranks, microbatches), split=False)
    assert ours == single(torchs().ScheduleGPipe, ranks, microbatches)
    accepted(ours, range(ranks), microbatches)


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_1f1b(ranks, microbatches):
    """Against the rule behind torch's interleaved schedules, with 1F1B's warm-up.

    `Schedule1F1B._get_pipeline_order` of torch 2.13 says the same, but for its last rank, whose first forward it counts
    from 1; what it runs starts at 0.
    """
    ours = passes(make_program("1f1b", ranks, microbatches), split=False)
    for r in range(ranks):
        warm = min(ranks - 1 - r, microbatches)
        ops = torchs()._get_1f1b_rank_ops(
            1, ranks, warm, microbatches - warm, warm, r, lambda _, r=r: r, lambda _, r=r: r
        )
        assert ours[r] == [a for a in ops if a is not None]
    if microbatches >= ranks:  # torch refuses fewer
        said = single(torchs().Schedule1F1B, ranks, microbatches)
        assert all(ours[r] == said[r] for r in range(ranks - 1))
    accepted(ours, range(ranks), microbatches)


@pytest.mark.parametrize("virtual", [1, 2, 3])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (2, 8), (4, 4), (4, 8), (4, 16), (3, 9), (4, 10), (4, 3)])
def test_interleaved(ranks, microbatches, virtual):
    stages = ranks * virtual
    program = make_program("interleaved_1f1b", stages, microbatches, n_meshes=ranks)
    ours = passes(program, split=False)
    assert ours == torch_order(torchs().ScheduleInterleaved1F1B, ranks, stages, microbatches)
    accepted(ours, program.mesh_of, microbatches)


@pytest.mark.parametrize("virtual", [1, 2])
@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 2), (2, 8), (4, 4), (4, 8), (4, 16), (3, 9)])
def test_zero_bubble_h1(ranks, microbatches, virtual):
    stages = ranks * virtual
    program = make_program("zb_h1", stages, microbatches, n_meshes=ranks)
    ours = passes(program, split=True)
    assert ours == torch_order(torchs().ScheduleInterleavedZeroBubble, ranks, stages, microbatches)
    accepted(ours, program.mesh_of, microbatches)


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (1, 3), (2, 2), (2, 8), (4, 4), (4, 7), (4, 16), (6, 11)])
def test_zero_bubble_v(ranks, microbatches):
    program = make_program("zb_v", 2 * ranks, microbatches)
    ours = passes(program, split=True)
    assert ours == torch_order(torchs().ScheduleZBVZeroBubble, ranks, 2 * ranks, microbatches)
    accepted(ours, program.mesh_of, microbatches)


@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (2, 3), (4, 4), (4, 7), (4, 16), (6, 11)])
def test_zero_bubble_h2_is_accepted(ranks, microbatches):
    program = make_program("zb_h2", ranks, microbatches)
    accepted(passes(program, split=True), program.mesh_of, microbatches)


@pytest.mark.parametrize(("ranks", "microbatches", "virtual"), [(2, 5, 1), (4, 8, 1), (2, 4, 2), (4, 8, 2)])
def test_receives_and_sends_are_those_that_torch_puts_in(ranks, microbatches, virtual):
    """The same messages; torch puts a receive where the sender stands, we where it is needed."""
    program = make_program("interleaved_1f1b", ranks * virtual, microbatches, n_meshes=ranks)
    to_rank = program.mesh_of.__getitem__
    theirs = torchs()._add_send_recv(passes(program, split=False), to_rank, ranks * virtual)
    names = {"SEND_F", "RECV_F", "SEND_B", "RECV_B"}
    for rank, mine in enumerate(program.actions):
        ours = sorted((str(a.op), a.stage, a.microbatch) for a in mine if a.op in names)
        assert ours == sorted(
            (a.computation_type.value, a.stage_index, a.microbatch_index)
            for a in theirs[rank]
            if a.computation_type.value in names
        )
