"""What an iteration of an LLM engine takes: kernels, rooflines, host time."""
