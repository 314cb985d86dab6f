"""Schedules of a graph of stages.

Begin with `in_flight` (Table 3.2: how many samples a stage must have in flight). `configs` tabulates it for the search,
`stage_graph` applies it to a graph of stages and estimates an iteration, and `greedy` orders passes by Algorithm 4.
"""
