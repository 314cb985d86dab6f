"""A uniform plan of a Llama-shaped decoder as a configuration of torchtitan: a Python function, as it reads them."""

from __future__ import annotations

from typing import Any

from .... import __version__
from ....errors import InputError
from ....profiles.graph import Graph
from ....simulator.training.plan.file import TrainingPlan
from ..options import ExportOptions
from ..tree import File
from .launch import launch_line
from .llama import check_llama
from .uniform import ELSE, Uniform, uniform_layout

__all__ = ["SOURCE", "parallelism", "torchtitan"]

SOURCE = "torchtitan 0.3.0, torchtitan.config.ConfigManager"
"""What reads the file: it takes functions that return a `Trainer.Config`, and no TOML."""

SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved_1f1b": "Interleaved1F1B"}

TEXT = '''\
"""{model}, written by Meshwright {version} for {source}.

On {devices} devices: `{launch} -m torchtitan.train --module planned --config planned`, with this folder on PYTHONPATH.
Tokenizer, data, steps and learning rate are yours to say, here or as arguments.
"""

from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.models import llama3
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.llama3.config_registry import llama3_debugmodel
from torchtitan.trainer import Trainer

WIDTH, HEADS, KV_HEADS, LAYERS, INNER, VOCABULARY, SEQUENCE = {sizes}


def model():
    """The decoder, built as torchtitan builds its own of this kind."""
    rope = ComplexRoPE.Config(dim=WIDTH // HEADS, max_seq_len=SEQUENCE, theta=10000, scaling="none")
    layers = llama3._build_llama3_layers(
        n_layers=LAYERS, dim=WIDTH, n_heads=HEADS, n_kv_heads=KV_HEADS, hidden_dim=INNER, rope=rope, attn_backend="flex"
    )
    norm, init = llama3._NORM_INIT, llama3._EMBEDDING_SKIP_INIT if {tied} else llama3._EMBEDDING_INIT
    return llama3.Llama3Model.Config(
        dim=WIDTH, vocab_size=VOCABULARY, enable_weight_tying={tied}, layers=layers,
        tok_embeddings=Embedding.Config(num_embeddings=VOCABULARY, embedding_dim=WIDTH, param_init=init),
        norm=RMSNorm.Config(normalized_shape=WIDTH, param_init=norm),
        lm_head=Linear.Config(
            in_features=WIDTH, out_features=VOCABULARY, param_init=llama3._output_linear_init(WIDTH)
        ),
    )


def planned() -> Trainer.Config:
    """The plan, on top of torchtitan's small model of this kind."""
    config = llama3_debugmodel()
    config.model_spec.model = model()
    config.model_spec.flavor = "planned"
    config.loss = ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=VOCABULARY))
    config.training = TrainingConfig({training})
    config.parallelism = ParallelismConfig({parallelism})
    config.activation_checkpoint = {checkpoint}
    config.validator.enable = False
    return config
'''


def torchtitan(plan: TrainingPlan, graph: Graph, options: ExportOptions) -> dict[str, File]:
    """``planned.py``.

    Raises
    ------
    InputError
        If torchtitan cannot do what the plan says; names what stands in the way.
    """
    uniform, sizes = uniform_layout(plan, graph), check_llama(graph, "torchtitan")
    training, degrees = _training(plan, uniform, sizes.seq), parallelism(plan, graph)
    text = TEXT.format(
        model=plan.model.name, version=__version__, source=SOURCE, launch=launch_line(plan), tied=sizes.tied,
        devices=uniform.tensor * uniform.data * uniform.pipeline, training=_arguments(training),
        parallelism=_arguments(degrees), checkpoint="FullAC.Config()" if uniform.recompute == "full" else "None",
        sizes=(sizes.hidden, sizes.heads, sizes.kv_heads, sizes.layers, sizes.ffn, sizes.vocab, sizes.seq),
    )  # fmt: skip
    return {"planned.py": File(text), "plan.json": File(plan.to_json())}


def parallelism(plan: TrainingPlan, graph: Graph) -> dict[str, Any]:
    """Arguments of torchtitan's `ParallelismConfig`.

    Raises
    ------
    InputError
        As `torchtitan`.
    """
    uniform = uniform_layout(plan, graph)
    for wrong, what in (
        (uniform.pipeline > 1 and plan.schedule not in SCHEDULES, f"torchtitan's pipelines do not run {plan.schedule}"),
        (uniform.recompute == "selective", "selective recomputation: torchtitan keeps other results"),
        (plan.model.optimizer != "adam", f"optimizer {plan.model.optimizer}: torchtitan's is AdamW"),
        (plan.model.dtype not in ("bfloat16", "float32"), f"dtype {plan.model.dtype}: torchtitan has none"),
        (bool(plan.microbatch % uniform.data),
         f"a microbatch of {plan.microbatch} samples does not divide over {uniform.data} data-parallel devices"),
    ):  # fmt: skip
        if wrong:
            raise InputError(f"export: {what}; {ELSE}")
    cut = uniform.zero > 0
    said: dict[str, Any] = {
        "data_parallel_replicate_degree": 1 if cut else uniform.data,
        "data_parallel_shard_degree": uniform.data if cut else 1,
        # ZeRO-2 keeps weights whole from the forward to the backward pass.
        "fsdp_reshard_after_forward": "always" if uniform.zero == 3 else "never",
        "tensor_parallel_degree": uniform.tensor,
        "enable_sequence_parallel": uniform.sequence_parallel,
        "pipeline_parallel_degree": uniform.pipeline,
    }
    if uniform.pipeline > 1:
        said["pipeline_parallel_schedule"] = SCHEDULES[plan.schedule]
        said["pipeline_parallel_microbatch_size"] = plan.microbatch // uniform.data
        said["module_fqns_per_model_part"] = _parts(uniform)
    return said


def _parts(uniform: Uniform) -> list[list[str]]:
    """Modules of each stage, by torchtitan's names."""
    parts, layer = list[list[str]](), 0
    for count in uniform.layers:
        parts.append([f"layers.{k}" for k in range(layer, layer + count)])
        layer += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "lm_head"]
    return parts


def _training(plan: TrainingPlan, uniform: Uniform, seq: int) -> dict[str, Any]:
    """Arguments of `TrainingConfig`. A pipeline's microbatches are those of one local batch, others accumulate."""
    samples = plan.global_batch if uniform.pipeline > 1 else plan.microbatch
    return {
        "local_batch_size": samples // uniform.data,
        "global_batch_size": plan.global_batch,
        "seq_len": seq,
        "steps": 100,
        "dtype": "float32",
        "mixed_precision_param": plan.model.dtype,
        "disable_cuda_graphs": uniform.pipeline > 1,  # it refuses them beside pipelines
    }


def _arguments(said: dict[str, Any]) -> str:
    return "".join(f"\n        {name}={value!r}," for name, value in said.items()) + "\n    "
