"""Measuring the real engine's layers and host times on the present device.

`engine.measure_layers` is the door; `forward` times operators in their place, `job` runs in the workers, and `tables`
turns medians into what the cost model reads.
"""
