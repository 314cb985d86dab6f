"""One pipeline stage on one device.

Begin with `layout`: how the stage's tensors are sharded and which collectives bring them to where operators read them,
all known before a run. `runner` runs the forward and backward passes and the update; `tape` is what it keeps between
the passes, and `recompute` says what it does not keep but computes again.
"""
