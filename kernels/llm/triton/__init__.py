"""The LLM kernels in Triton."""
