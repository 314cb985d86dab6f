"""Adapters between the simulator's schedulers and the real model: one per family of policies.

`base.Adapter` says what one does, `v1` and `paged` are those of vLLM V1 and of the paper's vLLM, `table` finds one.
"""
