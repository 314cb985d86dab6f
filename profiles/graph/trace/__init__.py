"""Training graphs out of torch modules."""
