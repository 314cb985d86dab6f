"""Plans over several device types as servers: nodes numbered through, nginx's weights, nodes by their accelerator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from meshwright.errors import InputError
from meshwright.profiles.llm import decoder
from meshwright.runtime.export.llm import export_llm
from meshwright.simulator import Cluster
from meshwright.simulator.llm.plan.drafts import DraftEntry
from meshwright.simulator.llm.plan.file import Deployment, LLMPlan, ServedModel
from meshwright.simulator.mixed import MixedCluster
from meshwright.simulator.plan.entries import PlannerEntry

OPTIONS = {"block_size": 16, "max_model_len": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 128}
SOURCE = {"chat": "meta-llama/Llama-3.1-8B"}


def mixed(router: str = "round_robin") -> LLMPlan:
    """One engine over two H100s, 60 % of the requests; two engines on L40Ss, 20 % each."""
    fleet = MixedCluster((Cluster(1, 4, "h100-80gb"), Cluster(2, 1, "l40s-48gb")))
    common = {"model": "chat", "config": OPTIONS, "num_blocks": 9000}
    return LLMPlan.of(
        fleet,
        (ServedModel.of(decoder("llama-3.1-8b"), name="chat"),),
        (
            Deployment(name="fast", tp=2, devices=((0, 1),), share=0.6, **common),
            Deployment(name="cheap", replicas=2, devices=((4,), (5,)), share=0.4, **common),
        ),
        planner=PlannerEntry(name="hand"),
        router=router,
    )


def test_scripts_lie_on_the_nodes_of_all_pools(tmp_path: Path) -> None:
    export_llm(mixed(), "vllm", tmp_path / "out", hosts=["a", "b", "c"], model_source=SOURCE)
    for node, devices in ((0, "0,1"), (1, "0"), (2, "0")):
        script = (tmp_path / f"out/node-{node}/serve.sh").read_text()
        assert re.findall(r"CUDA_VISIBLE_DEVICES=(\S+)", script) == [devices]
    assert not (tmp_path / "out/node-3").exists()
    servers = re.findall(r"server (\w+):\d+ weight=(\d+) max_fails", (tmp_path / "out/nginx.conf").read_text())
    assert servers == [("a", "6000"), ("b", "2000"), ("c", "2000")]
    with pytest.raises(InputError, match="hosts: the plan has 3 nodes"):
        export_llm(mixed(), "vllm", tmp_path / "few", hosts=["a"], model_source=SOURCE)


def test_pods_find_nodes_of_their_type(tmp_path: Path) -> None:
    export_llm(mixed(), "k8s", tmp_path / "out", model_source=SOURCE)
    for name, device in (("fast", "h100-80gb"), ("cheap", "l40s-48gb")):
        documents = list(yaml.safe_load_all((tmp_path / f"out/{name}.yaml").read_text()))
        pod = documents[-1]["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"accelerator": device}
    assert "weight=6000" in (tmp_path / "out/router.yaml").read_text()


def test_other_routers_do_not_go_with_shares(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beside shares of the requests"):
        export_llm(mixed("least_outstanding"), "vllm", tmp_path / "out", model_source=SOURCE)
    assert not (tmp_path / "out").exists()


def test_drafts_are_said_as_vllm_says_them(tmp_path: Path) -> None:
    plan = mixed()
    (fast, cheap), said = plan.deployments, {"tokens": 4, "acceptance": 0.7}
    drafted = tuple(
        each.model_copy(update={"speculative": DraftEntry.model_validate({**said, **more})})
        for each, more in ((fast, {"draft": "mtp"}), (cheap, {"draft": "llama-3.2-1b"}))
    )
    export_llm(plan.model_copy(update={"deployments": drafted}), "vllm", tmp_path / "out", model_source=SOURCE)
    told = [(tmp_path / f"out/node-{k}/serve.sh").read_text() for k in (0, 1)]
    assert '--speculative-config={"method": "mtp", "num_speculative_tokens": 4}' in told[0]
    assert '--speculative-config={"model": "llama-3.2-1b", "num_speculative_tokens": 4}' in told[1]
