"""GraphPipe (thesis ch. 3): its figures and table."""
