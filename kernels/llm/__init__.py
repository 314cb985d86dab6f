"""Kernels of LLM engines: paged attention, KV writes and copies, in torch and in Triton."""
