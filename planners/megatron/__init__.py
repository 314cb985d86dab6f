"""Configuration search for decoder transformers: tensor, pipeline and data parallelism and what goes with them."""
