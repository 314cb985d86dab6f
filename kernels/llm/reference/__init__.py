"""The LLM kernels in plain torch: what Triton's are held to."""
