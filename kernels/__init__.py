"""Torch and Triton kernels: what profiles are measured on and what the runtime executes. Imports nothing of ours.

Begin with `specs` (`ModelSpec`: shapes of models) and `transformer` (`build_stage`: a pipeline stage of real layers,
from `layers` and `moe`). `timing` times callables, `bandwidth` measures a device. The room `llm` holds the kernels of
LLM engines, the room `training` the modules that are trained.
"""
