"""The numba engine of a shared cluster: the answers of the SimPy model, no Python object per event."""
