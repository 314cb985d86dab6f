"""How sequences grow and split: parallel sampling, beam search, speculative decoding."""
