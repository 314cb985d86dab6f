"""The shipped `alpaserve-v100` profiles, and where their numbers come from.

`shipped` holds what users call (`model_set`), `model` the documented model that fills in what was not measured, `fit`
the fits behind its constants, and `build` writes the shipped files.
"""
