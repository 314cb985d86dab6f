"""The auto-sharding ILP (Alpa §4.2), solved to proven optimality, or with a proven gap if time runs out.

Begin with `sharding` (`solve_sharding`), whose docstring lists the steps, and `problem` (`ShardingProblem`, the input).
The steps: `presolve` shrinks the `model`, `elimination` minimises it exactly, `multipliers` prices memory, `ascent`
bounds graphs that are too wide, and `milp` hands the rest to HiGHS.
"""
