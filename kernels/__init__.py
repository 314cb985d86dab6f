"""Torch and Triton kernels that profiles are taken with and the runtime runs on. Imports nothing of ours."""
