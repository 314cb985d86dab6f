"""How sequences grow and split: beam search (`genealogy`), speculative decoding, and workloads that need them."""
