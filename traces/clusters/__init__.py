"""Job logs of shared GPU clusters: Philly, Helios, Alibaba."""
