"""Measures what stages, token slices and messages of a training plan take on this machine.

Begin with `calibrate.calibrate_training`, which puts measured times into a plan, and `calibrate_slices`, the same for
plans with token slices. `slices.measure_slices` times slices of any lengths and contexts, for fitting TeraPipe's
latency model. `job` and `slices_job` are what the workers do for them.
"""
