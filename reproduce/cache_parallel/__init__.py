"""Cache Parallelism (thesis ch. 4): its figures, by the chapter's numbers. `decode_steps` holds what they share."""
