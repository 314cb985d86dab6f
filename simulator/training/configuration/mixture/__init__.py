"""Mixtures of experts: what a model says of them (`parts`), their layer's block (`block`), the exchange of tokens
between devices (`dispatch`), and bytes (`held`)."""
