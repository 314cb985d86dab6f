"""Several engines together: pools for prefill and decode, engines that fail, engines that are added and taken away.

`pools`, `faults` and `scaling` hold what a user says; `run.FleetRun` is the simulation. `engine.Engine` is the process
of one engine, which plain simulations use too, and `member.Member` is one that can fail and be drained.
"""
