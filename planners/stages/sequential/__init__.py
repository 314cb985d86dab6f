"""The exact search for the sequential pipeline with the least bottleneck, which PipeDream and Piper share.

Begin with `search` (`plan_sequential`, `least_bottleneck`); `kernel` holds its compiled dynamic programmes, `options`
what may be chosen. The two planners differ only in the stages that they offer to it.
"""
