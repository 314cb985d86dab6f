"""Serving for real: a process per device, requests at their arrival times, and comparisons with the simulator.

`run.run` is the door: a `session` starts the workers (`processes`, `worker`) and a `controller` sends requests, with
the decisions of `dispatcher`, which asks the simulator's own policy objects. `calibrate` measures what a running
placement costs, `compare` runs plans beside their simulations, and `attribution` says why the two differ.
"""
