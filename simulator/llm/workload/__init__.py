"""Requests with prompt and output lengths (`requests.LLMTrace`): drawn at random (`draw`) or read (`files`)."""
