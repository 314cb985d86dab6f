"""A plan of the configuration search for torch: its decoder as files that need torch alone, and its configuration."""

from __future__ import annotations

from importlib.resources import files as package_files

from ....simulator.training.plan.file import TrainingPlan
from ...training.configured import config_of
from ..tree import File

__all__ = ["decoder_files"]

README = """\
# {model}, as configured, with torch alone

{devices} devices: tp {tp}, pp {pp}, dp {dp}, cp {cp}, ep {ep}; parameters shared by {shard} ({reshard}),
{microbatches} microbatches, {schedule}.

    {launch} -m decoder.train --config config.json --steps 100

- `decoder/`: the model and its training. Products are cut by DTensor (`parallelize_module`), parameters, gradients
  and states by `fully_shard` (of two dimensions where groups hold replicas), stages run by
  `torch.distributed.pipelining`; a sequence's tokens and experts are cut by the exchanges of `context.py` and
  `experts.py`.
- `--data file.py:batches` names a function that gives (tokens, labels) of ({batch}, {seq}); without it tokens are
  drawn from `--seed`. `--weights` and `--save`: state
  dicts (.pt, .safetensors) by the decoder's names, such as `layers.0.attention.q.weight`.
- `--dtype bfloat16` (the default) keeps parameters and reduces gradients in float32.
"""


def decoder_files(plan: TrainingPlan) -> dict[str, File]:
    """The folder's files.

    Raises
    ------
    InputError
        On a plan that the decoder cannot train by.
    """
    config = config_of(plan)
    way, node = config.way, plan.cluster.devices_per_node
    launch = f"torchrun --nproc-per-node {min(way.processes, node)}"
    if way.processes > node:
        launch += f" --nnodes {way.processes // node} --node-rank K --master-addr HOST"
    room = package_files("meshwright.runtime.training.decoder")
    code = sorted((one for one in room.iterdir() if one.name.endswith(".py")), key=lambda one: one.name)
    readme = README.format(
        model=plan.model.name, devices=way.processes, tp=way.tp, pp=way.pp, dp=way.dp, cp=way.cp, ep=way.ep,
        shard=way.shard, reshard="gathered again backward" if way.reshard else "gathered once", launch=launch,
        microbatches=way.microbatches, schedule=way.schedule, batch=way.global_batch, seq=config.shape.seq,
    )  # fmt: skip
    return {
        "plan.json": File(plan.to_json()),
        "config.json": File(config.to_json()),
        "README.md": File(readme),
        **{f"decoder/{one.name}": File(one.read_text(encoding="utf-8")) for one in code},
    }
