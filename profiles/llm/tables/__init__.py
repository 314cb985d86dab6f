"""Kernels measured on one type of device: readers of two public formats, and grids between their points."""
