"""`meshwright profile measure`: options, tables, JSON and files, on a measurement that is not taken here."""

import json

import pytest
from meshwright.cli import run
from meshwright.kernels.specs import SPECS
from meshwright.profiles import (
    CommModel,
    Layer,
    LayerTable,
    LinkSpec,
    ModelProfile,
    ParallelConfig,
    ProfileSet,
    Provenance,
    device,
    load,
)
from meshwright.profiles.measure.comm import LinkSamples
from meshwright.profiles.measure.device import DeviceFacts
from meshwright.profiles.measure.record import Interference, MeasuredModel, Measurement, StageCheck

ONE = ParallelConfig(1, 1)


def a_measurement(contention=0.0):
    source = Provenance("made up")
    profile = ModelProfile.from_stages("m", {ONE: {1: [0.030]}}, provenance=source)
    check = StageCheck("m", ONE, 1, 0, (0, 4), 0.030, 0.025, 0.0, 9)
    comm = CommModel(LinkSpec(1e9, 1e-4), source="measured: p2p 100 us + bytes / 1 GB/s")
    table = LayerTable("m", (Layer("all", {1: {1: 0.030}}, {1: 0.0}),), source)
    links = {"p2p": LinkSamples((4096, 8192), (1e-4, 1.1e-4))}
    model = MeasuredModel(table, comm, links, profile, (check,), (Interference("m", 1, 0.02, 0.03),), contention)
    facts = DeviceFacts("A CPU", "perf_counter", 2**34, 2**33, {"python": "3.11", "torch": "2.13"})
    profiles = ProfileSet("measured-cpu", "cpu-core", {"m": profile}, source)
    return Measurement(profiles, device("cpu-core"), facts, {"m": model}, 12.0)


@pytest.fixture
def asked(monkeypatch):
    """What `take_measurement` was asked for; it answers with `a_measurement`."""
    calls = []

    def take(*arguments, **options):
        calls.append((arguments, options))
        options["progress"](0.5, "half way")
        return a_measurement(options.pop("contention", 0.0))

    monkeypatch.setattr("meshwright.profiles.measure.models.take_measurement", take)
    return calls


def test_options_reach_the_measurement(asked):
    line = "--models cpu-gpt-s,cpu-moe-s --batches 1,8 --op 1 --pp 1,4 --seconds 3 --seed 5 --fast"
    code = run(["profile", "measure", *line.split(" ")])
    assert code == 0
    ((arguments, options),) = asked
    assert arguments == (["cpu-gpt-s", "cpu-moe-s"], "cpu", [1, 8], [1], [1, 4])
    assert (options["seconds"], options["seed"], options["fast"]) == (3.0, 5, True)


def test_default_models_are_shipped(asked):
    assert run(["profile", "measure"]) == 0
    assert set(asked[0][0][0]) <= set(SPECS)


def test_the_table_holds_sum_whole_and_error(asked, capsys):
    assert run(["profile", "measure"]) == 0
    out = capsys.readouterr().out
    assert "error" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("m ") and "op1pp1" in line)
    assert row == ["m", "op1pp1", "1", "0", "0-3", "30.00", "25.00", "+20.0%"]
    assert "1.500" in out  # busy over idle
    assert "p2p 100 us" in out
    assert "doubtful" not in out


def test_a_busy_machine_makes_the_figures_doubtful(monkeypatch, capsys):
    monkeypatch.setattr("meshwright.profiles.measure.models.take_measurement", lambda *a, **o: a_measurement(0.4))
    assert run(["profile", "measure"]) == 0
    assert "doubtful: other processes took up to 40% of the cores" in capsys.readouterr().out


def test_json_is_all_that_is_printed(asked, capsys, tmp_path):
    out = tmp_path / "here.json"
    assert run(["profile", "measure", "--json", "--out", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["stages"][0]["error"] == pytest.approx(0.2)
    assert document["links"]["m"]["p2p"]["bytes"] == [4096, 8192]
    assert load(out).digest() == document["profiles_digest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--batches", "1,x"], "--batches: expected positive integers with commas, like 1,2,4 (got '1,x')"),
        (["--op", "0"], "--op: expected positive integers"),
        (["--pp", ""], "--pp: expected positive integers"),
        (["--seconds", "0"], "--seconds: expected more than 0"),
        (["--models", "nope"], "measure: unknown model 'nope'"),
        (["--models", ","], "measure: no model given"),
        (["--device", "tpu"], "measure: device must be 'cpu' or 'cuda'"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(options, message, capsys):
    assert run(["profile", "measure", *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
