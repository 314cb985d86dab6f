"""Handlers of aten calls by what they do: `drawn` of those that draw at random.

A handler makes operators of a draft of one call (`step.Step`); `walk` looks them up by the call's name.
"""
