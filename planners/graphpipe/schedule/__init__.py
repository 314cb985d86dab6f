"""Schedules of a graph of stages: kFkB configurations, the greedy order, samples in flight."""
