"""`Program`: one list of actions per mesh. A schedule emits it, the simulator times it, the runtime executes it.

`actions` is the readable form and `columns` the one that engines use. `transfers` puts sends and receives around the
passes, `messages` matches them, and `checks` proves that a program is whole and ends.
"""
