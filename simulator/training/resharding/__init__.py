"""How tensors get from one logical mesh to another."""
