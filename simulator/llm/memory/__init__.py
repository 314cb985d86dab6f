"""The KV memory of an engine: how slots are allocated, shared and freed, and where they go.

`blocks` is the paper's vLLM (reference counts, copy-on-write, swapping), `prefix_blocks` is vLLM V1 (blocks found again
by hash), `buddy` and `contiguous` are Orca and FasterTransformer. `accounting` counts used and wasted slots of all.
"""
