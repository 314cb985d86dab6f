"""vLLM commands: their arguments are those that vLLM documents, and names cannot become options or code."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.runtime.export import export
from meshwright.simulator import Group, ParallelConfig, Plan


def documented() -> argparse.ArgumentParser:
    """The arguments that we use, as `vllm serve` of v0.8.5 documents them (docs.vllm.ai, "Engine Arguments")."""
    parser = argparse.ArgumentParser(prog="vllm serve", allow_abbrev=False, exit_on_error=False)
    parser.add_argument("model_tag")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--tensor-parallel-size", "-tp", type=int)
    parser.add_argument("--pipeline-parallel-size", "-pp", type=int)
    parser.add_argument("--gpu-memory-utilization", type=float)
    return parser


def servers(folder: Path) -> list[tuple[str, argparse.Namespace]]:
    """(CUDA_VISIBLE_DEVICES, parsed arguments) of each server that a script starts, as bash reads it."""
    script = folder / "serve.sh"
    subprocess.run(["bash", "-n", script], check=True)
    # A vllm that notes its arguments instead of serving, each server in a file of its own: they run side by side.
    stand_in = (
        f'vllm() {{ printf "%s\\0" "$CUDA_VISIBLE_DEVICES" "$@" >"{folder}/said-$BASHPID"; }}\n'
        "wait() { builtin wait; }\n"
    )
    without = subprocess.run(["bash", "-c", stand_in + script.read_text()], cwd=folder, capture_output=True, text=True)
    assert "VLLM_API_KEY" in without.stderr, "it must not listen on every address without a key"
    assert not list(folder.glob("said-*"))
    keyed = {**os.environ, "VLLM_API_KEY": "key"}
    subprocess.run(["bash", "-c", stand_in + script.read_text()], cwd=folder, timeout=30, check=False, env=keyed)
    found = []
    for path in folder.glob("said-*"):
        devices, serve, *rest = path.read_bytes().decode().split("\0")[:-1]
        path.unlink()
        assert serve == "serve"
        found.append((devices, documented().parse_args(rest)))
    return sorted(found, key=lambda item: item[1].port)


def make(plan: Plan, folder: Path, **options: Any) -> list[tuple[str, argparse.Namespace]]:
    export(plan, "vllm", folder, device="cuda", **options)
    return [server for node in sorted(folder.glob("node-*")) for server in servers(node)]


def test_one_server_per_model_and_group(pipelines: Plan, tmp_path: Path) -> None:
    found = make(pipelines, tmp_path / "x", port=9000)
    assert [
        (devices, s.served_model_name, s.tensor_parallel_size, s.pipeline_parallel_size) for devices, s in found
    ] == [
        ("0,1", ["a"], 1, 2),
        ("0,1", ["b"], 1, 2),
        ("2,3", ["b"], 2, 1),
        ("0,1", ["a"], 1, 2),
        ("0,1", ["b"], 1, 2),
        ("2", ["c"], 1, 1),
    ]
    ports = [s.port for _, s in found]
    assert len(set(ports)) == len(ports)
    endpoints = json.loads((tmp_path / "x/endpoints.json").read_text())
    assert {name: len(urls) for name, urls in endpoints.items()} == {"a": 2, "b": 3, "c": 1}


def test_models_of_a_group_share_its_memory(pipelines: Plan, tmp_path: Path) -> None:
    found = make(pipelines, tmp_path / "x")
    by_group: dict[tuple[int, str], float] = {}
    for devices, server in found[:3]:
        by_group[0, devices] = by_group.get((0, devices), 0.0) + server.gpu_memory_utilization
    assert all(0.85 <= total <= 0.9 for total in by_group.values()), by_group


def test_compose_says_the_same_as_the_script(pipelines: Plan, tmp_path: Path) -> None:
    make(pipelines, tmp_path / "x", image="registry.example/vllm:1")
    for node in (0, 1):
        folder = tmp_path / f"x/node-{node}"
        services = yaml.safe_load((folder / "docker-compose.yaml").read_text())["services"]
        composed = []
        for service in services.values():
            assert service["image"] == "registry.example/vllm:1"
            (reserved,) = service["deploy"]["resources"]["reservations"]["devices"]
            arguments = documented().parse_args([word.replace("$$", "$") for word in service["command"]])
            assert service["ports"] == [f"{arguments.port}:{arguments.port}"]
            composed.append((",".join(reserved["device_ids"]), arguments))
        assert sorted(composed, key=lambda item: item[1].port) == servers(folder)


def test_encoder_is_refused(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["m"])], architecture="bert-1.3b", device="a100-80gb")
    with pytest.raises(InputError, match=r"model 'm' is an encoder \(bert-1\.3b\).*export to triton"):
        export(plan, "vllm", tmp_path / "x", model_source={"m": "org/m"})
    assert not (tmp_path / "x").exists()


def test_unknown_architecture_needs_a_source(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["m"])], architecture="", device="a100-80gb")
    with pytest.raises(InputError, match=r"model 'm': no source of its weights.*--model-source m=NAME-OR-FOLDER"):
        export(plan, "vllm", tmp_path / "x")
    ((_, server),) = make(plan, tmp_path / "x", model_source={"m": "org/m"})
    assert server.model_tag == "org/m"


def test_bad_sources(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(1, 1), ["m"])], device="a100-80gb")
    with pytest.raises(InputError, match="no source"):
        export(plan, "vllm", tmp_path / "x", model_source={"m": "--trust-remote-code"})
    with pytest.raises(InputError, match="no model 'n'"):
        export(plan, "vllm", tmp_path / "x", model_source={"n": "org/m"})


def test_cores_are_refused(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'cpu-core' devices, vLLM's servers want GPUs"):
        export(make_plan([Group(ParallelConfig(1, 1), ["m"])]), "vllm", tmp_path / "x")


def test_group_over_nodes_is_refused(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    plan = make_plan([Group(ParallelConfig(8, 1), ["m"])], nodes=2, device="a100-80gb")
    with pytest.raises(InputError, match=r"groups\[0\] spans nodes 0, 1"):
        export(plan, "vllm", tmp_path / "x")


def test_hostile_names_are_data(make_plan: Callable[..., Plan], hostile: tuple[str, ...], tmp_path: Path) -> None:
    """Bash runs the script with a stand-in for vllm: each name arrives as it is, and nothing else has run."""
    plan = make_plan([Group(ParallelConfig(1, 1), hostile)], device="a100-80gb")
    sources = {name: f"org/{name}" for name in hostile}
    found = make(plan, tmp_path / "x", model_source=sources)
    assert [s.served_model_name for _, s in found] == [[name] for name in hostile]
    assert [s.model_tag for _, s in found] == list(sources.values())
    assert not list(tmp_path.rglob("pwned"))
    services = yaml.safe_load((tmp_path / "x/node-0/docker-compose.yaml").read_text())["services"]
    names = [documented().parse_args([w.replace("$$", "$") for w in s["command"]]) for s in services.values()]
    assert [n.served_model_name for n in names] == [[name] for name in hostile]
