"""The numba engine of one-shot serving, and counting for planners."""
