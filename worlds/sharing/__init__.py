"""The world of a shared cluster (Themis): many training apps, under a policy."""
