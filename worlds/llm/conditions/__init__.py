"""What an LLM case says of machines that fail, models that load, engines scaled by load, and steps that vary."""
