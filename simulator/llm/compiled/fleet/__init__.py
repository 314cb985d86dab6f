"""The compiled loop over several engines, with their routers, schedulers and memory in arrays."""
