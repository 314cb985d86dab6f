"""Kernels measured on one type of device. Begin with `kernels` (`KernelTables.load`).

`operators` and `layers` read the two public formats, `checks` refuses wrong tables, and `grid` reads between measured
points.
"""
