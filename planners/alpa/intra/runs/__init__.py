"""Costs of every run of layers at once, by a dynamic programme along the chain of layers.

Begin with `intervals` (`interval_costs`). Layers are cut into `segments`; `segment_table` tabulates each kind of
segment (by `eliminate`), and `chain` multiplies the tables (min-plus) along the chain.
"""
