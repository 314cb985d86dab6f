"""The compiled engine of LLM serving, which gives the answers of `reference` in a fraction of its time.

`engine.run_compiled` is the door, and `engine.why_not_compiled` says what it leaves to the reference. `kernel` runs one
engine by itself, in closed form between events; `fleet` runs several behind a router.
"""
