"""`LLMPlan`: which engines serve which models on which devices."""
