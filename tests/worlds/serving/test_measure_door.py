"""`meshwright measure serving`: options, tables, JSON and files, on a measurement that is not taken here."""

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
from meshwright.worlds.cases import build
from meshwright.worlds.door import Asked
from meshwright.worlds.faces import answered
from meshwright.worlds.registry import open_world

ONE = ParallelConfig(1, 1)
DOOR = "meshwright.worlds.serving.doors.measure.take_measurement"
MEASURE = ["measure", "serving"]


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

    monkeypatch.setattr(DOOR, take)
    return calls


def test_options_reach_the_measurement(asked):
    line = "--models cpu-gpt-s,cpu-moe-s --batches 1,8 --op 1 --pp 1,4 --seconds 3 --seed 5 --fast"
    code = run([*MEASURE, *line.split(" ")])
    assert code == 0
    ((arguments, options),) = asked
    assert arguments == (["cpu-gpt-s", "cpu-moe-s"], "cpu", (1, 8), (1,), (1, 4))
    assert (options["seconds"], options["seed"], options["fast"]) == (3.0, 5, True)


def test_default_models_are_shipped(asked):
    assert run(MEASURE) == 0
    assert set(asked[0][0][0]) <= set(SPECS)


def test_the_table_holds_sum_whole_and_error(asked, capsys):
    assert run(MEASURE) == 0
    out = capsys.readouterr().out
    assert "error" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("m ") and "op1pp1" in line)
    assert row == ["m", "op1pp1", "1", "0", "0-3", "30.00", "25.00", "+20.0%"]
    assert "1.500" in out  # busy over idle
    assert "p2p 100 us" in out
    assert "doubtful" not in out


def test_a_busy_machine_makes_the_figures_doubtful(monkeypatch, capsys):
    monkeypatch.setattr(DOOR, lambda *a, **o: a_measurement(0.4))
    assert run(MEASURE) == 0
    assert "doubtful: other processes took up to 40% of the cores" in capsys.readouterr().out


def test_json_is_all_that_is_printed(asked, capsys, tmp_path):
    out = tmp_path / "here.json"
    assert run([*MEASURE, "--json", "--out", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["stages"][0]["error"] == pytest.approx(0.2)
    assert document["links"]["m"]["p2p"]["bytes"] == [4096, 8192]
    assert load(out).digest() == document["profiles_digest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--batches", "1,x"],
            "batches[1]: should be a whole number (got 'x')",
        ),
        (["--op", "0"], "op[0]: should be greater than or equal to 1 (got 0)"),
        (["--pp", ""], "pp: should have at least 1 item"),
        (["--seconds", "0"], "seconds: should be greater than 0"),
        (["--models", "nope"], "measure: unknown model 'nope'"),
        (["--models", ","], "measure: no model given"),
        (["--on", "tpu"], "on: should be 'cpu' or 'cuda' (got 'tpu')"),
        (["--out", "below/a/file.json"], "expected a folder above it (got the file "),
        (["--device", "cpu"], "No such option: --device"),
        (["--rate", "3"], "No such option: --rate"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(options, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").write_text("a file")
    assert run([*MEASURE, *options]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_a_case_file_says_which_models(asked, tmp_path):
    """How many instances are served changes nothing of what one costs."""
    file = tmp_path / "case.yaml"
    file.write_text("world: serving\nmodels: {cpu-bert-s: 4}\nseed: 7\n")
    assert run(["measure", str(file), "-s", "seed=8"]) == 0
    ((arguments, options),) = asked
    assert (arguments[0], options["seed"]) == (["cpu-bert-s"], 8)


def test_python_asks_at_the_same_door(asked):
    world = open_world("serving")
    case = build(world, world.case_of({}, {}, "measure"), {"models": ["cpu-gpt-s"]})
    found = answered(world, "measure", Asked((case,)), {"fast": True})
    assert found.value.digest() == found.document["profiles_digest"]
    assert asked[0][1]["fast"]


def test_bandwidths_are_written_where_a_case_takes_them(tmp_path, capsys):
    out = tmp_path / "here.json"
    assert run([*MEASURE, "--bandwidths", str(tmp_path), "--fast", "--out", str(out)]) == 0
    loading = json.loads(out.read_text())["loading"]
    assert set(loading) == {"disk", "host_memory"}
    assert f"loading.disk={loading['disk']}" in capsys.readouterr().out


def test_bandwidths_of_no_folder_are_a_line(capsys):
    assert run([*MEASURE, "--bandwidths", "nowhere"]) == 2
    assert "expected a folder" in capsys.readouterr().err
