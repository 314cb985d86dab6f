"""Fused parameters: those of a module that a graph holds in parts, such as queries, keys and values of one layer."""
