"""What can be asked of the world of LLM serving, and how it is answered."""
