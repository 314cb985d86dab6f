"""Who runs in the next iteration: the schedulers of LLM engines, clock-free, and the routers before them."""
