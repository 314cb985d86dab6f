"""vLLM (SOSP '23; thesis ch. 5): its figures and tables."""
