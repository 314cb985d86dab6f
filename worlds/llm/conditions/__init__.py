"""What an LLM case says of machines that fail, of models that load, and of engines that are scaled by load."""
