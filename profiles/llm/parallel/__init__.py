"""How a decoder is spread over GPUs, and what the GPUs communicate.

Begin with `layout` (`Parallel`: degrees of parallelism) and `layer` (`decode_layer`: the costs of one layer).
`collectives` counts bytes and steps, `split` places tokens on shards, `merge` is the reference for merging their
attention, and `thesis` compares the printed volumes with ours.
"""
