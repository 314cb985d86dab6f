"""Torch modules that are trained: what graphs are traced from and the runtime is checked against."""
