"""The numba engine of one-shot serving, and counting for planners.

`engine.run` and `batching.run_batching` fill a column per request for `simulate`; `counting.count` only counts, for
planners that score thousands of placements. `kernel` holds the loop that `engine` and `counting` share.
"""
