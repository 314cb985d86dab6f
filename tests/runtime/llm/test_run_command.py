"""`meshwright run --llm`: a workload through the engine, a plan's engine, and the endpoint, as commands."""

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from meshwright.cli.main import run as main
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm.plan.file import Deployment, LLMPlan, ServedModel
from meshwright.simulator.serving.plan.file import PlannerEntry


def command(capsys, *words):
    """What a command prints on both streams, and its exit code."""
    code = main(["run", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


SMALL = ("--llm", "tiny-llama", "--requests", "4", "--scale", "0.03", "--num-blocks", "40")


@pytest.mark.parametrize("policy", ["vllm-v1", "sarathi", "vllm-0.2"])
def test_a_drawn_workload(capsys, policy, tmp_path):
    rows = tmp_path / "rows.csv"
    code, out, _ = command(capsys, *SMALL, "--policy", policy, "--rate", "50", "--json", "--out", str(rows))
    said = json.loads(out)
    assert code == 0
    assert (said["finished"], said["policy"], said["num_blocks"] - (policy == "sarathi")) == (4, policy, 40)
    assert said["throughput"] > 0
    assert sum(said["step_s"][part] for part in ("schedule", "build", "forward", "sample")) <= said["step_s"]["total"]
    assert len(rows.read_text().splitlines()) == 5


def test_a_trace_file(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,model,prompt_tokens,output_tokens\n0.0,a,9,3\n0.01,a,12,4\n")
    code, out, _ = command(capsys, "--llm", "tiny-opt", "--trace", str(trace), "--option", "max_num_batched_tokens=8")
    assert code == 0
    assert "2 requests: " in out
    assert "finished 2 of 2" in out


def plan_file(path, **fields):
    entry = {"name": "one", "model": "tiny-llama", "num_blocks": 50, "devices": ((0,),), **fields}
    model = ServedModel.of(decoder("tiny-llama"))
    plan = LLMPlan.of(Cluster(1, 4, "cpu-core"), (model,), (Deployment(**entry),), planner=PlannerEntry(name="by hand"))
    return str(plan.save(path))


def test_a_plan(capsys, tmp_path):
    config = {"block_size": 8, "max_num_seqs": 3, "max_model_len": 256}
    plan = plan_file(tmp_path / "plan.json", config=config)
    code, out, err = command(capsys, plan, "--requests", "4", "--scale", "0.03", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert (said["num_blocks"], said["block_size"], said["finished"]) == (50, 8, 4)
    assert said["mean_batch"] <= 3
    assert command(capsys, plan, "--tp", "2")[0] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--llm", "tiny-lama"], "did you mean 'tiny-llama'"),
        ([], "expected a plan file, or --llm MODEL"),
        (["--llm", "tiny-llama", "--policy", "orca-max"], "--policy: the engine runs vllm-v1"),
        (["--llm", "tiny-llama", "--option", "blocks"], "expected NAME=VALUE"),
        (["--llm", "tiny-llama", "--option", "max_num_seq=3"], "did you mean 'max_num_seqs'"),
        (["--llm", "tiny-llama", "--slo", "1"], "--slo: is not for language models"),
        (["--llm", "tiny-llama", "--lengths", "nowhere.csv"], "--lengths: expected sharegpt, alpaca or a CSV"),
        (["--llm", "tiny-llama", "--rate", "1", "--concurrency", "2"], "a closed loop has no --rate"),
        (["--llm", "tiny-llama", "--serve", "--rate", "1"], "leave --rate out"),
        (["--llm", "tiny-llama", "--num-blocks", "2", "--requests", "2"], "num_blocks 2 leaves 1"),
        (["--llm", "tiny-llama", "--tp", "3", "--requests", "2"], "tp 3: does not divide"),
        (["--llm", "Mixtral-8x7B-v0.1", "--num-blocks", "400", "--requests", "1"], "dense decoders only"),
        (["--policy", "vllm-v1"], "--policy: goes with --llm"),
    ],
)
def test_what_is_wrong_is_one_line(capsys, words, message):
    code, out, err = command(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_the_endpoint_until_ctrl_c():
    pytest.importorskip("uvicorn")
    httpx = pytest.importorskip("httpx")
    words = [sys.executable, "-m", "meshwright", "run", "--llm", "tiny-opt", "--serve", "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        said = server.stdout.readline()
        url = said.split(" at ")[1].split("/v1")[0]
        body = {"model": "tiny-opt", "prompt": "Hi", "max_tokens": 5, "ignore_eos": True}
        answer = httpx.post(f"{url}/v1/completions", json=body, timeout=60).json()
        assert answer["usage"]["completion_tokens"] == 5
        server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=30)
        assert server.returncode in (0, 130)
        assert "Traceback" not in err
    finally:
        server.kill()
        server.wait()
