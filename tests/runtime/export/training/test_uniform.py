"""Plans as Megatron-LM's arguments and DeepSpeed's configuration, where they are uniform; else one clear refusal."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.profiles.graph import Graph, zoo_graph
from meshwright.profiles.graph.models.language import Llama
from meshwright.runtime.export.training import deepspeed as deepspeed_module
from meshwright.runtime.export.training import export_training
from meshwright.runtime.export.training import megatron as megatron_module
from meshwright.runtime.export.training.deepspeed import configuration
from meshwright.runtime.export.training.megatron import arguments
from meshwright.runtime.export.training.shape import transformer_sizes
from meshwright.runtime.export.training.uniform import uniform_layout
from meshwright.simulator.training.plan.file import OperatorEntry, StageEntry, TrainingPlan
from sharded_plans import sharded_plan

HERE = Path(__file__).parent
GPT = zoo_graph("tiny-gpt")
GROUPED = Llama(layers=4, hidden=32, heads=8, kv_heads=2, ffn=64, vocab=64, seq=8, dtype="bfloat16").graph("grouped")


def said(plan: TrainingPlan, graph: Graph) -> dict[str, str]:
    lines = arguments(plan, graph.with_batch(plan.microbatch))
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


def expert_plan(logical: tuple[int, int] = (2, 1)) -> tuple[TrainingPlan, Graph]:
    """Samples over axis 0, but experts in the products of experts."""
    graph = zoo_graph("tiny-moe")

    def experts(made: list[StageEntry]) -> list[StageEntry]:
        found: list[StageEntry] = []
        for stage in made:
            operators, parameters = dict(stage.operators), dict(stage.parameters)
            for name in [n for n in operators if n.endswith((".moe.up", ".moe.down"))]:
                old, up = operators[name], name.endswith("up")
                tensor = logical[1] > 1
                result = "S0RRS1" if tensor and up else "S0RRR"
                operands = ("S0RRS1" if tensor and not up else "S0RRR",
                            "S0RR" if not tensor else "S0RS1" if up else "S0S1R")  # fmt: skip
                operators[name] = OperatorEntry(axes=("e", old.axes[1]), result=result, operands=operands)
                parameters[f"{name}.weight"] = operands[1]
            found.append(stage.model_copy(update={"operators": operators, "parameters": parameters}))
        return found

    return sharded_plan(graph, (2, 2), logical, stages=experts), graph


def zero(level: int) -> Any:
    """Weights (3) or only gradients and states (2) of every parameter cut over axis 0, as far as it divides."""

    def change(made: list[StageEntry]) -> list[StageEntry]:
        cut = [{n: s.replace("R", "S0", 1) for n, s in stage.parameters.items()} for stage in made]
        key = "optimizer_states" if level == 2 else "parameters"
        return [s.model_copy(update={key: {**getattr(s, key), **c}}) for s, c in zip(made, cut, strict=True)]

    return change


def recomputing(kind: str) -> Any:
    return lambda made: [s.model_copy(update={"recompute": kind}) for s in made]


def sequence_parallel(made: list[StageEntry]) -> list[StageEntry]:
    """Norms of layers cut along the sequence over the tensor-parallel axis."""
    found: list[StageEntry] = []
    for stage in made:
        operators = dict(stage.operators)
        for name in [n for n in operators if ".norm" in n]:
            operators[name] = OperatorEntry(axes=("b", "s"), result="S0S1R", operands=("S0S1R", "R", "R"))
        found.append(stage.model_copy(update={"operators": operators}))
    return found


PLANS: dict[str, tuple[TrainingPlan, Graph]] = {
    "tensor, data, pipeline": (sharded_plan(GPT, (2, 2), (2, 2)), GPT),
    "paper's": (sharded_plan(zoo_graph("gpt3-39b"), (12,) * 4, (2, 4), device="v100-16gb"), zoo_graph("gpt3-39b")),
    "interleaved": (sharded_plan(GPT, (1,) * 4, (2, 1), meshes=2, schedule="interleaved_1f1b"), GPT),
    "unequal": (sharded_plan(GPT, (1, 3), (2, 1)), GPT),
    "llama": (sharded_plan(GROUPED, (2, 2), (1, 2)), GROUPED),
    "experts": expert_plan(),
    "zero2": (sharded_plan(GPT, (4,), (2, 2), stages=zero(2)), GPT),
    "zero3": (sharded_plan(GPT, (4,), (2, 1), stages=zero(3)), GPT),
    "full": (sharded_plan(GPT, (2, 2), (1, 2), stages=recomputing("full")), GPT),
    "selective": (sharded_plan(GPT, (2, 2), (1, 2), stages=recomputing("selective")), GPT),
    "sequence": (sharded_plan(GPT, (2, 2), (1, 2), stages=sequence_parallel), GPT),
}


def test_every_argument_is_one_of_megatrons() -> None:
    listed = (HERE / "megatron_arguments.txt").read_text().splitlines()
    assert listed[0].startswith(megatron_module.SOURCE)
    used = {name for plan, graph in PLANS.values() for name in said(plan, graph)}
    used |= {word for word in megatron_module.SCRIPT.split() if word.startswith("--")} - {
        "--nnodes={nodes}", "--nproc-per-node={per_node}",
    }  # fmt: skip
    used = {name for name in used if not name.startswith(("--node-rank", "--master"))}  # torchrun's
    assert used <= set(listed[1:]), used - set(listed)
    assert {"--expert-model-parallel-size", "--num-virtual-stages-per-pipeline-rank", "--swiglu"} <= used


def test_every_key_is_one_of_deepspeeds() -> None:
    listed = (HERE / "deepspeed_keys.txt").read_text().splitlines()
    assert listed[0].startswith(deepspeed_module.SOURCE)

    def keys(data: Mapping[str, Any], before: str = "") -> Iterator[str]:
        for key, value in data.items():
            yield before + key
            if isinstance(value, dict):
                yield from keys(value, f"{before}{key}.")

    used: set[str] = set()
    for plan, graph in (
        PLANS["zero2"], PLANS["zero3"], PLANS["unequal"], PLANS["experts"],
        (sharded_plan(GROUPED, (4,), (2, 2)), GROUPED),
    ):  # fmt: skip
        used |= set(keys(configuration(plan, graph.with_batch(plan.microbatch))))
    assert used <= set(listed[1:]), used - set(listed)
    assert {"bf16.enabled", "tensor_parallel.autotp_size"} <= used


def test_sizes_multiply_to_the_plans() -> None:
    """tp · pp · dp devices; global batch = micro batch · dp · microbatches, as both targets define it."""
    for plan, graph in PLANS.values():
        a = said(plan, graph)
        devices = sum(m.hosts * m.devices for m in plan.meshes)
        tp, pp = int(a["--tensor-model-parallel-size"]), int(a["--pipeline-model-parallel-size"])
        dp = devices // (tp * pp)
        assert tp * pp * dp == devices
        assert int(a["--micro-batch-size"]) * dp * plan.microbatches == int(a["--global-batch-size"]) == 16
    plan, graph = PLANS["zero2"]
    c = configuration(plan, graph.with_batch(plan.microbatch))
    product = c["train_micro_batch_size_per_gpu"] * c["gradient_accumulation_steps"]
    assert product * 2 == plan.global_batch  # two data-parallel groups of two tensor-parallel devices
    assert c["tensor_parallel"] == {"autotp_size": 2}
    assert c["zero_optimization"] == {"stage": 2}


def test_what_is_said() -> None:
    paper = said(*PLANS["paper's"])  # Table 6: hidden 8192, 48 layers, 64 heads
    assert [paper[f"--{x}"] for x in ("hidden-size", "num-layers", "num-attention-heads", "seq-length")] == [
        "8192", "48", "64", "1024",
    ]  # fmt: skip
    assert {"--fp16"} <= set(paper)
    assert "--untie-embeddings-and-output-weights" not in paper
    assert said(*PLANS["interleaved"])["--num-virtual-stages-per-pipeline-rank"] == "2"
    assert said(*PLANS["unequal"])["--pipeline-model-parallel-layout"] == "Et|t*3L"
    grouped = said(*PLANS["llama"])
    assert grouped["--num-attention-heads"] == "8"
    assert grouped["--num-query-groups"] == "2"
    assert {"--bf16", "--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights"} <= set(grouped)
    assert grouped["--position-embedding-type"] == "rope"
    experts = said(*PLANS["experts"])
    assert experts["--expert-model-parallel-size"] == "2"
    assert (experts["--num-experts"], experts["--moe-layer-freq"]) == ("4", "[0,1,0,1]")
    assert "--use-distributed-optimizer" in said(*PLANS["zero2"])
    assert said(*PLANS["zero3"])["--data-parallel-sharding-strategy"] == "optim_grads_params"
    assert said(*PLANS["full"])["--recompute-granularity"] == "full"
    assert said(*PLANS["selective"])["--recompute-granularity"] == "selective"
    assert "--sequence-parallel" in said(*PLANS["sequence"])
    assert "--sequence-parallel" not in said(*PLANS["tensor, data, pipeline"])


def test_shape_of_the_zoos_transformers() -> None:
    bert = transformer_sizes(zoo_graph("bert-large"))
    assert (bert.layers, bert.hidden, bert.heads, bert.ffn, bert.vocab, bert.seq) == (24, 1024, 16, 4096, 30522, 512)
    assert not bert.causal
    moe = transformer_sizes(zoo_graph("gshard-moe-70b"))
    assert (moe.experts, moe.top_k, moe.moe_layers[:3]) == (64, 2, (1, 3, 5))
    with pytest.raises(InputError, match="is a convolution; Megatron-LM trains transformers"):
        transformer_sizes(zoo_graph("tiny-resnet"))


def odd(**update: Any) -> Any:
    return lambda made: [made[0], made[1].model_copy(update=update)]


def whole_mlp(made: list[StageEntry]) -> list[StageEntry]:
    """In the second stage one product is whole where its neighbours are cut."""
    operators = dict(made[1].operators)
    operators["layers.2.mlp.up"] = OperatorEntry(axes=("b", "h"), result="S0RR", operands=("S0RS1", "S1R"))
    operators["layers.3.mlp.up"] = OperatorEntry(axes=("b", "b"), result="S01RR", operands=("S01RR", "RR"))
    return [made[0], made[1].model_copy(update={"operators": operators})]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (sharded_plan(GPT, (2, 2), (2, 2), stages=odd(recompute="full")), "stage 1 is not like stage 0: recomputation"),
        (
            sharded_plan(GPT, (2, 2), (2, 2), stages=whole_mlp),
            "stage 1 is not uniform: mesh axis 1 cuts tensors of most operators, but of 'layers.3.mlp.up' 'b' (batch)",
        ),
        (sharded_plan(GPT, (2, 2), (2, 2), stages=odd(operators={})), "stage 1: the plan does not say how"),
        (sharded_plan(GPT, (2, 2), (1, 2), schedule="gpipe"), "runs 1f1b and interleaved_1f1b, not gpipe"),
        (sharded_plan(GPT, (2, 2), (8, 1), microbatches=4), "a microbatch of 4 samples does not divide over 8"),
        (sharded_plan(GPT, (2, 2), (2, 2), tensor=("h",)), "stage 0 is not uniform"),
    ],
)  # fmt: skip
def test_what_is_not_uniform_names_the_stage(plan: TrainingPlan, message: str) -> None:
    with pytest.raises(InputError) as caught:
        arguments(plan, GPT.with_batch(plan.microbatch))
    assert message in str(caught.value)
    assert "--to torch" in str(caught.value) or "plan it" in str(caught.value)


def test_experts_and_tensors_need_sequence_parallelism() -> None:
    plan, graph = expert_plan((2, 2))
    sized = graph.with_batch(plan.microbatch)
    assert (uniform_layout(plan, sized).expert, uniform_layout(plan, sized).tensor) == (2, 2)
    with pytest.raises(InputError, match="Megatron-LM wants sequence parallelism"):
        arguments(plan, sized)


def test_layers_stay_whole_and_neighbours_together() -> None:
    inside = next(i for i, op in enumerate(GPT.operators) if op.name == "layers.1.norm2")
    plan = sharded_plan(GPT, (2, 2), (1, 2))
    from sharded_plans import stage_entry

    sized = GPT.with_batch(plan.microbatch)
    cut = [stage_entry(sized, 0, inside, 0, (1, 2)), stage_entry(sized, inside, len(GPT.operators), 1, (1, 2))]
    with pytest.raises(InputError, match=r"stage 1 begins inside layer 1 \(at 'layers.1.norm2'\)"):
        uniform_layout(plan.model_copy(update={"stages": tuple(cut), "transfers": ()}), sized)
    swapped = plan.model_copy(update={"meshes": plan.meshes[::-1]})
    with pytest.raises(InputError, match=r"stage 0 is on devices 2 … 3, expected 0 … 1"):
        uniform_layout(swapped, sized)

    def turned(made: list[StageEntry]) -> list[StageEntry]:
        """Axis 0 cuts tensors, axis 1 samples."""
        table = str.maketrans("01", "10")

        def swap(entry: OperatorEntry) -> OperatorEntry:
            return OperatorEntry(
                axes=entry.axes[::-1], result=entry.result.translate(table),
                operands=tuple(x.translate(table) for x in entry.operands),
            )  # fmt: skip

        return [
            s.model_copy(
                update={
                    "operators": {n: swap(e) for n, e in s.operators.items()},
                    "parameters": {n: x.translate(table) for n, x in s.parameters.items()},
                }
            )
            for s in made
        ]

    with pytest.raises(InputError, match="whose devices are not neighbours"):
        uniform_layout(sharded_plan(GPT, (2, 2), (2, 2), stages=turned), sized)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (PLANS["tensor, data, pipeline"][0], "DeepSpeed leaves that to Megatron-LM; export it --to megatron"),
        (PLANS["interleaved"][0], "DeepSpeed interleaves none"),
        (sharded_plan(GPT, (2, 2), (2, 1), stages=zero(2)), "DeepSpeed's pipelines take stages 0 and 1"),
        (sharded_plan(GPT, (2, 2), (2, 1), schedule="gpipe"), "DeepSpeed's pipelines run 1f1b, not gpipe"),
        (sharded_plan(GPT, (4,), (2, 2), stages=zero(3)), "goes with ZeRO stages 0 to 2, not 3"),
    ],
)
def test_what_deepspeed_cannot(plan: TrainingPlan, message: str) -> None:
    with pytest.raises(InputError) as caught:
        configuration(plan, GPT.with_batch(plan.microbatch))
    assert message in str(caught.value)


def test_files_and_nothing_where_it_cannot(tmp_path: Path) -> None:
    plan, graph = PLANS["unequal"]
    export_training(plan, "megatron", tmp_path / "m", graph=graph)
    lines = (tmp_path / "m/megatron-arguments.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == arguments(plan, graph.with_batch(plan.microbatch))
    export_training(plan, "deepspeed", tmp_path / "d", graph=graph)
    assert json.loads((tmp_path / "d/ds_config.json").read_text())["gradient_accumulation_steps"] == 4
    readme = (tmp_path / "d/README.md").read_text()
    assert "num_stages=2" in readme
    assert "A global batch is 16 samples: 2 in each of 2 data-parallel groups, 4 times." in readme
    with pytest.raises(InputError):
        export_training(PLANS["interleaved"][0], "deepspeed", tmp_path / "n", graph=GPT)
    assert not (tmp_path / "n").exists()
    with pytest.raises(InputError, match="did you mean 'megatron'"):
        export_training(plan, "megatrom", tmp_path / "n", graph=graph)
    with pytest.raises(InputError, match="was made for another graph"):
        export_training(plan, "torch", tmp_path / "n", graph=zoo_graph("tiny-moe"))


def test_the_script_gives_torchrun_every_argument(tmp_path: Path) -> None:
    """What bash hands over: each argument and its value as a word, brackets not taken for patterns."""
    plan, graph = PLANS["experts"]
    export_training(plan, "megatron", tmp_path / "x", graph=graph)
    (tmp_path / "x/0").write_text("a file that the pattern [0,1,0,1] would match")
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin/torchrun"
    stand_in.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@" >"$SAID"\n')
    stand_in.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{stand_in.parent}:{os.environ['PATH']}", "SAID": str(tmp_path / "said"), "MEGATRON": "/m",
    }  # fmt: skip
    subprocess.run([str(tmp_path / "x/train.sh"), "--seed", "7"], env=environment, timeout=30, check=True)
    words = (tmp_path / "said").read_text().split("\n")[:-1]
    assert words[0] == "--nnodes=1"
    assert "/m/pretrain_gpt.py" in words
    for line in arguments(plan, graph.with_batch(plan.microbatch)):
        name, _, value = line.partition(" ")
        assert not value or words[words.index(name) + 1] == value
    assert words[-2:] == ["--seed", "7"]


def with_optimizer(plan: TrainingPlan, name: str) -> TrainingPlan:
    return plan.model_copy(update={"model": plan.model.model_copy(update={"optimizer": name})})


def test_momentum_is_said_and_sgd_has_none() -> None:
    """Megatron-LM's --optimizer sgd takes --sgd-momentum, by default 0.9."""
    plan, graph = PLANS["tensor, data, pipeline"]
    for name, expected in (("momentum", 0.9), ("sgd", 0.0)):
        found = said(with_optimizer(plan, name), graph)
        assert "--sgd-momentum" in (HERE / "megatron_arguments.txt").read_text().splitlines()
        assert (found["--optimizer"], float(found["--sgd-momentum"])) == ("sgd", expected)
    plan, graph = PLANS["zero2"]
    c = configuration(with_optimizer(plan, "momentum"), graph.with_batch(plan.microbatch))
    assert c["optimizer"]["type"] == "SGD"
    assert c["optimizer"]["params"]["momentum"] == 0.9
    assert c["zero_allow_untested_optimizer"] is True
    c = configuration(with_optimizer(plan, "sgd"), graph.with_batch(plan.microbatch))
    assert "momentum" not in c["optimizer"]["params"]


def test_optimizers_that_a_target_lacks_are_one_line() -> None:
    plan, graph = PLANS["zero2"]
    small = graph.with_batch(plan.microbatch)
    with pytest.raises(InputError, match="optimizer adafactor: Megatron-LM has none; export it --to torch"):
        arguments(with_optimizer(plan, "adafactor"), small)
    with pytest.raises(InputError, match="optimizer momentum: Megatron-LM's distributed optimizer is Adam's alone"):
        arguments(with_optimizer(plan, "momentum"), small)
    with pytest.raises(InputError, match="optimizer adafactor: DeepSpeed flattens weights"):
        configuration(with_optimizer(plan, "adafactor"), small)
