"""What stages cost: every run of layers on every submesh, priced by the intra-operator pass."""
