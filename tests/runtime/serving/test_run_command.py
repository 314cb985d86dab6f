"""`meshwright run` and `compare` as commands: what they print, and that nothing outlives them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from meshwright.profiles import ModelProfile, ParallelConfig
from meshwright.simulator import Cluster, Group, Placement, Plan
from meshwright.simulator.serving.plan.file import PlannerEntry
from meshwright.traces import Trace

pytest.importorskip("torch")

MODELS = ("cpu-bert-tiny", "cpu-gpt-tiny")
PIPELINE = ParallelConfig(1, 2)
COMMAND = [sys.executable, "-m", "meshwright"]


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory):
    known = {name: ModelProfile.from_stages(name, {PIPELINE: {1: [0.001, 0.001]}}) for name in MODELS}
    plan = Plan.of(
        Cluster(1, 2, "cpu-core"), Placement([Group(PIPELINE, MODELS)]), known,
        planner=PlannerEntry(name="by hand"), trace=Trace([0.0, 0.0], [0, 1], MODELS, 5.0),
    )  # fmt: skip
    return plan.save(tmp_path_factory.mktemp("plan") / "plan.json")


def workers_of(pid):
    """Processes started by `pid` that are still there, zombies left out."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as text:
                    words = text.read().decode().split("\0")
                with open(f"/proc/{entry}/stat") as stat:
                    state = stat.read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if "meshwright.runtime.serving.worker" in words and str(pid) in words and state != "Z":
                found.append(int(entry))
    return found


def start(plan_file, *words):
    return subprocess.Popen(
        [*COMMAND, "run", str(plan_file), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "run: terminated (SIGTERM); its processes are ended"),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_no_process_outlives_the_command(plan_file, number, code, message):
    command = start(plan_file, "--rate", "50", "--duration", "60")
    until(lambda: len(workers_of(command.pid)) == 2)
    workers = workers_of(command.pid)
    command.send_signal(number)
    _, said = command.communicate(timeout=60)
    until(lambda: not workers_of(command.pid), 10.0)
    assert command.returncode == code
    assert message in said
    assert "Traceback" not in said
    assert len(workers) == 2


def test_run_prints_and_writes_what_it_measured(plan_file, tmp_path):
    done = subprocess.run(
        [
            *[*COMMAND, "run", str(plan_file), "--rate", "40", "--duration", "2", "--json"],
            *["--out", str(tmp_path / "requests.csv"), "--timeline", str(tmp_path / "timeline.json")],
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["failed"] == 0
    assert said["requests"] == len((tmp_path / "requests.csv").read_text().splitlines()) - 1
    spans = [e for e in json.loads((tmp_path / "timeline.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(spans) == 2 * (said["requests"] - said["rejected"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "missing.json", "--rate", "5"], "missing.json: "),
        (["run", "PLAN"], "workload: give one of rate (generated traffic) and trace (a file)"),
        (["run", "PLAN", "--rate", "5", "--slo-scale", "2"], "profile: SLO scales need"),
        (["run", "PLAN", "--rate", "5", "--max-batch", "0"], "serving.max_batch: should be greater than 0"),
        (["run", "PLAN", "--rate", "5", "--max-batch", "8"], "no entry for batch 8"),
        (["compare", "PLAN", "--rate", "5"], "profile: SLO scales need"),
        (["compare", "PLAN", "--rate", "5", "--slo-scales", "1,x"], "slo_scales[1]: should be a number"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(plan_file, words, message, capsys):
    from meshwright.cli import run

    words = [str(plan_file) if word == "PLAN" else word for word in words]
    assert run(words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
