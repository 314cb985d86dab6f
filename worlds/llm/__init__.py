"""The world of LLM serving: engines on a cluster, scored token by token."""
