"""`Program`: one list of actions per mesh, which a schedule emits, the simulator times and the runtime executes."""
