"""The KV memory of an engine: pools of counted or hashed blocks, contiguous chunks, and where the slots go."""
