"""Between a scheduler of the simulator and the model: what lets the engine run each policy."""
