"""From samples to profile, on made-up samples whose right answer is known: no worker process, no clock."""

import pytest
from meshwright.kernels import sizes
from meshwright.kernels.specs import SPECS
from meshwright.kernels.timing import Lap
from meshwright.profiles import ParallelConfig, ProfileSet, Provenance, device, load, save
from meshwright.profiles.measure.comm import fit_comm
from meshwright.profiles.measure.compose import Machine, measure_one
from meshwright.profiles.measure.worker import Samples, StageRun, forget_models, layer_weights, measure_model

SPEC = SPECS["cpu-gpt-tiny"]
SECONDS = {"embedding": 1.0, "dense": 4.0, "head": 3.0}
LATENCY_S, BYTES_PER_S = 0.01, 1e6
CONFIGS = [ParallelConfig(1, 1), ParallelConfig(1, 2), ParallelConfig(2, 1), ParallelConfig(2, 2)]


class MadeUpPool:
    """Two workers on which a layer takes `SECONDS` per request, halved when split, and links are exact lines.

    Stages run whole take `stretch` times the sum of their layers; `first_guess` makes the scouts see other layers.
    """

    size = 2

    def __init__(self, stretch=1.0, first_guess=None, disturbed=False, calm_rows=3):
        self.stretch, self.first_guess, self.disturbed = stretch, first_guess or SECONDS, disturbed
        self.calls, self.calm_rows = [], calm_rows

    def call(self, function, **arguments):
        if function is layer_weights:
            return [{op: tuple(100 // op for _ in range(SPEC.n_layers)) for op in arguments["ops"]}] * 2
        if function is forget_models:
            return [None] * 2
        assert function is measure_model
        self.calls.append(arguments)
        kinds = SECONDS if arguments["runs"] else self.first_guess
        return [self._samples(rank, kinds, **arguments) for rank in range(2)]

    def _samples(self, rank, kinds, *, chain, batches, runs, idle, **_):
        out = Samples()
        for batch in batches:
            for op in chain.ops:
                row = [Lap(kinds[SPEC.kind(i)] * batch / op, 1.0) for i in chain.numbers]
                slow = [Lap(9 * lap.seconds, 0.4) for lap in row]
                out.layers[op, batch] = [row] * self.calm_rows + [slow] * (5 if self.disturbed else 0)
            if idle and rank == 0:
                out.idle[batch] = [[Lap(lap.seconds / 2, 1.0) for lap in out.layers[1, batch][0]]]
            for n_bytes in (4096, batch * sizes.output_bytes(SPEC, 0)):
                transfer = LATENCY_S + n_bytes / BYTES_PER_S
                out.p2p[n_bytes] = [(20.0 - rank, 20.0 + transfer)]
                out.allreduce[2, n_bytes] = [Lap(transfer, 1.0)] * 3 + [Lap(9.0, 0.5 + rank / 2)]
            for run in runs:
                op, pp = run.config.op, run.config.pp
                k = rank // op if pp > 1 else 0
                first, last = (*run.starts, SPEC.n_layers)[k : k + 2]
                alone = sum(SECONDS[SPEC.kind(i)] for i in range(first, last)) * batch / op
                out.stages[run, batch] = [Lap(self.stretch * alone, 1.0)] * 3
                if pp > 1:
                    spans = [(5.0, 5.1)] if k == 0 else [(4.0, 5.25)]
                    (out.sends if k == 0 else out.receives)[run, batch] = spans
        return out


def measured(pool, memory_bytes=1e9):
    machine = Machine(device("cpu-core"), memory_bytes, Provenance("made up"))
    return measure_one(pool, SPEC, [1, 4], CONFIGS, machine, seconds=1.0, min_rounds=2, seed=0)


def test_layers_become_stages_by_their_sum():
    found = measured(MadeUpPool())
    assert found.profile.latency(ParallelConfig(1, 1), 1) == (pytest.approx(1 + 4 + 4 + 3),)
    assert found.profile.latency(ParallelConfig(1, 2), 4) == (pytest.approx(4 * 5), pytest.approx(4 * 7))
    assert found.profile.stage(ParallelConfig(1, 2)).partition == (0, 2)
    assert found.table.layers[1].block == 0
    assert found.table.layers[0].block is None


def test_split_stages_add_their_all_reduces():
    found = measured(MadeUpPool())
    line = found.comm.allreduce[2]
    assert line.latency_s == pytest.approx(LATENCY_S)
    assert line.bandwidth_bytes_per_s == pytest.approx(BYTES_PER_S)
    reduces = sum(
        sizes.allreduces(SPEC, i) * (LATENCY_S + sizes.allreduce_bytes(SPEC, i, 2) / BYTES_PER_S)
        for i in range(SPEC.n_layers)
    )
    assert found.profile.latency(ParallelConfig(2, 1), 1) == (pytest.approx(6 + reduces),)


def test_a_hop_is_timed_from_when_both_ends_are_there():
    found = measured(MadeUpPool())
    assert found.comm.p2p.latency_s == pytest.approx(LATENCY_S)
    hidden = sizes.output_bytes(SPEC, 0)
    assert found.profile.hop_s(ParallelConfig(1, 2)) == pytest.approx(LATENCY_S + hidden / BYTES_PER_S)
    hops = [check.hop_s for check in found.checks if check.config == ParallelConfig(1, 2) and check.stage == 0]
    assert hops == pytest.approx([0.25, 0.25])  # sent at 5.0, awaited since 4.0, there at 5.25


@pytest.mark.parametrize("stretch", [1.0, 2.0, 0.8])
def test_the_error_is_that_of_the_stages_really_run(stretch):
    found = measured(MadeUpPool(stretch))
    one = [c for c in found.checks if c.config.op == 1]
    assert {(c.config.pp, c.batch, c.stage) for c in one} == {
        (1, 1, 0), (1, 4, 0), (2, 1, 0), (2, 1, 1), (2, 4, 0), (2, 4, 1),
    }  # fmt: skip
    for check in one:
        assert check.error == pytest.approx(1 / stretch - 1)
    stage = found.profile.stage(ParallelConfig(1, 2))
    assert stage.composition_error(4) == pytest.approx((1 / stretch - 1,) * 2)
    assert stage.measured[4] == pytest.approx((20 * stretch, 28 * stretch))


def test_more_stages_than_workers_are_composed_and_not_checked():
    found = measured(MadeUpPool())
    assert not found.profile.stage(ParallelConfig(2, 2)).measured
    assert {check.config for check in found.checks} == set(CONFIGS[:3])


def test_stages_are_run_again_if_the_best_partition_turns_out_to_be_another():
    pool = MadeUpPool(first_guess={"embedding": 9.0, "dense": 1.0, "head": 1.0})
    found = measured(pool)
    scout, main, again = pool.calls
    assert scout["runs"] == ()
    assert StageRun(ParallelConfig(1, 2), (0, 1)) in main["runs"]
    assert again["runs"] == [StageRun(ParallelConfig(1, 2), (0, 2))]
    assert found.profile.stage(ParallelConfig(1, 2)).partition == (0, 2)
    assert found.profile.stage(ParallelConfig(1, 2)).measured[1] == pytest.approx((5.0, 7.0))


def test_laps_during_which_another_process_had_the_core_do_not_count():
    found = measured(MadeUpPool(disturbed=True))
    assert found.profile.latency(ParallelConfig(1, 1), 1) == (pytest.approx(12.0),)
    # 3 calm rows of t seconds and 5 of 9 t that had 0.4 of the core
    assert found.contention == pytest.approx(5 * 9 * 0.6 / (3 + 5 * 9))
    assert "other processes took 56% of the cores" in found.profile.provenance.notes


def test_without_calm_laps_processor_time_stands_in():
    found = measured(MadeUpPool(disturbed=True, calm_rows=0))
    assert found.profile.latency(ParallelConfig(1, 1), 1) == (pytest.approx(12.0 * 9 * 0.4),)


def test_interference_is_busy_over_idle():
    assert [i.slowdown for i in measured(MadeUpPool()).interference] == pytest.approx([2.0, 2.0])


def test_a_model_that_does_not_fit_is_timed_by_one_layer_of_each_kind():
    pool = MadeUpPool()
    found = measured(pool, memory_bytes=500.0)  # 4 layers of 100 bytes whole and 50 split: 600
    assert pool.calls[-1]["chain"].numbers == [0, 1, 3]
    assert found.profile.latency(ParallelConfig(1, 1), 1) == (pytest.approx(12.0),)
    assert found.checks == ()
    assert "one layer of each kind" in found.profile.provenance.notes


def test_notes_say_error_interference_and_links():
    notes = measured(MadeUpPool(2.0)).profile.provenance.notes
    for part in ("op1pp2: composed against", "-50.0% at worst", "2.00 times as long", "p2p 10000 us"):
        assert part in notes


def test_the_run_whole_stages_survive_the_disk(tmp_path):
    found = measured(MadeUpPool(0.8))
    profiles = ProfileSet("s", "cpu-core", {SPEC.name: found.profile}, Provenance("made up"))
    back = load(save(profiles, tmp_path / "p.json"))
    assert back == profiles
    assert back[SPEC.name].stage(ParallelConfig(1, 1)).composition_error(1) == (pytest.approx(0.25),)


def test_one_device_takes_cited_links_and_says_so():
    model, samples = fit_comm([{}], [{}], [1], device("h200-141gb"))
    assert model.p2p == device("h200-141gb").intra_node
    assert samples == {}
    assert model.source.startswith("not measured (one device present); h200-141gb")


def test_named_changes_the_name_everywhere():
    other = measured(MadeUpPool()).named("tuned")
    assert other.profile.name == other.table.model == "tuned"
    assert {c.model for c in other.checks} == {i.model for i in other.interference} == {"tuned"}
