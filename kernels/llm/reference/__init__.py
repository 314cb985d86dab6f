"""The LLM kernels in plain torch. Their docstrings define the kernels, and the Triton kernels are tested against
them."""
