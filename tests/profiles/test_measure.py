"""A real measurement of tiny models: worker processes, links, stages run whole. Structure only, never seconds."""

import datetime
import os

import pytest
from meshwright.errors import InputError, RunError
from meshwright.kernels.specs import SPECS
from meshwright.profiles import ParallelConfig, load, save
from meshwright.profiles.autoparallel import partition_at
from meshwright.profiles.measure.device import DeviceFacts, cited_spec
from meshwright.profiles.measure.models import measure, take_measurement
from meshwright.profiles.measure.pool import WorkerPool, usable_cores

torch = pytest.importorskip("torch", reason="measuring needs torch")
two_cores = pytest.mark.skipif(len(usable_cores()) < 2, reason="needs two cores for two devices")

BATCHES = (1, 2)


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def found(told):
    if len(usable_cores()) < 2:
        pytest.skip("needs two cores for two devices")
    tiny = SPECS["cpu-gpt-tiny"]
    return take_measurement(
        ["cpu-moe-tiny", tiny, tiny.renamed("tuned")],
        batches=BATCHES,
        seconds=0.1,
        fast=True,
        progress=lambda share, what: told.append((share, what)),
    )


def test_every_configuration_and_batch_is_in_the_profile(found):
    assert list(found.profiles) == ["cpu-moe-tiny", "cpu-gpt-tiny", "tuned"]
    assert found.profiles.device == "cpu-core"
    for profile in found.profiles.values():
        assert profile.configs == tuple(ParallelConfig(op, pp) for op in (1, 2) for pp in (1, 2))
        for config in profile.configs:
            assert profile.batches(config) == BATCHES
            assert profile.stage(config).partition[0] == 0


def test_stages_are_sums_of_the_layers_measured_one_by_one(found):
    for model in found.models.values():
        assert [layer.name for layer in model.table.layers] == list(SPECS_OF[model.table.model].layer_names())
        for check in model.checks:
            starts = model.profile.stage(check.config).partition
            expected = partition_at(model.table, check.config, starts, model.comm, check.batch).stage_s
            assert check.composed_s == pytest.approx(expected[check.stage], rel=1e-12)
            assert check.composed_s == model.profile.latency(check.config, check.batch)[check.stage]


SPECS_OF = {**SPECS, "tuned": SPECS["cpu-gpt-tiny"]}


def test_whole_stages_were_really_run_wherever_there_are_devices_enough(found):
    for name, profile in found.profiles.items():
        run = {(c.config, c.batch, c.stage) for c in found.checks if c.model == name}
        small = [c for c in profile.configs if c.n_devices <= 2]
        assert run == {(c, b, k) for c in small for b in BATCHES for k in range(c.pp)}
        for config in small:
            assert set(profile.stage(config).measured) == set(BATCHES)
        assert not profile.stage(ParallelConfig(2, 2)).measured
    for check in found.checks:
        assert check.n >= 2
        assert check.error == check.composed_s / check.measured_s - 1
        assert (check.hop_s > 0) == (check.config.pp > 1 and check.stage == 0)


def test_models_of_one_shape_are_measured_once(found):
    a, b = found.profiles["cpu-gpt-tiny"], found.profiles["tuned"]
    assert a.stages == b.stages
    assert b.name == "tuned"


def test_links_were_measured(found):
    for model in found.models.values():
        assert set(model.links) == {"p2p", "allreduce 2"}
        assert all(len(s.n_bytes) == len(s.seconds) >= 2 and min(s.seconds) > 0 for s in model.links.values())
        assert model.comm.source.startswith("measured: p2p ")
        assert not model.comm.p2p_occupies_stage


def test_interference_holds_idle_and_busy(found):
    assert [(i.model, i.batch) for i in found.interference] == [(m, b) for m in found.profiles for b in BATCHES]
    assert all(i.idle_s > 0 and i.busy_s > 0 for i in found.interference)
    assert 0 <= found.contention < 1


def test_provenance_says_where_when_and_with_what(found):
    for provenance in (found.profiles.provenance, *(p.provenance for p in found.profiles.values())):
        assert provenance.device == found.facts.name
        assert {"python", "torch", "meshwright"} <= set(provenance.versions)
        assert provenance.versions["torch"] == torch.__version__
        datetime.date.fromisoformat(provenance.date)
        assert "one torch thread each" in provenance.notes
        assert "clock: perf_counter" in provenance.notes
    assert "busy neighbours" in found.profiles["tuned"].provenance.notes
    assert found.device.peak_flops > 0
    assert found.device.memory_bandwidth_bytes_per_s > 0


def test_progress_runs_from_nothing_to_all(found, told):
    shares = [share for share, _ in told]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


@pytest.mark.filterwarnings("ignore::meshwright.profiles.ProfileWarning")  # tiny models: microseconds, noise
def test_a_measured_set_survives_the_disk(found, tmp_path):
    assert load(save(found.profiles, tmp_path / "here.json")) == found.profiles


def _unused_pool(*_args, **_options):
    raise AssertionError("workers were started before the input was checked")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"specs": []}, "no model given"),
        ({"specs": ["cpu-gtp-s"]}, "unknown model 'cpu-gtp-s'; did you mean 'cpu-gpt-s'"),
        ({"specs": ["cpu-gpt-s", "cpu-gpt-s"]}, "model 'cpu-gpt-s' is given twice"),
        ({"batches": (0,)}, "batches must be positive integers"),
        ({"pp_degrees": ()}, "pp_degrees must be positive integers, at least one"),
        ({"op_degrees": (1, 4096)}, "op degree 4096 needs as many devices"),
        ({"device": "tpu"}, "device must be 'cpu' or 'cuda'"),
    ],
)
def test_bad_input_is_refused_before_any_worker_starts(options, message, monkeypatch):
    monkeypatch.setattr("meshwright.profiles.measure.models.WorkerPool", _unused_pool)
    with pytest.raises(InputError, match=message):
        measure(**{"specs": ["cpu-gpt-tiny"], **options})


def test_a_degree_that_does_not_divide_is_refused(monkeypatch):
    monkeypatch.setattr("meshwright.profiles.measure.models.WorkerPool", _unused_pool)
    monkeypatch.setattr("meshwright.profiles.measure.models.device_count", lambda kind: 8)
    with pytest.raises(InputError, match="op degree 3 must divide heads"):
        measure(["cpu-gpt-tiny"], op_degrees=(3,))


def test_missing_torch_says_what_to_install(monkeypatch):
    monkeypatch.setattr("meshwright.profiles.measure.pool.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"torch is not installed.*pip install -e '\.\[torch\]'"):
        WorkerPool(1)


@two_cores
def test_workers_are_pinned_and_a_dead_one_is_said():
    with pytest.raises(RunError, match=r"worker 1 died \(exit code -9\)"), WorkerPool(2) as pool:  # noqa: PT012
        assert pool.cores == usable_cores()[:2]
        assert [os.sched_getaffinity(process.pid) for process in pool._processes] == [{c} for c in pool.cores]
        os.kill(pool._processes[1].pid, 9)
        pool.call(repr)
    assert not any(process.is_alive() for process in pool._processes)


def test_a_failing_job_is_said_with_its_traceback():
    with pytest.raises(RunError, match="worker 0 failed"), WorkerPool(1) as pool:  # noqa: PT012
        assert pool.call(repr)[0].startswith("Worker(rank=0, size=1")
        pool.call(len)
    assert not any(process.is_alive() for process in pool._processes)


@pytest.mark.parametrize(
    ("name", "memory", "expected"),
    [
        ("NVIDIA H200", 141 * 10**9, "h200-141gb"),
        ("Tesla V100-SXM2-32GB", 32 * 2**30, "v100-32gb"),
        ("NVIDIA A100-SXM4-80GB", 80 * 2**30, "a100-80gb"),
        ("Some GPU", 15 * 2**30, "v100-16gb"),
    ],
)
def test_gpus_are_known_by_name_or_by_memory(name, memory, expected):
    assert cited_spec(DeviceFacts(name, "", memory, memory, {}), "cuda").name == expected
