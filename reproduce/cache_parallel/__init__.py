"""Cache Parallelism (thesis ch. 4): its figures."""
