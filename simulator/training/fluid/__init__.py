"""Links that are shared: passes and messages that need one link at the same time slow each other.

`loads` says what each of them needs of which link, `rates` how fast they go meanwhile, `reference` is the SimPy model,
`compiled` and `kernels` the fast engine. Begin with ``rates.py``.
"""
