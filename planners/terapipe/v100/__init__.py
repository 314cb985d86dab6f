"""A model of the V100s that TeraPipe's paper ran on, made from what the paper prints.

Begin with `cell` (`V100Cell`: seconds of a slice on one stage), then `iteration` (a whole iteration); `profile` writes
a cell as a slice profile, with which plans can be made.
"""
