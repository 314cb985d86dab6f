"""torchrun scripts: bash reads them, torchrun's own parser reads their commands, and they really serve."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.runtime.export import export
from meshwright.simulator import Group, ParallelConfig, Plan


def commands(script: Path) -> list[list[str]]:
    """The words of each line that starts a program."""
    return [
        shlex.split(line.rsplit("&", 1)[0])
        for line in script.read_text().splitlines()
        if '"$PYTHON"' in line and not line.startswith("#")
    ]


def test_bash_reads_the_scripts(pipelines: Plan, tmp_path: Path) -> None:
    paths = export(pipelines, "torchrun", tmp_path / "x", hosts=("10.0.0.1", "gpu-2.example"))
    scripts = [p for p in paths if p.suffix == ".sh"]
    assert {p.name for p in scripts} == {"launch-node-0.sh", "launch-node-1.sh", "launch-all.sh", "env.sh"}
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
    assert (tmp_path / "x" / "hosts.txt").read_text() == "10.0.0.1 slots=4\ngpu-2.example slots=4\n"


def test_torchruns_own_parser_reads_the_commands(pipelines: Plan, tmp_path: Path) -> None:
    run = pytest.importorskip("torch.distributed.run", reason="torch is not installed")
    export(pipelines, "torchrun", tmp_path / "x")
    seen = []
    for node in (0, 1):
        for words in commands(tmp_path / "x" / f"launch-node-{node}.sh"):
            environment = [w for w in words if re.match(r"[A-Z_]+=", w)]
            rest = words[len(environment) :]
            assert rest[:2] == ["$PYTHON", "-m"]
            if rest[2] != "torch.distributed.run":
                assert rest[2] == "meshwright.runtime.service.router"
                assert node == 0
                continue
            parsed = run.get_args_parser().parse_args(rest[3:])
            assert parsed.module
            assert parsed.training_script == "meshwright.runtime.service.group"
            own = dict(zip(parsed.training_script_args[::2], parsed.training_script_args[1::2], strict=True))
            seen.append((node, int(own["--group"]), environment, parsed.nproc_per_node, parsed.nnodes))
    assert seen == [
        (0, 0, ["CUDA_VISIBLE_DEVICES=0,1"], "2", "1"),
        (0, 2, ["CUDA_VISIBLE_DEVICES=2,3"], "2", "1"),
        (1, 1, ["CUDA_VISIBLE_DEVICES=0,1"], "2", "1"),
        (1, 3, ["CUDA_VISIBLE_DEVICES=2"], "1", "1"),
    ]


def test_group_over_two_nodes_meets_on_its_first(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 2), ["m"], (5, 1))], nodes=2, device="a100-80gb")
    export(plan, "torchrun", tmp_path / "x", hosts=("one", "two"))
    (first,) = commands(tmp_path / "x" / "launch-node-1.sh")
    second = next(c for c in commands(tmp_path / "x" / "launch-node-0.sh") if "torch.distributed.run" in c)
    assert {"--nnodes=2", "--node-rank=0", "--master-addr=two", "CUDA_VISIBLE_DEVICES=1"} <= set(first)
    assert {"--nnodes=2", "--node-rank=1", "--master-addr=two", "CUDA_VISIBLE_DEVICES=1"} <= set(second)
    backends = json.loads((tmp_path / "x" / "router.json").read_text())["backends"]
    assert backends == ["http://two:8081"]


def test_ports_of_a_plan_do_not_meet(pipelines: Plan, tmp_path: Path) -> None:
    export(pipelines, "torchrun", tmp_path / "x")
    text = "".join(p.read_text() for p in sorted((tmp_path / "x").glob("launch-node-*.sh")))
    ports = re.findall(r"port[= ](\d+)", text)
    assert len(ports) == len(set(ports)) == 2 * 4 + 1


def test_wrong_number_of_hosts(pipelines: Plan, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 nodes \\(got 1 hosts\\)"):
        export(pipelines, "torchrun", tmp_path / "x", hosts=("one",))


def test_hostile_names_reach_no_script(
    make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path
) -> None:
    export(make_plan([Group(ParallelConfig(1, 1), hostile)]), "torchrun", tmp_path / "x")
    plain = make_plan([Group(ParallelConfig(1, 1), ["m"])])
    export(plain, "torchrun", tmp_path / "y")
    for script in (tmp_path / "x").glob("*.sh"):
        assert script.read_bytes() == (tmp_path / "y" / script.name).read_bytes()


def free_ports(n: int) -> int:
    """A port such that it, the `n` after it, and those 1000 above are free."""
    for base in range(18080, 30000, 37):
        wanted = [base + k for k in range(n + 1)] + [base + 1000 + k for k in range(n + 1)]
        try:
            for port in wanted:
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")


def post(port: int, model: str, data: list[int], shape: list[int] | None = None) -> tuple[int, dict[str, Any]]:
    tensor = {"name": "tokens", "shape": shape or [1, len(data)], "datatype": "INT64", "data": data}
    body = json.dumps({"inputs": [tensor]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v2/models/{model}/infer", body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture(scope="module")
def served(
    make_plan: Callable[..., Plan], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, Plan, subprocess.Popen[bytes]]]:
    """A split pair and the router, started by an exported script; test_service.py serves a pipeline over two nodes."""
    pytest.importorskip("torch", reason="torch is not installed")
    out, port = tmp_path_factory.mktemp("served") / "x", free_ports(1)
    plan = make_plan([Group(ParallelConfig(2, 1), ["m"])], devices_per_node=2)
    # An SLO that this busy machine keeps: the test is of the answers, not of the times.
    plan = plan.model_copy(update={"models": tuple(m.model_copy(update={"slo_s": 60.0}) for m in plan.models)})
    export(plan, "torchrun", out, port=port)
    environment = {**os.environ, "PYTHON": sys.executable, "GLOO_SOCKET_IFNAME": "lo"}
    with (out / "log").open("wb") as log:
        process = subprocess.Popen([out / "launch-node-0.sh"], stdout=log, stderr=log, env=environment)
    try:
        deadline = time.monotonic() + 90
        for k in (0, 1):
            while not ready(port + k):
                assert process.poll() is None, (out / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (out / "log").read_text()[-2000:]
                time.sleep(0.2)
        yield port, plan, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_script_serves_what_the_model_computes(served: tuple[int, Plan, subprocess.Popen[bytes]]) -> None:
    """Through the router and from the split group: the answer of the whole model on one device."""
    import torch
    from meshwright.kernels.specs import SPECS
    from meshwright.kernels.transformer import build_stage

    port, plan, _ = served
    tokens = list(range(16))
    (entry,) = plan.models
    spec = SPECS[entry.architecture]
    whole = build_stage(spec, 0, spec.n_layers, seed=entry.seed)(torch.tensor([tokens]))
    for where in (port, port + 1):
        status, answer = post(where, entry.name, tokens)
        assert status == 200, answer
        output = answer["outputs"][0]
        assert output["shape"] == list(whole.shape)
        torch.testing.assert_close(torch.tensor(output["data"]).view(whole.shape), whole, rtol=1e-4, atol=1e-4)


def test_service_refuses_what_it_cannot_serve(served: tuple[int, Plan, subprocess.Popen[bytes]]) -> None:
    port, _, _ = served
    assert post(port, "nope", [0] * 16)[0] == 404
    for data, shape in (([0] * 15, None), ([-1] * 16, None), ([64] * 16, None), ([0] * 16, [2, 16])):
        status, answer = post(port, "m", data, shape)
        assert status == 400
        assert "expected" in answer["error"]
    assert post(port, "m", [0] * 16)[0] == 200, "a bad request must not hurt the next one"


def test_ending_the_script_ends_all_that_it_started(served: tuple[int, Plan, subprocess.Popen[bytes]]) -> None:
    port, _, process = served
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    deadline = time.monotonic() + 15
    while any(ready(port + k) for k in (0, 1)):
        assert time.monotonic() < deadline, "a server outlived its script"
        time.sleep(0.1)
