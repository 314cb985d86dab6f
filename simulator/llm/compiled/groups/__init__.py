"""The compiled loop of the paper's vLLM; and of 0.2 where requests have several sequences, are swapped, share prefixes.

`run.serve_groups` fills the tables (`tables`) and `loop` runs them; `memory` restates the blocks, `beams` which beams
survive. It goes through all that run in every step, which the loop for single sequences (`kernel`) need not.
"""
