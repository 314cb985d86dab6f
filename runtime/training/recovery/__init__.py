"""Training that is killed and goes on from its last checkpoint, for real, beside what the simulation said of it.

`saving` is the ranks' part: checkpoints and a journal. `run.run_with_failures` drives: it kills by a script, starts
again, and collects a `result`. `forecast` measures what a checkpoint and a restart cost here, and predicts the run.
"""
