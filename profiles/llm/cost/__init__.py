"""Seconds of an iteration of an LLM engine, from kernels, rooflines and host time.

Begin with `iteration` (`iteration_cost`). `operators` prices any decoder from tables by operator, `layers` the one
model whose layers were measured; `attention` and `experts` are their parts, `overheads` the host's. `table` is the
result, and `grid` the same as arrays for compiled loops.
"""
