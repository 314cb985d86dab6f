"""A uniform plan of a Llama-shaped decoder as a configuration of nanotron."""

from __future__ import annotations

from typing import Any

from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ..options import ExportOptions
from ..tree import File, yaml_text
from .launch import launch_line
from .llama import check_llama
from .uniform import ELSE, Uniform, uniform_layout

__all__ = ["SOURCE", "configuration", "nanotron"]

SOURCE = "nanotron 0.4, nanotron.config.Config"
"""The class that reads the file."""

ENGINES = {"1f1b": "1f1b", "gpipe": "afab"}


def nanotron(plan: TrainingPlan, graph: Graph, options: ExportOptions) -> dict[str, File]:
    """``config.yaml``, and ``README.md`` with what starts it and what the plan says beyond it.

    Raises
    ------
    InputError
        If nanotron cannot do what the plan says; names what stands in the way.
    """
    uniform = uniform_layout(plan, graph)
    return {
        "config.yaml": File(yaml_text(configuration(plan, graph))),
        "README.md": File(_readme(plan, uniform)),
        "plan.json": File(plan.to_json()),
    }


def configuration(plan: TrainingPlan, graph: Graph) -> dict[str, Any]:
    """The configuration.

    Raises
    ------
    InputError
        As `nanotron`.
    """
    uniform, sizes = uniform_layout(plan, graph), check_llama(graph, "nanotron")
    for wrong, what in (
        (uniform.virtual > 1 or (uniform.pipeline > 1 and plan.schedule not in ENGINES),
         f"nanotron's pipelines run 1f1b and gpipe, not {plan.schedule}"),
        (len(set(uniform.layers)) > 1,
         f"stages of {', '.join(map(str, uniform.layers))} layers: nanotron shares layers out by itself"),
        (uniform.recompute != "none", f"{uniform.recompute} recomputation: nanotron 0.4 has none"),
        (uniform.zero == 3, "weights cut as ZeRO stage 3: nanotron takes stages 0 and 1"),
        (plan.model.optimizer != "adam", f"optimizer {plan.model.optimizer}: nanotron has Adam alone"),
        (plan.model.dtype not in ("bfloat16", "float16", "float32"), f"dtype {plan.model.dtype}"),
        (bool(plan.microbatch % uniform.data),
         f"a microbatch of {plan.microbatch} samples does not divide over {uniform.data} data-parallel devices"),
    ):  # fmt: skip
        if wrong:
            raise InputError(f"export: {what}; {ELSE}")
    return {
        "general": {"project": "meshwright", "run": plan.model.name, "seed": 0},
        "parallelism": {
            "dp": uniform.data,
            "pp": uniform.pipeline,
            "tp": uniform.tensor,
            "pp_engine": ENGINES.get(plan.schedule, "1f1b"),
            "tp_mode": "REDUCE_SCATTER" if uniform.sequence_parallel and uniform.tensor > 1 else "ALL_REDUCE",
            "tp_linear_async_communication": False,
        },
        "model": {
            "dtype": plan.model.dtype,
            "init_method": {"std": 0.02},
            "make_vocab_size_divisible_by": 1,
            "model_config": {
                "is_llama_config": True,
                "hidden_size": sizes.hidden,
                "intermediate_size": sizes.ffn,
                "max_position_embeddings": sizes.seq,
                "num_attention_heads": sizes.heads,
                "num_hidden_layers": sizes.layers,
                "num_key_value_heads": sizes.kv_heads,
                "tie_word_embeddings": sizes.tied,
                "vocab_size": sizes.vocab,
            },
        },
        "tokenizer": {"tokenizer_name_or_path": None},
        "tokens": {
            "sequence_length": sizes.seq,
            "train_steps": 100,
            "micro_batch_size": plan.microbatch // uniform.data,
            "batch_accumulation_per_replica": plan.microbatches,
        },
        "optimizer": {
            "zero_stage": 1 if uniform.zero else 0,
            "weight_decay": 0.0,
            "clip_grad": None,
            "accumulate_grad_in_fp32": plan.model.dtype != "float32",
            "adam_eps": 1e-8,
            "adam_beta1": 0.9,
            "adam_beta2": 0.999,
            "torch_adam_is_fused": False,
            "learning_rate_scheduler": {
                "learning_rate": 1e-4, "lr_warmup_style": "linear", "lr_decay_style": "linear",
            },
        },
        "data": {"dataset": None, "seed": 0},
    }  # fmt: skip


def _readme(plan: TrainingPlan, uniform: Uniform) -> str:
    lines = [
        f"# {plan.model.name} with nanotron",
        "",
        f"`config.yaml` is for {uniform.tensor * uniform.data * uniform.pipeline} devices, as {SOURCE} reads it. Data "
        "are drawn; say a dataset, a tokenizer, steps and a learning rate.",
        "",
        f"    {launch_line(plan)} run_train.py --config-file config.yaml",
        "",
    ]
    if uniform.pipeline > 1:
        lines.append("- nanotron shares layers out by its own costs; the plan has equally many in each stage.")
    if uniform.zero == 2:
        lines.append("- The plan cuts gradients, too (ZeRO stage 2); nanotron's stage 1 cuts optimizer states alone.")
    return "\n".join(lines) + "\n"
