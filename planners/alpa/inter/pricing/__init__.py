"""The costs of stages: every run of layers on every submesh, priced by the intra-operator pass.

Begin with `pricer` (`Pricer`, `price_stages`) and `table` (`StageTable`, its result). `intra_pricer` asks Alpa's own
pass, `fixed_pricer` a fixed way of sharding. `repeats` finds runs that need to be priced only once, `refine` solves the
chosen stages exactly, and `workers` spreads the work over processes.
"""
