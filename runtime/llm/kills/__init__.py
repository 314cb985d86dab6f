"""An engine that is killed while it serves, for real, beside what the simulation said of it.

`process` is the engine's process, `run.serve_with_kills` drives: it kills by a script, starts anew, sends requests
again. `rehearse` learns on other requests what starting and steps take; `forecast` predicts; `beside` compares.
"""
