"""What the headlines of vLLM's figures hinge on: each assumption moved alone."""
