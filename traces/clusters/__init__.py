"""Job logs of shared GPU clusters: Microsoft's Philly, SenseTime's Helios, Alibaba's PAI.

Each reader gives a `jobs.ClusterLog`, plain records of jobs that no longer depend on the log's format.
"""
