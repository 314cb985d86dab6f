"""Meshwright: plan how to spread models over GPUs, simulate the plan, run it for real, and compare.

Nothing is imported here on purpose: users import the rooms, ``from meshwright import traces, simulator``.
"""

__version__ = "0.1.0"
