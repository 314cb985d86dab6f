"""A small real LLM engine: random weights, paged KV cache, the simulator's own schedulers and block managers."""
