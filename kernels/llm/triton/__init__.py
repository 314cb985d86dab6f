"""The LLM kernels in Triton, for GPUs. Begin with `kernels` (the set) and `attention` (how they are launched).

`decode`, `prefill`, `cache` and `gemm` hold the kernels themselves.
"""
