"""Comparisons of the simulator with the real engine (`engine`), with a recorded run of vLLM (`vllm_run`), and with
benchmark rows that others measured (`silicon`)."""
