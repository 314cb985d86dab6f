"""The compiled engine of LLM serving: one engine in closed form between events."""
