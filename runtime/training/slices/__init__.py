"""Plans whose microbatches are cut into token slices (TeraPipe).

Begin with `turns`, which numbers the slices of an iteration. `layout` cuts operators to a slice, `stage` runs slices
and keeps the keys and values of earlier ones, `executor` runs a rank's actions, and `job` sets a rank up.
"""
