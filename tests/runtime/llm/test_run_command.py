"""`meshwright run llm`: a workload through the engine, a plan's engine, and the endpoint, as commands."""

import json
import signal
import subprocess
import sys

import pandas as pd
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


OPT = ("llm", "--model", "tiny-opt")
TINY = ("llm", "--model", "tiny-llama")
SMALL = (*TINY, "--requests", "4", "--scale", "0.03", "--num-blocks", "40")


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
    code, out, _ = command(capsys, *OPT, "--trace", str(trace), "-s", "engine.max_num_batched_tokens=8")
    assert code == 0
    assert "2 requests: " in out
    assert "finished 2 of 2" in out


CLIENTS = "workload.clients."


@pytest.mark.parametrize(
    ("words", "gaps"),
    [
        (["-s", f"{CLIENTS}arrivals=constant", "--rate", "40"], [0.025] * 5),
        (["-s", f"{CLIENTS}arrivals=at_once"], [0.0] * 5),
    ],
    ids=["constant", "at once"],
)
def test_requests_are_sent_as_the_clients_say(capsys, tmp_path, words, gaps):
    rows = tmp_path / "rows.csv"
    code, out, err = command(capsys, *SMALL[:-5], "6", *SMALL[-4:], *words, "--out", str(rows))
    assert code == 0, err
    assert ("constant gaps" in out, "all at once" in out) == ("constant" in words[1], "at_once" in words[1])
    assert pd.read_csv(rows).arrival.diff()[1:].to_numpy() == pytest.approx(gaps)


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
    code, _, err = command(capsys, plan, "--tensor-parallel-size", "2")
    assert (code, err) == (2, "meshwright: engine.tensor_parallel_size: the plan says it; leave it out\n")


def test_clients_of_a_plans_case(capsys, tmp_path):
    """Two in a closed loop: the next request of one comes when its last is answered, and it has thought."""
    plan, rows = LLMPlan.load(plan_file(tmp_path / "plan.json", config={"max_model_len": 256})), tmp_path / "rows.csv"
    clients = {"arrivals": "closed", "concurrency": 2, "think": 0.01}
    said = {"case": {"workload": {"lengths": "sharegpt", "requests": 6, "clients": clients}}}
    words = (str(plan.model_copy(update=said).save(tmp_path / "closed.json")), "--requests", "6", "--scale", "0.03")
    code, out, err = command(capsys, *words, "--out", str(rows))
    assert code == 0, err
    assert "2 clients in a closed loop, thinking 0.01 s on average" in out
    table = pd.read_csv(rows)
    assert (table.arrival[2:].to_numpy() > table.finish[:-2].to_numpy()).all()
    assert (table.arrival[:2] == 0).all()
    code, out, err = command(capsys, *words, "--concurrency", "1", "--json")
    assert code == 0, err
    assert json.loads(out)["mean_batch"] <= 1


def test_options_of_the_scheduler_by_either_spelling(capsys):
    """What every engine has is a field of the case; what only some have is passed on by vLLM's name."""
    said = []
    for words in (("--max-num-seqs", "2"), ("-s", "engine.max_num_seqs=2"), ("--scheduler", "max_num_seqs=2")):
        code, out, err = command(capsys, *SMALL, *words, "--scheduler", "enable_chunked_prefill=true", "--json")
        assert code == 0, err
        said.append(json.loads(out))
    assert all(one["mean_batch"] <= 2 for one in said)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["llm", "--model", "tiny-lama"], "did you mean 'tiny-llama'"),
        ([*TINY, "--policy", "orca-max"], "engine.policy: the engine runs vllm-v1"),
        ([*TINY, "--policy", "vllm-0.6"], "with such steps (got 'vllm-0.6')"),
        ([*TINY, "--scheduler", "blocks"], "expected NAME=VALUE"),
        ([*TINY, "--scheduler", "max_num_seq=3"], "did you mean 'max_num_seqs'"),
        ([*TINY, "--deadline", "1"], "No such option: --deadline"),
        ([*TINY, "--lengths", "nowhere.csv"], "workload.lengths: expected sharegpt, alpaca or a CSV"),
        ([*TINY, "--rate", "1", "--concurrency", "2"], "a closed loop has no rate"),
        ([*TINY, "--front-end", "separate"], "workload.clients.front_end: the real engine takes requests straight"),
        ([*TINY, "--output-cv", "1"], "workload.clients.output_cv: a real run takes lengths as they are"),
        ([*TINY, "-s", f"{CLIENTS}arrivals=at_once"], "at_once has no rate; say how many requests"),
        (
            [*TINY, "-s", f"{CLIENTS}arrivals=constant", "--concurrency", "2"],
            "concurrency: workload.clients.arrivals say how requests are sent",
        ),
        ([*TINY, "--serve", "--arrivals", "constant"], "leave clients out"),
        ([*TINY, "--duration", "3"], "workload.duration: goes with a rate"),
        ([*TINY, "--serve", "--rate", "1"], "leave rate out"),
        ([*TINY, "--num-blocks", "2", "--requests", "2"], "num_blocks 2 leaves 1"),
        ([*TINY, "--tensor-parallel-size", "3", "--requests", "2"], "tp 3: does not divide"),
        (["llm", "--model", "Mixtral-8x7B-v0.1", "--num-blocks", "400", "--requests", "1"], "dense decoders only"),
        (["--policy", "vllm-v1"], "--policy"),
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
    words = [sys.executable, "-m", "meshwright", "run", *OPT, "--serve", "--port", "0"]
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
