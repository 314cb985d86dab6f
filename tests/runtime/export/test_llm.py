"""LLM plans as vLLM servers: arguments that vLLM's own parser knows, scripts as bash reads them, manifests."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.profiles.llm import decoder, kv_capacity
from meshwright.runtime.export.llm import export_llm
from meshwright.runtime.export.llm.arguments import VLLM_VERSION, arguments, servers, spread
from meshwright.runtime.export.llm.routing import nginx
from meshwright.simulator import Cluster
from meshwright.simulator.llm.plan.file import Deployment, LLMPlan, ServedModel
from meshwright.simulator.serving.plan.file import PlannerEntry

HERE = Path(__file__).parent
V1 = {"block_size": 16, "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 128}


def plan(*deployments: Deployment, nodes: int = 1, router: str = "round_robin", device: str = "h100-80gb") -> LLMPlan:
    names = list(dict.fromkeys(d.model for d in deployments))
    models = tuple(ServedModel.of(decoder("llama-3.1-8b"), name=name) for name in names)
    return LLMPlan.of(
        Cluster(nodes, 4, device), models, deployments, planner=PlannerEntry(name="hand", seed=0), router=router
    )


def deployment(name: str = "main", **changes: Any) -> Deployment:
    said: dict[str, Any] = {"name": name, "model": "chat", "config": V1, "num_blocks": 9000, "devices": ((0,),)}
    said |= changes
    said.setdefault("replicas", len(said["devices"]))
    return Deployment(**said)


def parsed(said: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (argument.partition("=") for argument in said)}


FANCY = deployment(
    tp=4, cp=2, ep=True, precision="fp8", kv_precision="fp8", devices=((0, 1, 2, 3),), gpu_memory_utilization=0.85,
    config=V1 | {"enable_prefix_caching": False, "policy": "priority", "async_scheduling": True, "watermark": 0.01},
)  # fmt: skip
ADAPTED = deployment(
    config=V1 | {
        "max_loras": 2, "max_cpu_loras": 8, "max_num_active_seqs": 64, "sliding_window": 1024, "full_groups": 1,
        "window_groups": 1, "prefix_cache_retention_interval": 256,
    },
)  # fmt: skip
OVER_NODES = deployment(tp=4, pp=2, devices=((0, 1, 2, 3, 4, 5, 6, 7),))
APART = (deployment("in", role="prefill"), deployment("out", role="decode", devices=((1,),)))


def every_argument() -> list[list[str]]:
    """All that an export can say, each with a node's own arguments."""
    found: list[list[str]] = []
    for made, nodes in ((plan(FANCY), 1), (plan(ADAPTED), 1), (plan(OVER_NODES, nodes=2), 2), (plan(*APART), 1)):
        for server in servers(made, 9000):
            more = spread(server, "node-0", 29500)
            assert len(more) == nodes
            found += [[*arguments(made, server, "/models/x"), *extra] for extra in more]
    return found


def test_every_argument_is_one_of_vllms() -> None:
    listed = (HERE / "vllm_0_33_0_arguments.txt").read_text().splitlines()
    assert VLLM_VERSION in listed[0]
    used = {argument.partition("=")[0] for said in every_argument() for argument in said}
    # The parser lists the opposite of --enable-X as --disable-X, and takes --no-enable-X as well.
    spelt = {name.replace("--no-enable-", "--disable-") for name in used}
    assert spelt <= set(listed[1:]), spelt - set(listed)
    assert {"--num-gpu-blocks-override", "--decode-context-parallel-size", "--kv-transfer-config", "--headless"} <= used


def test_vllms_own_parser_takes_them() -> None:
    parser = pytest.importorskip("vllm.entrypoints.common.cli_args", reason="vLLM is not installed")
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    vllm = parser.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    for said in every_argument():
        options = vllm.parse_args(said)
        assert options.num_gpu_blocks_override == 9000
        assert options.max_num_batched_tokens == 2048


def test_the_schedule_is_said_in_full() -> None:
    said = parsed(arguments(plan(FANCY), servers(plan(FANCY), 9000)[0], "/models/x"))
    assert said["--tensor-parallel-size"] == "4"
    assert said["--decode-context-parallel-size"] == "2"
    assert said["--quantization"] == said["--kv-cache-dtype"] == "fp8"
    assert said["--num-gpu-blocks-override"] == "9000"
    assert said["--scheduling-policy"] == "priority"
    assert {"--no-enable-prefix-caching", "--async-scheduling", "--enable-expert-parallel"} <= set(said)
    assert said["--watermark"] == "0.01"
    plain = parsed(arguments(plan(deployment()), servers(plan(deployment()), 9000)[0], "org/model"))
    assert plain["--dtype"] == "bfloat16"
    assert "--quantization" not in plain
    assert "--no-async-scheduling" in plain
    assert plain["--max-num-seqs"] == "128"


def test_engines_over_nodes_find_each_other() -> None:
    made = plan(OVER_NODES, nodes=2)
    (server,) = servers(made, 9000)
    first, second = spread(server, "10.0.0.1", 29500)
    assert "--headless" in second
    assert "--headless" not in first
    assert parsed(first)["--node-rank"] == "0"
    assert parsed(second)["--node-rank"] == "1"
    assert parsed(first)["--nnodes"] == "2"


def test_scripts_start_what_the_plan_says(tmp_path: Path) -> None:
    made = plan(deployment(devices=((0,), (1,))), deployment("code", model="code", tp=2, devices=((2, 3),)))
    export_llm(made, "vllm", tmp_path / "x", port=9000, model_source={"chat": "org/chat; rm -rf /"})
    folder = tmp_path / "x/node-0"
    script = (folder / "serve.sh").read_text()
    stand_in = 'vllm() { printf "%s\\0" "$CUDA_VISIBLE_DEVICES" "$@" >"said-$BASHPID"; }\nwait() { builtin wait; }\n'
    subprocess.run(["bash", "-c", stand_in + script], cwd=tmp_path, timeout=30, check=False)
    started = sorted(p.read_bytes().decode().split("\0")[:-1] for p in tmp_path.glob("said-*"))
    assert [(s[0], s[1], parsed(s[2:])["--port"]) for s in started] == [
        ("0", "serve", "9002"), ("1", "serve", "9003"), ("2,3", "serve", "9004"),
    ]  # fmt: skip
    assert parsed(started[0][2:])["--model"] == "org/chat; rm -rf /"
    compose = yaml.safe_load((folder / "docker-compose.yaml").read_text())["services"]
    assert set(compose) == {"main-0", "main-1", "code-0", "router"}
    reserved = compose["code-0"]["deploy"]["resources"]["reservations"]["devices"][0]
    assert reserved["device_ids"] == ["2", "3"]
    assert compose["code-0"]["command"] == started[2][2:]
    assert compose["main-0"]["image"].endswith(f":v{VLLM_VERSION}")
    endpoints = json.loads((tmp_path / "x/endpoints.json").read_text())
    assert endpoints["chat"] == {
        "clients": "http://127.0.0.1:9000/v1",
        "servers": ["http://127.0.0.1:9002/v1", "http://127.0.0.1:9003/v1"],
    }
    assert LLMPlan.load(tmp_path / "x/plan.json") == made


def test_sources_name_models_in_any_case(tmp_path: Path) -> None:
    """`meshwright plan --models LLAMA-3.1-8b` takes any case, and the plan has the model's own name."""
    made = plan(deployment())
    export_llm(made, "vllm", tmp_path / "x", model_source={"CHAT": "org/chat"})
    assert "--model=org/chat" in (tmp_path / "x/node-0/serve.sh").read_text()
    with pytest.raises(InputError, match="model 'chat' has two sources"):
        export_llm(made, "vllm", tmp_path / "y", model_source={"chat": "org/a", "Chat": "org/b"})


def test_kv_capacity_is_printed_with_its_formula(tmp_path: Path) -> None:
    export_llm(plan(deployment()), "vllm", tmp_path / "x")
    text = (tmp_path / "x/capacity.txt").read_text()
    assert "bytes of a block = 2 x layers of the rank x block_size" in text
    assert "asked for: 9000 blocks = 143984 tokens" in text  # (9000 - 1) x 16
    block = kv_capacity(decoder("llama-3.1-8b"), 80 * 2**30).block_bytes
    assert block == 2 * 32 * 16 * 8 * 128 * 2
    assert f"/ {block} bytes a block" in text
    export_llm(plan(deployment(num_blocks=90_000)), "vllm", tmp_path / "y")
    assert "fewer than asked for" in (tmp_path / "y/capacity.txt").read_text()


def test_nginx_balances_as_the_router_does() -> None:
    two = [("chat", 8080, ["a:1", "b:2"])]
    assert "least_conn;" in nginx("least_outstanding", two)
    assert "least_conn;" not in nginx("round_robin", two)
    text = nginx("power_of_two", two)
    assert "random two least_conn;" in text
    assert text.count("{") == text.count("}")
    assert re.findall(r"server (\S+) max_fails", text) == ["a:1", "b:2"]
    with pytest.raises(InputError, match="nginx cannot see"):
        nginx("prefix_aware", two)
    assert "a:1" in nginx("prefix_aware", [("chat", 8080, ["a:1"])])  # one server: nothing to choose


def test_prefill_and_decode_apart_need_a_proxy(tmp_path: Path) -> None:
    export_llm(plan(*APART), "vllm", tmp_path / "x", port=9000)
    endpoints = json.loads((tmp_path / "x/endpoints.json").read_text())
    assert endpoints["chat"] == {"prefill": ["http://127.0.0.1:9001/v1"], "decode": ["http://127.0.0.1:9002/v1"]}
    assert not (tmp_path / "x/nginx.conf").exists()
    assert "must go through a proxy" in (tmp_path / "x/capacity.txt").read_text()
    script = (tmp_path / "x/node-0/serve.sh").read_text()
    assert script.count("VLLM_NIXL_SIDE_CHANNEL_PORT") == 2


def manifests(folder: Path) -> dict[tuple[str, str], Any]:
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return {
        (document["kind"], document["metadata"]["name"]): document
        for name in listed
        for document in yaml.safe_load_all((folder / name).read_text())
    }


def test_kubernetes_has_a_pod_for_each_engine(tmp_path: Path) -> None:
    made = plan(deployment(devices=((0,), (1,))), deployment("big", model="big", tp=2, devices=((2, 3),)))
    export_llm(made, "k8s", tmp_path / "x", namespace="prod")
    found = manifests(tmp_path / "x")
    main = found["StatefulSet", "main"]["spec"]
    assert main["replicas"] == 2
    container = found["StatefulSet", "big"]["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert parsed(container["args"])["--tensor-parallel-size"] == "2"
    config = found["ConfigMap", "router"]["data"]["nginx.conf"]
    assert re.findall(r"server (\S+) max_fails", config) == [
        "main-0.main.prod.svc:8000", "main-1.main.prod.svc:8000", "big-0.big.prod.svc:8000",
    ]  # fmt: skip
    ports = [p["port"] for p in found["Service", "router"]["spec"]["ports"]]
    assert ports == [8080, 8081]


def test_kubernetes_knows_every_field(tmp_path: Path) -> None:
    objects = pytest.importorskip("kubernetes_objects", reason="the kubernetes client is not installed")
    export_llm(plan(deployment(devices=((0,), (1,))), *_renamed(APART)), "k8s", tmp_path / "x")
    for (kind, name), document in manifests(tmp_path / "x").items():
        objects.read(document, objects.KINDS[document["apiVersion"], kind], f"{kind} {name}")


def _renamed(pair: tuple[Deployment, ...]) -> list[Deployment]:
    return [d.model_copy(update={"model": "other", "devices": ((2 + k,),)}) for k, d in enumerate(pair)]


def test_kubernetes_spreads_an_engine_over_nodes(tmp_path: Path) -> None:
    export_llm(plan(OVER_NODES, nodes=2), "k8s", tmp_path / "x")
    spec = manifests(tmp_path / "x")["LeaderWorkerSet", "main"]["spec"]
    assert spec["replicas"] == 1
    template = spec["leaderWorkerTemplate"]
    assert template["size"] == 2
    leader, worker = (template[k]["spec"]["containers"][0] for k in ("leaderTemplate", "workerTemplate"))
    assert "--headless" in worker["args"]
    assert "--headless" not in leader["args"]
    assert "--node-rank=$(LWS_WORKER_INDEX)" in worker["args"]
    assert leader["resources"]["limits"] == {"nvidia.com/gpu": "4"}


@pytest.mark.parametrize(
    ("made", "to", "options", "message"),
    [
        (plan(deployment(policy="orca-max", config={})), "vllm", {}, "no scheduler like 'orca-max'"),
        (plan(deployment(), device="cpu-core"), "vllm", {}, "vLLM's servers want GPUs"),
        (plan(deployment(num_blocks=2)), "vllm", {}, "2 KV blocks hold 32 tokens, and vLLM does not start"),
        (plan(deployment()), "triton", {}, "an LLM plan goes to vllm, k8s"),
        (plan(deployment()), "vllm", {"prot": 1}, "did you mean 'port'"),
        (plan(deployment()), "vllm", {"model_source": {"chat": "--trust"}}, "is no source of weights"),
        (plan(deployment()), "vllm", {"model_source": {"no": "x"}}, "the plan has no model 'no'"),
        (plan(deployment()), "vllm", {"hosts": ("a", "b")}, "the plan has 1 nodes"),
        (plan(deployment(devices=((0,), (1,))), router="prefix_aware"), "k8s", {}, "nginx cannot see"),
        (
            plan(
                deployment(gpu_memory_utilization=0.4), deployment("b", model="b", gpu_memory_utilization=0.4)
            ), "k8s", {}, "share device 0",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_said_before_anything_is_written(
    made: LLMPlan, to: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        export_llm(made, to, tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()


def test_the_verb_knows_an_llm_plan(tmp_path: Path) -> None:
    from meshwright.cli import run

    path = plan(deployment()).save(tmp_path / "plan.json")
    assert run(["export", str(path), "--to", "vllm", "--out", str(tmp_path / "x")]) == 0
    assert (tmp_path / "x/node-0/serve.sh").exists()
    assert run(["export", str(path), "--to", "torchrun", "--out", str(tmp_path / "y")]) == 2
