"""The OpenAI-compatible endpoint: HTTP in front of the engine's thread."""
