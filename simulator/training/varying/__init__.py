"""Iterations whose times vary: the factors of one run, many iterations in a row, and the interval that they span.

Begin with `drawn`: which factor each action and message of a program gets. `iterations` simulates runs.
"""
