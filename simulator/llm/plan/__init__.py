"""`LLMPlan`: which engines serve which language models on which devices; its file, its simulation and its result."""
