"""Every run of layers at once: segments, their tables, and min-plus products along the chain."""
