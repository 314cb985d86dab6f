"""A decoder and its training by a configuration, in torch's own words: DTensor, `fully_shard`, pipelining.

The files of this room need torch alone and one another, so that an export copies them as they are.
"""
