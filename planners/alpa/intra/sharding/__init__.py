"""Sharding specs of tensors (`specs`), and the cheapest way from one spec to another (`reshard`, on `moves`).

`states` sizes the optimiser's states under a spec.
"""
