"""The compiled loop over several engines, with their routers, schedulers and memory in arrays.

`run.run_fleet` fills the tables (`tables`) and `loop` runs them. Each other file restates a part of the reference:
`v1`, `speculative`, `sarathi` and `contiguous` the schedulers, `blocks` and `buddy` the memory, `routers` the routers.
"""
