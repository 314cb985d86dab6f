"""A model spread over several processes."""
