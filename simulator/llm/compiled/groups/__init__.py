"""The compiled loop of vLLM 0.2 where requests have several sequences, or are swapped, or share reserved prefixes.

`run.serve_groups` fills the tables (`tables`) and `loop` runs them; `memory` restates the blocks, `beams` which beams
survive. It goes through all that run in every step, which the loop for single sequences (`kernel`) need not.
"""
