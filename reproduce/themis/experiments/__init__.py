"""What Themis' figures share: workloads, simulated points, and figures that the paper draws twice.

Begin with `points` (one simulation, and what is kept of it).
"""
