"""A model spread over several processes: `leader` is rank 0, `worker` the others, `groups` joins them."""
